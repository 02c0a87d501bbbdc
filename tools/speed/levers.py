#!/usr/bin/env python3
"""Measures the least memory of a ResNet-50 at 224x224 with a batch of 8: levers that keep the mathematics, beside PyTorch's plain
step. Takes about five minutes. `--save` writes docs/tables/speed-levers.json; `cargo xtask docs` shows it.

    cargo build --release
    python3 tools/speed/levers.py /tmp/torchvenv/bin/python     # a Python with torch and torchvision

All rows and PyTorch take turns, each in a process of its own. A step's time is the fastest step of all rounds. Memory in use is that
of the device: what is offloaded lies in host memory, which on a CPU is memory of the same process. Memory of the process is its
growth since before the model was built; PyTorch's is measured so.
"""

import argparse
import pathlib
import sys

from networks import sized
from sides import oomph, pytorch

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from table import Table  # noqa: E402

NAME = "resnet50"
RECOMPUTE, RELEASE, ONE = "memory.recompute=stages", "memory.gradients=release", "memory.micro_batch=1"
OFFLOAD = "memory.offload=optimizer,activations"
LEVERS = [[], [RELEASE], [RECOMPUTE], [RECOMPUTE, RELEASE], [ONE, RECOMPUTE, RELEASE], [RECOMPUTE, RELEASE, OFFLOAD],
          [ONE, RECOMPUTE, RELEASE, OFFLOAD]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    sides = argparse.Namespace(python=asked.python, steps=5, threads=2, device="cpu", precision="fp32", batch=None, compile=False,
                               channels_last=False)
    network = sized(NAME, None)
    with_levers = [{**network, "settings": [*network["settings"], *levers]} for levers in LEVERS]
    rounds = [(pytorch(NAME, sides), [oomph(row, sides) for row in with_levers]) for _ in range(asked.rounds)]
    theirs = [side for side, _ in rounds]
    peak, fastest = min(side["peaks"][0] for side in theirs), min(min(side["seconds"]) for side in theirs)
    table = Table("python3 tools/speed/levers.py PYTHON --save", "training", ">memory in use", ">× PyTorch", ">memory of the process",
                  ">× PyTorch", ">step", ">× PyTorch")
    mib = lambda size: f"{size / 2**20:,.0f} MiB"
    table.add("PyTorch", "", "", mib(peak), "1.00", f"{fastest:.2f} s", "1.00")
    for index, levers in enumerate(LEVERS):
        ours = [sides[index] for _, sides in rounds]
        in_use, process = (min(values) for values in zip(*((side["in_use"], side["peaks"][0]) for side in ours)))
        seconds = min(min(side["seconds"]) for side in ours)
        table.add(" ".join(lever.removeprefix("memory.") for lever in levers) or "plain", mib(in_use), f"{in_use / peak:.2f}",
                  mib(process), f"{process / peak:.2f}", f"{seconds:.2f} s", f"{seconds / fastest:.2f}")
    if asked.save:
        table.save("speed-levers", f", {sides.threads} threads, {asked.rounds} rounds")


main()
