#!/usr/bin/env python3
"""Compares `configs/resnet-photos.toml` with `configs/resnet-folder.toml`, over three seeds.

    python3 tools/augment_photos.py target/release/oomph --data ../shared/data/cifar10-mini --folder /tmp/photos --save

A third recipe trains as long as the first without its augmentation, which tells apart what length and augmentation give.
Some trainings run at a time. Trainings that are done stay in the folder and are not repeated. The tool fails where the recipe
gains less than 3 points.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

from table import Table

CONFIGS = pathlib.Path(__file__).resolve().parents[1] / "configs"
SEEDS = [0, 1, 2]
LEAST_GAIN = 3.0

PLAIN = ["data.augment.rand_augment=0"]
RECIPES = {
    "`resnet-folder.toml`": ("resnet-folder", []),
    "`resnet-photos.toml`, crop and flip alone": ("resnet-photos", PLAIN),
    "`resnet-photos.toml`": ("resnet-photos", []),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oomph", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="a folder with train and test")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where runs are")
    parser.add_argument("--jobs", type=int, default=2, help="how many trainings run at a time (2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of a training (1)")
    parser.add_argument("--save", action="store_true", help="writes docs/tables/augment-photos.json")
    return parser.parse_args()


def trained(options, recipe, seed):
    """The last line of a training's JSON."""
    config, settings = RECIPES[recipe]
    run = options.folder / f"{list(RECIPES).index(recipe)}-{seed}"
    done = run.with_suffix(".json")
    if not done.exists():
        more = [f"data.path={options.data}", f"train.seed={seed}", f"run.directory={run}", "run.save_every=never",
                "train.eval_every=10 epochs", f"device.threads={options.threads}", *settings]
        words = [word for setting in more for word in ("--set", setting)]
        answer = subprocess.run([options.oomph, "train", "--config", CONFIGS / f"{config}.toml", "--json", *words],
                                check=True, capture_output=True, text=True)
        done.write_text(answer.stdout.splitlines()[-1])
    return json.loads(done.read_text())


def main():
    options = arguments()
    options.oomph, options.folder, options.data = (it.resolve() for it in (options.oomph, options.folder, options.data))
    options.folder.mkdir(parents=True, exist_ok=True)
    command = "python3 tools/augment_photos.py target/release/oomph --data ../shared/data/cifar10-mini --folder /tmp/photos --save"
    table = Table(command, "recipe", *(f">seed {seed}" for seed in SEEDS), ">mean", ">standard deviation", ">mean eval loss")
    pairs = [(recipe, seed) for recipe in RECIPES for seed in SEEDS]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        ended = dict(zip(pairs, pool.map(lambda pair: trained(options, *pair), pairs)))
    means, losses = {}, {}
    for recipe in RECIPES:
        losses[recipe] = statistics.mean(ended[recipe, seed]["eval_loss"] for seed in SEEDS)
        found = [100 * ended[recipe, seed]["eval_accuracy"] for seed in SEEDS]
        means[recipe] = statistics.mean(found)
        spread = f"{statistics.stdev(found):.1f} points"
        table.add(recipe, *(f"{it:.1f} %" for it in found), f"{means[recipe]:.1f} %", spread, f"{losses[recipe]:.2f}")
    shipped, plain, augmented = means.values()
    table.figures = {"gain": f"{augmented - shipped:.1f}", "gain-of-length": f"{plain - shipped:.1f}"}
    _, table.figures["plain-loss"], table.figures["loss"] = (f"{it:.2f}" for it in losses.values())
    print(f"\n{augmented - shipped:+.1f} points, of which {plain - shipped:+.1f} by length")
    if options.save:
        table.save("augment-photos")
    sys.exit(augmented - shipped < LEAST_GAIN)


if __name__ == "__main__":
    main()
