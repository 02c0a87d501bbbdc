#!/usr/bin/env python3
"""What each memory lever saves and costs, measured by the `oomph` program: the tables of docs/.

    cargo build --release
    python3 tools/levers.py activations     # bytes an image of ResNet-50 at 224, by precision, recompute and lean
    python3 tools/levers.py stages          # ResNet-18 and an LSTM of 1,024 steps: peaks and times of recomputation
    python3 tools/levers.py auto            # recompute = "auto" under limits from all down to the least
    python3 tools/levers.py quality [PHOTOS [SEEDS]]  # digits, and photos in folders, in fp32, bf16 and fp16

Every training runs in a process of its own. Times are of one machine, and wanting an idle one.
"""

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

OOMPH = os.environ.get("OOMPH", "target/release/oomph")
RESNET18 = ["--config", "resnet18-cifar10", "--set", "data.source=synthetic", "--set", "data.kind=image"]
LSTM = ["--config", "lstm", "--set", "data.source=synthetic", "--set", "data.kind=sequence",
        "--set", "data.steps=1024", "--set", "data.features=64", "--set", "model.hidden=128"]


def compare(*arguments):
    """The rows of `oomph compare`."""
    command = [OOMPH, "compare", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)["rows"]


def processor_seconds():
    """What the processes that ended took of the processors. Other work on the machine disturbs it less than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def slope(points):
    """Bytes a sample, by least squares."""
    mean_x, mean_y = (statistics.fmean(values) for values in zip(*points))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def activations():
    print("| precision | recompute | lean | planned MB/image | measured MB/image |\n|---|---|---|---:|---:|")
    policies = [("fp32", "none", "false"), ("fp32", "none", "true"), ("bf16", "none", "true"),
                ("bf16", "stages", "true")]
    for precision, recompute, lean in policies:
        rows = compare("--config", "synthetic-resnet50", "--steps", "3", "--batches", "4,8,12", "--precisions",
                       precision, "--recompute", recompute, "--lean", lean)
        planned = slope([(row["batch"], row["planned_peak_bytes"]) for row in rows]) / 1e6
        measured = slope([(row["batch"], row["peak_in_use_bytes"]) for row in rows]) / 1e6
        print(f"| {precision} | {recompute} | {lean} | {planned:.1f} | {measured:.1f} |", flush=True)


def stages():
    print("| model | recompute | lean | bytes a sample | × | step | × |\n|---|---|---|---:|---:|---:|---:|")
    all_policies = [("false", "none"), ("true", "none"), ("true", "stages")]
    # Burn's operations take 44 s a step for so long a sequence.
    for name, config, batches, policies in [("resnet18", RESNET18, "32,64,128", all_policies),
                                            ("lstm T 1,024", LSTM, "8,16,32", all_policies[1:])]:
        first = None
        for lean, recompute in policies:
            rows = compare(*config, "--steps", "10", "--batches", batches, "--recompute", recompute, "--lean", lean)
            size = slope([(row["batch"], row["peak_in_use_bytes"]) for row in rows])
            time = rows[-1]["step_seconds"]
            first = first or (size, time)
            print(f"| {name} | {recompute} | {lean} | {size / 1e6:.2f} MB | {size / first[0]:.2f} "
                  f"| {time:.2f} s | {time / first[1]:.2f} |", flush=True)


def auto():
    print("| model | limit | recompute | peak in use | step | of the processors |\n|---|---:|---|---:|---:|---:|")
    steps = 8
    for name, config in [("resnet18", [*RESNET18, "--set", "train.batch=64"]), ("lstm T 1,024", LSTM)]:
        most, least = (row["planned_peak_bytes"] for row in
                       compare(*config, "--recompute", "none,stages", "--plan-only"))
        # What a plan is too low by at most has to be free beside it.
        limits = [int(1.011 * (least + (most - least) * share / 10)) for share in range(10, -1, -1)]
        for limit, recompute in [*((limit, "auto") for limit in limits), (2 * most, "stages")]:
            before = processor_seconds()
            [row] = compare(*config, "--recompute", recompute, "--memory-limit", str(limit), "--steps", str(steps))
            used = (processor_seconds() - before) / steps
            peak = row["peak_in_use_bytes"]
            verdict = "" if peak is not None and peak <= limit else " ABOVE"
            print(f"| {name} | {limit / 2**20:.0f} MiB | {recompute} | {(peak or 0) / 2**20:.0f} MiB{verdict} "
                  f"| {row['step_seconds'] or 0:.2f} s | {used:.2f} s |", flush=True)


def accuracy(arguments):
    """The accuracy on held-out data at the end of `oomph train`."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = [OOMPH, "train", "--json", *arguments, "--set", f"run.directory={run}"]
        done = subprocess.run(command, capture_output=True, text=True)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found = [event["eval_accuracy"] for event in events if event.get("eval_accuracy") is not None]
        if not found:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return 100 * found[-1]


def quality(photos=None, seeds="3"):
    print("| data | precision | accuracy of each seed | mean | ± |\n|---|---|---|---:|---:|")
    cases = [("digits", ["--config", "resnet"])]
    if photos:
        cases.append(("photos", ["--config", "resnet-folder", "--set", f"data.path={photos}"]))
    for (name, config), precision in itertools.product(cases, ["fp32", "bf16", "fp16"]):
        found = [accuracy([*config, "--set", f"memory.precision={precision}", "--set", f"train.seed={seed}"])
                 for seed in range(int(seeds))]
        each = ", ".join(f"{value:.1f}" for value in found)
        # Of the mean: what another draw of as many seeds would differ by.
        error = statistics.stdev(found) / len(found) ** 0.5
        print(f"| {name} | {precision} | {each} | {statistics.fmean(found):.2f} | {error:.2f} |", flush=True)


if __name__ == "__main__":
    commands = {"activations": activations, "stages": stages, "auto": auto, "quality": quality}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
