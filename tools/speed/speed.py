#!/usr/bin/env python3
"""Compares oomph with PyTorch: the same network, batch, precision and optimizer. Both sides take turns, each in processes
of its own. Seven rounds of all networks take about fifteen minutes. `--save` writes docs/tables/speed.json, or speed-bf16.json
and so on for an option; `cargo xtask docs` shows it. A machine without AMX has tables of its own: speed-avx512.json,
speed-avx512-intel.json, speed-avx2.json. With `--save`, each network also adds a line to tools/speed/history.jsonl: date,
commit, machine, load before the first round, ratios.

    cargo build --release
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python                     # a Python with torch and torchvision
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --rounds 3 resnet18
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --precision bf16    # PyTorch by autocast
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --compile           # PyTorch by torch.compile
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --channels-last     # PyTorch's images in that form
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --device cuda:0     # cudnn.benchmark, channels_last, TF32
    python3 tools/speed/speed.py python3 --device cuda:0 --batch 256 resnet18  # fills a large GPU

Ratios above 1 are in oomph's favour for speed, ratios below 1 for memory. Each is the median over the rounds, with the
lowest and the highest. A step's time is the fastest step of its run, which other programs disturb least. The ratio of
the fastest steps of all rounds stands before the median. Evaluation computes loss and accuracy. oomph makes its samples
meanwhile; PyTorch repeats a few batches. Memory is the growth of the process since before the model was built. On a GPU
it is reserved memory in training and memory in use in evaluation.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

from networks import NETWORKS, sized
from sides import oomph, pytorch

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from table import Table, generation, machine  # noqa: E402

HISTORY = pathlib.Path(__file__).parent / "history.jsonl"


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def ratio(ours, theirs):
    """How many times as fast: the median over the rounds."""
    return statistics.median(their / our for our, their in zip(ours, theirs))


def faster(ours, theirs):
    """How many times as fast: the ratio of the fastest steps, and the spread over the rounds."""
    return f"{min(theirs) / min(ours):.2f}; {spread([their / our for our, their in zip(ours, theirs)])}"


def remember(history, options, rounds, load):
    """Adds lines to the history."""
    commit = subprocess.check_output(["git", "describe", "--always", "--dirty"], cwd=HISTORY.parent, text=True).strip()
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    about = {"date": today, "commit": commit, "machine": machine(), "load": round(load, 2), "rounds": rounds, "options": options}
    with open(HISTORY, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(about | line, ensure_ascii=False) + "\n" for line in history)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, help="instead of each network's own")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    asked = parser.parse_intermixed_args()
    if asked.steps < 2:
        parser.error("--steps: expected at least 2; the first step is not timed")
    options = [option for option, is_on in [(f"--precision {asked.precision}", asked.precision != "fp32"),
                                            ("--compile", asked.compile), ("--channels-last", asked.channels_last),
                                            (f"--batch {asked.batch}", asked.batch is not None),
                                            (f"--device {asked.device}", asked.device != "cpu")] if is_on]
    table = Table(" ".join(["python3 tools/speed/speed.py PYTHON", *options, "--save"]), "network", ">oomph, ms a step",
                  ">PyTorch", ">training, times as fast", ">evaluation", ">peak memory, training", ">evaluation",
                  ">first step, s")
    history, load = [], os.getloadavg()[0]
    for name in asked.networks:
        network = sized(name, asked.batch)
        rounds = [(oomph(network, asked), pytorch(name, asked)) for _ in range(asked.rounds)]
        ours, theirs = zip(*rounds)
        steps = [[min(side["seconds"]) for side in sides] for sides in (ours, theirs)]
        evaluation = [[side["evaluation"] for side in sides] for sides in (ours, theirs)]
        memory = [[our["peaks"][of] / their["peaks"][of] for our, their in rounds] for of in (0, 1)]
        first = [min(side["first"] for side in sides) for sides in (ours, theirs)]
        measured = {"training": ratio(*steps), "evaluation": ratio(*evaluation), "peak memory": statistics.median(memory[0]),
                    "peak memory of evaluation": statistics.median(memory[1])}
        history.append({"network": name, **{of: round(value, 3) for of, value in measured.items()}})
        table.add(network["says"], *(f"{1e3 * min(of):.1f}" for of in steps), faster(*steps),
                  faster(*evaluation), spread(memory[0]), spread(memory[1]), f"{first[0]:.2f}, {first[1]:.2f}")
    if asked.save:
        card = ""
        if asked.device != "cpu":
            asking = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
            name, driver = subprocess.check_output(asking, text=True).splitlines()[0].split(", ")
            card = f", {name}, driver {driver}"
        remember(history, options, asked.rounds, load)
        words = [] if asked.device != "cpu" or generation() == "amx" else [generation()]
        words += [option.split()[-1].lstrip("-").replace(":", "") for option in options]
        table.save("-".join(["speed", *words]), f"{card}, {asked.threads} threads, {asked.rounds} rounds, load {load:.1f}")


main()
