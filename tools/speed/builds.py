#!/usr/bin/env python3
"""Compares the kernels of two builds, which take turns. It fails if a kernel of the new build takes more than 3 % longer, so that
a slower kernel is seen before it lands. Seven rounds of all networks take about six minutes.

    git worktree add /tmp/old HEAD~1
    cargo build --release -p oomph-tools --bin xtask
    cargo build --release -p oomph-tools --bin xtask --manifest-path /tmp/old/Cargo.toml --target-dir /tmp/old-target
    python3 tools/speed/builds.py /tmp/old-target/release/xtask target/release/xtask
    python3 tools/speed/builds.py --rounds 3 OLD NEW lstm

Each round times the kernels of a training step in both builds (`xtask roofline --times`), the older one first in every second
round. A row has the fastest times of all rounds, and the median ratio of the rounds. A kernel counts as slower where both the
ratio of the fastest times and the median are: other programs disturb one of them more easily than both.
"""

import argparse
import json
import statistics
import subprocess
import sys

# The share by which a kernel may take longer.
TOLERATED = 0.03
# Kernels that take less of a step are not compared: their times are mostly those of waking threads.
LEAST = 0.01


def timed(build, network):
    line = subprocess.run([build, "roofline", "--times", network], capture_output=True, text=True, check=True).stdout
    step = json.loads(line)
    return {"the whole step": step["step"], **step["kernels"]}


def compared(builds, network, rounds):
    """The times of both builds by kernel, for each round."""
    times = ([], [])
    for index in range(rounds):
        for side in (0, 1) if index % 2 == 0 else (1, 0):
            times[side].append(timed(builds[side], network))
    return times


def rows(times):
    old, new = times
    step = min(of["the whole step"] for of in old)
    for kernel in sorted(set(old[0]) & set(new[0]), key=lambda kernel: -min(of[kernel] for of in old)):
        before, after = ([of[kernel] for of in side] for side in times)
        if min(before) >= LEAST * step:
            ratio = statistics.median(two / one for one, two in zip(before, after))
            yield kernel, min(before), min(after), ratio


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("networks", nargs="*", default=["resnet-18", "resnet-50", "lstm"])
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_intermixed_args()
    slower = []
    print("| network | kernel | old, ms | new, ms | fastest, new by old | median |\n|---|---|---:|---:|---:|---:|")
    for network in asked.networks:
        for kernel, before, after, ratio in rows(compared((asked.old, asked.new), network, asked.rounds)):
            print(f"| {network} | {kernel} | {1e3 * before:.2f} | {1e3 * after:.2f} | {after / before:.3f} | {ratio:.3f} |",
                  flush=True)
            if min(after / before, ratio) > 1 + TOLERATED:
                slower.append(f"{network}: {kernel}")
    if slower:
        sys.exit("error: slower by more than 3 %: " + "; ".join(slower))


main()
