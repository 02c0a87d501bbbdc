#!/usr/bin/env python3
"""Compares planned memory with a real GPU: what the pools reserve and have in use, and what the driver counts. It needs no
Rust and no toolkit, only a binary that was built with `--features cuda`. The trainings are those of `cargo xtask gpu pages`,
which simulates the driver, and small batches with released gradients and packed optimizer state; batches beyond 8 GiB are of
fp32 alone. `--save` writes docs/tables/gpu-card.json; `cargo xtask docs` shows it.

    python3 tools/gpu_card.py target/release/oomph --save
    python3 tools/gpu_card.py target/release/oomph --fill 1 --jobs 5     # only batches for 8 GiB, five at once
    python3 tools/gpu_card.py target/release/oomph --only LSTM bf16      # whose rows have these words

Each training is a profile of two steps after two others, in a process of its own. Reserved is the most of all readings. In
use is read where stages and phases end; the table has the fullest of these places. The context is what the driver counts
for the process beyond the pools.
"""

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import tempfile

from table import Table

MODELS = {
    "ResNet-18, 32²": ("""model = { name = 'resnet18', stem = 'small' }
data = { source = 'synthetic', height = 32, width = 32, SAMPLES }
optimizer.name = 'sgd'
optimizer.momentum = 0.9
optimizer.weight_decay = 5e-4""", [1900, 3700, 3800, 5800, 1900, 1900, 1900]),
    "ResNet-50, 224²": ("""model.name = 'resnet50'
data = { source = 'synthetic', height = 224, width = 224, classes = 1000, SAMPLES }
optimizer.name = 'sgd'
optimizer.momentum = 0.9
optimizer.weight_decay = 1e-4""", [96, 184, 256, 340, 8, 8, 8]),
    "LSTM 64 → 2 × 1024, 128 steps": ("""model = { name = 'lstm', hidden = 1024, layers = 2 }
data = { source = 'synthetic', kind = 'sequence', steps = 128, features = 64, SAMPLES }
optimizer.name = 'adamw'""", [1200, 1700, 3200, 4400, 8, 8, 8]),
    "language model, 2 × 1024, 128 steps": ("""model = { name = 'lstm-lm', hidden = 1024, layers = 2 }
data = { source = 'synthetic', kind = 'tokens', steps = 128, SAMPLES }
optimizer.name = 'adam'""", [1100, 1500, 2600, 4000, 8, 8, 8]),
}
# Settings, and micro-batches of a batch.
LEVERS = {"fp32": ("", 1), "bf16": ("memory.precision = 'bf16'", 1), "recompute": ("memory.recompute = 'stages'", 1),
          "4 micro-batches": ("", 4), "released gradients": ("memory.gradients = 'release'", 1),
          "bf16 state": ("optimizer.state = 'bf16'", 1),
          "int8 state, released": ("optimizer.state = 'int8'\nmemory.gradients = 'release'", 1)}


def cells(fills):
    for fill in fills:
        for model, (config, batches) in MODELS.items():
            # Steps of large batches take long.
            for (lever, (settings, parts)), batch in list(zip(LEVERS.items(), batches))[:None if fill <= 1 else 1]:
                batch = int(batch * fill) // parts * parts
                samples = f"train_samples = {2 * batch}, test_samples = 16, workers = 4"
                yield model, lever, batch, fill, f"""{config.replace('SAMPLES', samples)}
{settings}
memory.micro_batch = {batch // parts}
train = {{ batch = {batch}, steps = 4, seed = 0, eval_every = 'never' }}"""


def profiled(oomph, config):
    """The profile, or the error."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.toml"
        path.write_text(config)
        command = [oomph, "profile", "--json", "--quiet", "--warmup", "2", "--steps", "2", "--devices", "cuda:0",
                   "--config", path]
        ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        return ended.stderr.strip().splitlines()
    return json.loads(ended.stdout)


def at_once(jobs, oomph, cells):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda cell: profiled(oomph, cell[4]), cells)


def shown(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1000 or unit == "GiB":
            return f"{count:.3g} {unit}"
        count /= 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("oomph")
    parser.add_argument("--fill", type=float, nargs="+", default=[1, 9], help="multiples of the batches for 8 GiB")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once, where batches are for 8 GiB")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    table = Table("python3 tools/gpu_card.py OOMPH --save", "model", "training", ">batch", ">reserved, planned", ">reserved",
                  ">error", ">in use, planned", ">in use", ">error", ">context")
    grid = [cell for cell in cells(asked.fill) if all(word in f"{cell[0]} {cell[1]} {cell[2]}" for word in asked.only)]
    errors, contexts, failed = {"reserved": [], "in_use": []}, [], 0
    # Only small trainings run side by side.
    for jobs, share in ((asked.jobs, [cell for cell in grid if cell[3] <= 1]), (1, [cell for cell in grid if cell[3] > 1])):
        for (model, lever, batch, *_), profile in zip(share, at_once(jobs, asked.oomph, share)):
            if isinstance(profile, list):
                failed += 1
                print(f"{model}, {lever}, {batch}:", *profile[:12], sep="\n    ", flush=True)
                continue
            pairs = {"reserved": (profile["planned_reserved_bytes"], profile["reserved_bytes"]),
                     "in_use": (profile["fullest"]["planned_bytes"], profile["fullest"]["measured_bytes"])}
            row = [model, lever, batch]
            for name, (planned, measured) in pairs.items():
                errors[name].append(planned / measured - 1)
                row += [shown(planned), shown(measured), f"{100 * errors[name][-1]:+.2f} %"]
            context = (profile["card"] or {}).get("context_bytes")
            contexts += [context] if context else []
            table.add(*row, shown(context) if context else "–")
    for name, values in errors.items():
        if values:
            print(f"{name}: {len(values)} predictions, median {100 * statistics.median(map(abs, values)):.2f} %, "
                  f"worst under {100 * -min(0, *values):.2f} %, worst over {100 * max(0, *values):.2f} %")
    print(f"context: {shown(min(contexts))} to {shown(max(contexts))}" if contexts else "no context")
    if asked.save:
        asking = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        table.figures = {f"{name}_{what}": f"{100 * value:.2f} %" for name, values in errors.items() for what, value in
                         (("median", statistics.median(map(abs, values))), ("worst_under", -min(0, *values)),
                          ("worst_over", max(0, *values)))} | {"predictions": str(len(errors["reserved"]))}
        table.save("gpu-card", ", " + subprocess.check_output(asking, text=True).splitlines()[0])
    raise SystemExit(failed > 0)


main()
