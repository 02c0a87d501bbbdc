#!/usr/bin/env python3
"""oomph beside PyTorch on the CPU: the same network, batch, precision and optimizer, in turns, each in processes of its
own. Prints the table of docs/performance.md.

    cargo build --release
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python                     # a Python with torch and torchvision
    python3 tools/speed/speed.py /tmp/torchvenv/bin/python --rounds 3 resnet18

Ratios above 1 are in oomph's favour for speed, and below 1 for memory. Each is the median over the rounds, with the
lowest and the highest. A step's time is the fastest of its run, which other work on the machine disturbs least. Memory
is what the process was given beyond what it had before there was a model.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from networks import NETWORKS, RUN, SGD

OOMPH = os.environ.get("OOMPH", "target/release/oomph")
HERE = pathlib.Path(__file__).parent


def ran(command):
    """What it printed, and the most memory it was given."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{err}")
    return out, used.ru_maxrss * 1024


def oomph(network, steps, threads):
    """Of some steps and an evaluation: the same figures that PyTorch's side prints."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = f"{folder}/run", f"{folder}/config.toml"
        pathlib.Path(config).write_text("")
        settings = [*network["settings"], *SGD, *RUN, f"train.batch={network['batch']}", f"train.steps={steps}",
                    f"data.test_samples={network['evaluated']}", f"device.threads={threads}", f"run.directory={run}"]
        _, before = ran([OOMPH, "--version"])
        begin = time.time()
        command = [OOMPH, "train", "--quiet", "--config", config]
        _, peak = ran(command + [part for setting in settings for part in ("--set", setting)])
        lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
        first = os.stat(f"{run}/config.toml").st_mtime - begin
        ends = [line["seconds"] for line in lines if line["event"] == "step"]
        seconds = [after - before for before, after in zip(ends, ends[1:])]
        evaluated, _ = ran([OOMPH, "evaluate", "--json", "--checkpoint", run])
        per_sample = 1 / json.loads(evaluated)["samples_per_second"]
    return {"seconds": seconds, "first": first + ends[0], "peak_bytes": peak - before, "evaluation": per_sample}


def pytorch(python, name, steps, threads):
    out, _ = ran([python, str(HERE / "other_side.py"), name, str(steps), str(threads)])
    return json.loads(out)


def spread(values, digits=2):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    asked = parser.parse_intermixed_args()
    print("| network | oomph, s a step | PyTorch | training, times as fast | evaluation | peak memory | first step, s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in asked.networks:
        network = NETWORKS[name]
        rounds = [(oomph(network, asked.steps, asked.threads), pytorch(asked.python, name, asked.steps, asked.threads))
                  for _ in range(asked.rounds)]
        ours, theirs = zip(*rounds)
        training = [min(their["seconds"]) / min(our["seconds"]) for our, their in rounds]
        evaluation = [their["evaluation"] / our["evaluation"] for our, their in rounds]
        memory = [our["peak_bytes"] / their["peak_bytes"] for our, their in rounds]
        fastest = [min(min(side["seconds"]) for side in sides) for sides in (ours, theirs)]
        first = [min(side["first"] for side in sides) for sides in (ours, theirs)]
        print(f"| {network['says']} | {fastest[0]:.3f} | {fastest[1]:.3f} | {spread(training)} | {spread(evaluation)} "
              f"| {spread(memory)} | {first[0]:.2f}, {first[1]:.2f} |", flush=True)


main()
