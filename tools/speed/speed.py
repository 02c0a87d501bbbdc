#!/usr/bin/env python3
"""oomph beside PyTorch: the same network, batch, precision and optimizer, in turns, each in processes of its own. Prints
the tables of docs/performance.md.

    cargo build --release
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python                     # a Python with torch and torchvision
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --rounds 3 resnet18
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --precision bf16    # PyTorch by autocast
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --compile           # PyTorch by torch.compile
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --channels-last     # PyTorch's images in that form
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --device cuda:0     # cudnn.benchmark, channels_last, no TF32

Ratios above 1 are in oomph's favour for speed, and below 1 for memory. Each is the median over the rounds, with the
lowest and the highest. A step's time is the fastest of its run, which other work on the machine disturbs least; before
the median stands the ratio of the fastest of all rounds, for machines whose cores are shared. Evaluation is of so many
samples, with loss and accuracy; oomph makes its samples meanwhile, and PyTorch takes a few batches again and again.
Memory is what the process was given beyond what it had before there was a model; on a GPU what was reserved there in
training, and what was in use there in evaluation.
"""

import argparse
import statistics

from networks import NETWORKS
from sides import oomph, pytorch


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def faster(ours, theirs):
    """How many times as fast: of the fastest, and over the rounds."""
    return f"{min(theirs) / min(ours):.2f}; {spread([their / our for our, their in zip(ours, theirs)])}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    asked = parser.parse_intermixed_args()
    if asked.steps < 2:
        parser.error("--steps: at least 2, of which the first is not timed")
    print("| network | oomph, s a step | PyTorch | training, times as fast | evaluation "
          "| peak memory, training | evaluation | first step, s |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in asked.networks:
        network = NETWORKS[name]
        rounds = [(oomph(network, asked), pytorch(name, asked)) for _ in range(asked.rounds)]
        ours, theirs = zip(*rounds)
        steps = [[min(side["seconds"]) for side in sides] for sides in (ours, theirs)]
        evaluation = [[side["evaluation"] for side in sides] for sides in (ours, theirs)]
        memory = [[our["peaks"][of] / their["peaks"][of] for our, their in rounds] for of in (0, 1)]
        first = [min(side["first"] for side in sides) for sides in (ours, theirs)]
        print(f"| {network['says']} | {min(steps[0]):.3f} | {min(steps[1]):.3f} | {faster(*steps)} | {faster(*evaluation)} "
              f"| {spread(memory[0])} | {spread(memory[1])} | {first[0]:.2f}, {first[1]:.2f} |", flush=True)


main()
