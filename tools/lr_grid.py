#!/usr/bin/env python3
"""Compares the learning rate that `find-lr` suggests with a grid of rates, for the shipped ResNet and LSTM on the digits.

    python3 tools/lr_grid.py target/release/oomph --folder /tmp/lr --save

Each rate trains a shipped config to its end, with the seeds 0, 1 and 2. Some trainings run at a time, each with one thread. The
suggestion is that of the same seed. The tool fails where there is none, or where the mean held-out accuracy of the suggested rates
is more than 2 points below that of the best rate of the grid. Trainings that are done stay in the folder.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

from table import Table

CONFIGS = {"resnet": "ResNet-18", "lstm": "LSTM"}
GRID = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
SEEDS = [0, 1, 2]
MOST_POINTS = 2.0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oomph", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where runs are")
    parser.add_argument("--jobs", type=int, default=2, help="how many trainings run at a time (2)")
    parser.add_argument("--save", action="store_true", help="writes docs/tables/lr-grid.json")
    return parser.parse_args()


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path.resolve(), folder

    def json(self, *words):
        answer = subprocess.run([self.path, *words, "--json"], cwd=self.folder, check=True, capture_output=True, text=True)
        return json.loads(answer.stdout.splitlines()[-1])

    def accuracy(self, config, lr, seed):
        """The held-out accuracy after the last epoch, in percent; `None` of a loss that is not finite."""
        name = f"{config}-{lr:g}-{seed}"
        done = self.folder / f"{name}.json"
        if not done.exists():
            settings = [f"train.seed={seed}", f"run.directory=runs/{name}", "run.save_every=never", "run.tensorboard=false",
                        "device.threads=1"]
            words = [word for setting in settings for word in ("--set", setting)]
            answer = subprocess.run([self.path, "train", config, "--lr", f"{lr:g}", "--json", *words], cwd=self.folder,
                                    capture_output=True, text=True)
            diverged = answer.returncode != 0 and "not finite" in answer.stderr
            if answer.returncode and not diverged:
                sys.exit(f"{name}: {answer.stderr}")
            done.write_text("null" if diverged else answer.stdout.splitlines()[-1])
        ended = json.loads(done.read_text())
        return 100 * ended["eval_accuracy"] if ended else None


def mean(values):
    return None if None in values else statistics.mean(values)


def main():
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    program = Program(options.oomph, options.folder.resolve())
    command = "python3 tools/lr_grid.py target/release/oomph --folder /tmp/lr --save"
    table = Table(command, "network", "learning rate", *(f">seed {seed}" for seed in SEEDS), ">mean")
    failed = False
    for config, name in CONFIGS.items():
        suggested = [program.json("find-lr", config, "--set", f"train.seed={seed}")["suggested"] for seed in SEEDS]
        if None in suggested:
            sys.exit(f"{name}: `find-lr` suggests no rate with one of the seeds {SEEDS}")
        rates = {f"{lr:g}": [lr] * len(SEEDS) for lr in GRID}
        of_find_lr = f"suggested: {', '.join(f'{lr:g}' for lr in suggested)}"
        rates[of_find_lr] = suggested
        pairs = dict.fromkeys(pair for lrs in rates.values() for pair in zip(lrs, SEEDS))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            ended = dict(zip(pairs, pool.map(lambda pair: program.accuracy(config, *pair), pairs)))
        means = {}
        for label, lrs in rates.items():
            found = [ended[pair] for pair in zip(lrs, SEEDS)]
            means[label] = mean(found)
            cells = ["diverged" if it is None else f"{it:.1f} %" for it in [*found, means[label]]]
            table.add(name, label, *cells)
        best = max(means[f"{lr:g}"] or 0 for lr in GRID)
        lost = best - (means[of_find_lr] or 0)
        table.figures[config] = f"{lost:.1f}"
        print(f"\n{name}: {lost:.1f} points below the best rate of the grid", flush=True)
        failed |= lost > MOST_POINTS
    if options.save:
        table.save("lr-grid")
    sys.exit(failed)


if __name__ == "__main__":
    main()
