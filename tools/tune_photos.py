#!/usr/bin/env python3
"""Searches settings for a ResNet on photos with `configs/tune-photos.toml`, and compares the best with the shipped ones.

    python3 tools/tune_photos.py target/release/oomph --data ../shared/data/cifar10-mini --folder /tmp/photos --save

The search takes about 40 minutes on two cores, and goes on in the same folder where it was stopped. Afterwards the best trial's
config and the shipped config are trained with the seeds 0, 1 and 2.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess

from table import Table

CONFIG = pathlib.Path(__file__).resolve().parents[1] / "configs/tune-photos.toml"
SEEDS = [0, 1, 2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oomph", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where study and runs are")
    parser.add_argument("--save", action="store_true", help="writes docs/tables/search-photos.json")
    return parser.parse_args()


class Program:
    def __init__(self, path, folder, data):
        self.path, self.folder, self.data = path.resolve(), folder, data.resolve()

    def json(self, *words):
        answer = subprocess.run([self.path, *words, "--json"], cwd=self.folder, check=True, capture_output=True, text=True)
        return json.loads(answer.stdout.splitlines()[-1])

    def accuracy(self, name, config, seed):
        """Accuracy of a whole training, which is not repeated where it is there."""
        kept = self.folder / f"{name}-{seed}.json"
        if not kept.exists():
            done = self.json("train", "--config", str(config), "--set", f"data.path={self.data}", "--set", f"train.seed={seed}",
                             "--set", f"run.directory=seeds/{name}-{seed}")
            kept.write_text(json.dumps(done))
        return json.loads(kept.read_text())["eval_accuracy"]


def minutes(journal):
    """From the first trial's beginning to the last one's end."""
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    dates = [record[key] for record in records for key in ("datetime_start", "datetime_complete") if record.get(key)]
    dates = [datetime.datetime.fromisoformat(date) for date in dates]
    return (max(dates) - min(dates)).total_seconds() / 60


def main():
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    program = Program(options.oomph, options.folder, options.data)
    status = program.json("tune", "--config", str(CONFIG), "--set", f"data.path={program.data}", "--quiet")
    best = program.json("tune", "--name", "tune-photos", "--best", "best.toml", "--force")
    took = minutes(options.folder / "tunes/tune-photos/study.log")
    command = "python3 tools/tune_photos.py target/release/oomph --data ../shared/data/cifar10-mini --folder /tmp/photos --save"
    table = Table(command, "settings", *(f">seed {seed}" for seed in SEEDS), ">mean", ">standard deviation")
    means = {}
    for name, config in [("shipped", CONFIG), ("best trial", options.folder / "best.toml")]:
        accuracies = [100 * program.accuracy(name.replace(" ", "-"), config, seed) for seed in SEEDS]
        means[name] = statistics.mean(accuracies)
        table.add(name, *(f"{it:.1f} %" for it in accuracies), f"{means[name]:.1f} %", f"{statistics.stdev(accuracies):.1f} %")
    settings = ", ".join(f"{key} = {value}" for key, value in (best["parameters"] | best.get("adapted", {})).items())
    print(f"\n{status['trials']} trials in {took:.0f} minutes; the best: {settings}; "
          f"{means['best trial'] - means['shipped']:+.1f} points")
    if options.save:
        table.save("search-photos", f"; {status['trials']} trials in {took:.0f} minutes")


if __name__ == "__main__":
    main()
