#!/usr/bin/env python3
"""Measures how a step's time grows with its work: batch, width, depth, steps of a sequence. Takes about five minutes. `--save`
writes docs/tables/growth.json; `cargo xtask docs` shows it.

    cargo build --release
    python3 tools/speed/growth.py

A row compares one value of a setting with its smallest value. Work is the multiplications of a forward pass, as `oomph
summary` counts them. Time is the fastest step of the runs, which take turns. A ratio of time below the ratio of work is
in oomph's favour.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from networks import images
from sides import OOMPH, oomph

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from table import Table  # noqa: E402

RESNET = ["model.name=resnet18", "model.stem=small", *images(32, 10)]
LSTM = ["model.name=lstm", "data.source=synthetic", "data.kind=sequence", "data.features=128", "data.classes=10",
        "data.train_samples=640"]


def lstm(hidden=256, layers=1, steps=64):
    return [*LSTM, f"model.hidden={hidden}", f"model.layers={layers}", f"data.steps={steps}"]


# The settings and the batch of each value.
SERIES = {
    "ResNet-18, batch": {batch: (RESNET + ["model.width=32"], batch) for batch in (8, 16, 32, 64)},
    "ResNet-18, width": {width: (RESNET + [f"model.width={width}"], 16) for width in (16, 32, 64, 128)},
    "ResNet, layers": {depth: ([s.replace("resnet18", f"resnet{depth}") for s in RESNET] + ["model.width=32"], 16)
                       for depth in (18, 34)},
    "LSTM, batch": {batch: (lstm(), batch) for batch in (16, 32, 64, 128)},
    "LSTM, hidden units": {hidden: (lstm(hidden=hidden), 32) for hidden in (128, 256, 512)},
    "LSTM, layers": {layers: (lstm(layers=layers), 32) for layers in (1, 2, 4)},
    "LSTM, steps": {steps: (lstm(steps=steps), 16) for steps in (80, 320, 1280)},
}


def work(settings, batch):
    with tempfile.NamedTemporaryFile(suffix=".toml") as config:
        command = [OOMPH, "summary", "--json", "--config", config.name, "--batch", str(batch)]
        told = subprocess.run(command + [part for setting in settings for part in ("--set", setting)],
                              capture_output=True, text=True, check=True).stdout
    return sum(row["multiply_adds"] for row in json.loads(told)["rows"] if row["depth"] == 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--save", action="store_true")
    parser.set_defaults(threads=2, device="cpu", precision="fp32")
    asked = parser.parse_args()
    table = Table("python3 tools/speed/growth.py --save", "what grows", ">to", ">work, times", ">time, times", ">s a step")
    for name, series in SERIES.items():
        seconds = {value: [] for value in series}
        for _ in range(asked.rounds):
            for value, (settings, batch) in series.items():
                network = {"settings": settings, "batch": batch, "evaluated": batch}
                seconds[value].append(min(oomph(network, asked)["seconds"]))
        first = next(iter(series))
        for value, (settings, batch) in series.items():
            more = work(settings, batch) / work(*series[first])
            longer = min(seconds[value]) / min(seconds[first])
            table.add(name, value, f"{more:.2f}", f"{longer:.2f}", f"{min(seconds[value]):.4f}")
    if asked.save:
        table.save("growth", f", {asked.rounds} rounds")


main()
