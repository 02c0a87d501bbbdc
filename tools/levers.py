#!/usr/bin/env python3
"""Measures what each memory lever saves and costs. Each table takes some minutes, `quality` an hour.

    cargo build --release
    python3 tools/levers.py activations     # bytes per image of ResNet-50 at 224x224, by precision, recompute and lean
    python3 tools/levers.py stages          # peaks and times of recompute, ResNet-18 and an LSTM of 1,024 steps
    python3 tools/levers.py gradients       # gradients kept and released, with and without recompute
    python3 tools/levers.py offload         # optimizer state and inputs of recomputed stages in host memory
    python3 tools/levers.py shard           # state, gradients and parameters sharded over four replicas
    python3 tools/levers.py attention       # peaks of a transformer by the length of its sequences
    python3 tools/levers.py chunks          # the loss of a language model by chunks of tokens
    python3 tools/levers.py state           # optimizer state in 32, 16 and 8 bits: bytes a parameter and times
    python3 tools/levers.py state-quality PHOTOS TEXT [DEVICE]  # its accuracy over three seeds, on digits, photos and text
    python3 tools/levers.py adapters TEXT   # fine-tuning of a decoder whole and by adapters, over three seeds
    python3 tools/levers.py auto            # recompute = "auto" under limits
    python3 tools/levers.py quality [PHOTOS [SEEDS]]  # accuracy on digits and on photos, in fp32, bf16 and fp16

`--save` at the end writes docs/tables/levers-NAME.json; `cargo xtask docs` shows it. Each training runs in a process of
its own. Times need an idle machine.
"""

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

from table import Table

OOMPH = os.environ.get("OOMPH", "target/release/oomph")
COMMAND = "python3 tools/levers.py"
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
    """Processor time of all child processes so far. Other programs disturb it less than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def slope(points):
    """Bytes per sample, by least squares."""
    mean_x, mean_y = (statistics.fmean(values) for values in zip(*points))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def activations():
    table = Table(f"{COMMAND} activations --save", "precision", "recompute", "lean", ">planned MB/image", ">measured MB/image")
    policies = [("fp32", "none", "false"), ("fp32", "none", "true"), ("bf16", "none", "true"),
                ("bf16", "stages", "true")]
    for precision, recompute, lean in policies:
        rows = compare("--config", "synthetic-resnet50", "--steps", "3", "--batches", "4,8,12", "--precisions",
                       precision, "--recompute", recompute, "--lean", lean)
        planned = slope([(row["batch"], row["planned_peak_bytes"]) for row in rows]) / 1e6
        measured = slope([(row["batch"], row["peak_in_use_bytes"]) for row in rows]) / 1e6
        table.add(precision, recompute, lean, f"{planned:.1f}", f"{measured:.1f}")
    return table


def stages():
    table = Table(f"{COMMAND} stages --save", "model", "lean", "recompute", ">MB per sample", ">×", ">step", ">×")
    all_policies = [("false", "none"), ("true", "none"), ("true", "stages")]
    # Without lean layers a step of so long a sequence takes 44 s.
    for name, config, batches, policies in [("resnet18", RESNET18, "32,64,128", all_policies),
                                            ("lstm T 1,024", LSTM, "8,16,32", all_policies[1:])]:
        first = None
        for lean, recompute in policies:
            rows = compare(*config, "--steps", "10", "--batches", batches, "--recompute", recompute, "--lean", lean)
            size = slope([(row["batch"], row["peak_in_use_bytes"]) for row in rows])
            time = rows[-1]["step_seconds"]
            first = first or (size, time)
            table.add(name, lean, recompute, f"{size / 1e6:.2f}", f"{size / first[0]:.2f}", f"{time:.2f} s",
                      f"{time / first[1]:.2f}")
    return table


def gradients():
    table = Table(f"{COMMAND} gradients --save", "model", ">batch", "recompute", "gradients", ">planned peak", ">peak in use", ">×",
                  ">step", ">×")
    resnet50 = ["--config", "synthetic-resnet50"]
    lstm = ["--config", "lstm", "--set", "model.hidden=1024", "--set", "model.layers=4", "--set", "optimizer.clip_norm=1.0"]
    for name, config, batches in [("resnet50 224×224", resnet50, "1,8"), ("lstm 4 × 1,024", lstm, "1,32")]:
        rows = compare(*config, "--steps", "12", "--optimizers", "adamw", "--batches", batches, "--recompute", "none,stages",
                       "--gradients", "keep,release")
        for row in rows:
            if row["gradients"] == "keep":
                first = row
            mib = lambda size: f"{size / 2**20:,.0f} MiB"
            table.add(name, row["batch"], row["recompute"], row["gradients"], mib(row["planned_peak_bytes"]),
                      mib(row["peak_in_use_bytes"]), f"{row['peak_in_use_bytes'] / first['peak_in_use_bytes']:.2f}",
                      f"{row['step_seconds']:.3f} s", f"{row['step_seconds'] / first['step_seconds']:.2f}")
    return table


def state():
    table = Table(f"{COMMAND} state --save", "model", "gradients", "state", ">planned peak", ">peak in use", ">bytes a parameter",
                  ">step", ">×")
    lstm = ["--config", "lstm", "--set", "model.hidden=512", "--set", "model.layers=64", "--set", "optimizer.clip_norm=1.0",
            "--set", "data.source=synthetic", "--set", "data.kind=sequence", "--set", "data.steps=2", "--set", "data.features=64"]
    for name, config in [("lstm 64 × 512", lstm), ("resnet50 224×224", ["--config", "synthetic-resnet50"])]:
        rows = compare(*config, "--steps", "12", "--optimizers", "adamw", "--batches", "1", "--gradients", "keep,release",
                       "--states", "fp32,bf16,int8")
        parameters = planned_parameters(config)
        for row in rows:
            mib = lambda size: f"{size / 2**20:,.0f} MiB"
            table.add(name, row["gradients"], row["state"], mib(row["planned_peak_bytes"]), mib(row["peak_in_use_bytes"]),
                      f"{row['peak_in_use_bytes'] / parameters:.2f}", f"{row['step_seconds']:.3f} s",
                      f"{row['step_seconds'] / rows[0]['step_seconds']:.2f}")
    return table


def attention():
    table = Table(f"{COMMAND} attention --save", ">positions", ">planned peak", ">peak in use", ">a position", ">with Burn's operations")
    decoder = ["model.name=gpt", "model.layers=1", "model.hidden=128", "model.heads=4", "data.source=synthetic", "data.kind=tokens",
               "data.vocabulary=64", "data.carry=false", "data.train_samples=8", "data.test_samples=1", "optimizer.name=adamw"]
    settings = [part for setting in decoder for part in ("--set", setting)]
    mib = lambda size: f"{size / 2**20:,.1f} MiB"
    with tempfile.NamedTemporaryFile(suffix=".toml") as config:
        for positions in [512, 1024, 2048, 4096, 8192]:
            at = ["--config", config.name, *settings, "--set", f"data.steps={positions}", "--batches", "1", "--steps", "4"]
            lean, = compare(*at)
            # 8,192 positions would take 5 GB.
            whole = compare(*at, "--lean", "false")[0] if positions <= 4096 else None
            table.add(f"{positions:,}", mib(lean["planned_peak_bytes"]), mib(lean["peak_in_use_bytes"]),
                      f"{lean['peak_in_use_bytes'] / positions / 1024:.1f} KiB", mib(whole["peak_in_use_bytes"]) if whole else "")
    return table


def chunks():
    table = Table(f"{COMMAND} chunks --save", "model", "loss_chunk", ">planned peak", ">peak in use", ">×", ">step", ">×")
    text = ["data.source=synthetic", "data.kind=tokens", "data.vocabulary=50257", "data.carry=false", "data.train_samples=64",
            "data.test_samples=1", "optimizer.name=adamw"]
    models = [("gpt 4 × 256, T 256", ["model.name=gpt", "model.layers=4", "model.hidden=256", "model.heads=4", "data.steps=256"]),
              ("gru-lm 2 × 256, T 256", ["model.name=gru-lm", "model.layers=2", "model.hidden=256", "data.steps=256"])]
    mib = lambda size: f"{size / 2**20:,.0f} MiB"
    with tempfile.NamedTemporaryFile(suffix=".toml") as config:
        for name, model in models:
            settings = [part for setting in [*model, *text] for part in ("--set", setting)]
            rows = compare("--config", config.name, *settings, "--batches", "4", "--steps", "12", "--loss-chunks",
                           "none,512,256,128,64")
            for row in rows:
                table.add(name, row["loss_chunk"], mib(row["planned_peak_bytes"]), mib(row["peak_in_use_bytes"]),
                          f"{row['peak_in_use_bytes'] / rows[0]['peak_in_use_bytes']:.2f}", f"{row['step_seconds']:.3f} s",
                          f"{row['step_seconds'] / rows[0]['step_seconds']:.2f}")
    return table


def offload():
    table = Table(f"{COMMAND} offload --save", "model", "gradients", "offload", ">planned peak", ">peak in use", ">×",
                  ">in host memory", ">step", ">×")
    lstm = ["--config", "lstm", "--set", "model.hidden=1024", "--set", "model.layers=4", "--set", "optimizer.clip_norm=1.0"]
    recompute = ["--set", "memory.recompute=stages", "--set", "optimizer.name=adamw"]
    for name, config, batch in [("resnet50 224×224", ["--config", "synthetic-resnet50"], 8), ("lstm 4 × 1,024", lstm, 32)]:
        config = [*config, *recompute]
        rows = compare(*config, "--steps", "12", "--batches", str(batch), "--gradients", "keep,release",
                       "--offload", "none,optimizer,activations,optimizer+activations")
        for row in rows:
            mib = lambda size: f"{size / 2**20:,.0f} MiB"
            away = planned(config, batch, f"memory.offload={row['offload'].replace('+', ',')}").get("planned_offloaded_bytes", 0)
            table.add(name, row["gradients"], row["offload"], mib(row["planned_peak_bytes"]), mib(row["peak_in_use_bytes"]),
                      f"{row['peak_in_use_bytes'] / rows[0]['peak_in_use_bytes']:.2f}", mib(away), f"{row['step_seconds']:.3f} s",
                      f"{row['step_seconds'] / rows[0]['step_seconds']:.2f}")
    return table


def shard():
    table = Table(f"{COMMAND} shard --save", "model", "recompute", "shard", ">planned peak", ">peak in use", ">×", ">between steps",
                  ">×", ">step", ">×")
    lstm = ["--config", "lstm", "--set", "model.hidden=1024", "--set", "model.layers=4", "--set", "data.source=synthetic",
            "--set", "data.kind=sequence", "--set", "data.steps=8", "--set", "data.features=64"]
    for name, config in [("resnet50 224×224", ["--config", "synthetic-resnet50"]), ("lstm 4 × 1,024", lstm)]:
        first = None
        for recompute, level in itertools.product(["none", "stages"], ["none", "optimizer", "gradients", "parameters"]):
            row = replicas(*config, "--set", f"memory.recompute={recompute}", "--set", f"device.shard={level}")
            first = first or row
            times = lambda key: f"{row[key] / first[key]:.2f}"
            mib = lambda size: f"{size / 2**20:,.0f} MiB"
            table.add(name, recompute, level, mib(row["planned"]), mib(row["peak"]), times("peak"), mib(row["between"]),
                      times("between"), f"{row['seconds']:.2f} s", times("seconds"))
    return table


def replicas(*arguments):
    """A training of 8 steps on four replicas, with AdamW: bytes of the first device, which has the most, and seconds a step."""
    with tempfile.TemporaryDirectory() as folder:
        settings = ["optimizer.name=adamw", "device.devices=cpu,cpu,cpu,cpu", "device.strategy=ddp", "train.batch=8", "train.steps=8",
                    "run.log_every=1", f"run.directory={folder}/run"]
        command = [OOMPH, "train", *arguments, *(part for setting in settings for part in ("--set", setting))]
        subprocess.run(command, capture_output=True, check=True)
        events = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl")]
    started = next(event for event in events if event["event"] == "started")
    steps = [event for event in events if event["event"] == "step"]
    return {"planned": started["planned_peak_bytes"], "peak": steps[-1]["peak_in_use_bytes"],
            "between": steps[-1]["in_use_bytes"], "seconds": statistics.median(8 / step["samples_per_second"] for step in steps[2:])}


def planned(config, batch, setting):
    """What is planned for a batch."""
    command = [OOMPH, "plan", "--json", *config, "--batch", str(batch), "--set", setting]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(found)["batches"][0]


def planned_parameters(config):
    """The number of parameters."""
    return summary(config)["parameters"]


def trained_parameters(config):
    """The number of parameters that are not frozen."""
    found = summary(config)
    return found["parameters"] - found.get("frozen_parameters", 0)


def summary(config):
    """What `oomph summary` says."""
    command = [OOMPH, "summary", "--json", *config]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def state_quality(photos, text, device="cpu"):
    table = Table(f"{COMMAND} state-quality PHOTOS TEXT {device} --save", "data", "optimizer", "state", "each seed", ">mean",
                  ">standard error")
    small = ["--set", "model.width=16", "--set", "model.stem=small", "--set", "train.epochs=6", "--set", "train.batch=64"]
    photo = ["--config", "resnet-folder", "--set", f"data.path={photos}", *small]
    language = ["--config", "lstm-lm", "--set", f"data.path={text}", "--set", "train.steps=1000", "--set", "model.hidden=192"]
    adamw, momentum = ["--set", "optimizer.name=adamw"], ["--set", "optimizer.name=sgd", "--set", "optimizer.momentum=0.9"]
    cases = [("digits", "adamw", ["--config", "resnet", *adamw, "--set", "optimizer.lr=0.003"], "eval_accuracy"),
             ("digits", "momentum", ["--config", "resnet", *momentum], "eval_accuracy"),
             ("photos", "adamw", [*photo, *adamw, "--set", "optimizer.lr=0.002"], "eval_accuracy"),
             ("text", "adamw", [*language, *adamw, "--set", "optimizer.lr=0.004"], "eval_loss")]
    for name, optimizer, config, figure in cases:
        for state in ["fp32", "bf16", "int8"]:
            found = [result([*config, "--devices", device, "--set", f"optimizer.state={state}",
                             "--set", f"train.seed={seed}"], figure) for seed in range(3)]
            factor, digits = (100, 1) if figure == "eval_accuracy" else (1, 3)
            found = [factor * value for value in found]
            error = statistics.stdev(found) / len(found) ** 0.5
            table.add(name, optimizer, state, ", ".join(f"{value:.{digits}f}" for value in found),
                      f"{statistics.fmean(found):.{digits + 1}f}", f"{error:.{digits + 1}f}")
    return table


def adapters(text):
    """A decoder is trained on the first half of a text. The second half fine-tunes it, whole and by adapters."""
    table = Table(f"{COMMAND} adapters TEXT --save", "trained", ">learning rate", ">parameters", ">state", ">% of state", "each seed", ">mean",
                  ">× loss")
    decoder = ["model.layers=4", "model.hidden=128", "model.heads=4", "model.dropout=0", "data.steps=128", "train.batch=32"]
    settings = [part for setting in decoder for part in ("--set", setting)]
    with tempfile.TemporaryDirectory() as folder:
        whole = open(text, encoding="utf-8").read()
        tokens, halves = f"{folder}/tokens.json", [f"{folder}/{name}.txt" for name in ("first", "second")]
        json.dump(sorted(set(whole)), open(tokens, "w"))
        for path, part in zip(halves, [whole[:len(whole) // 2], whole[len(whole) // 2:]]):
            open(path, "w", encoding="utf-8").write(part)
        base = ["--config", "gpt-shakespeare", *settings, "--set", f"data.vocabulary_file={tokens}"]
        weights = f"{folder}/weights.safetensors"
        pretrained = [*base, "--set", f"data.path={halves[0]}", "--set", "train.steps=2000", "--set", f"run.directory={folder}/first"]
        subprocess.run([OOMPH, "train", *pretrained], capture_output=True, check=True)
        subprocess.run([OOMPH, "export", f"{folder}/first", "--to", weights], capture_output=True, check=True)
        tuned = [*base, "--set", f"data.path={halves[1]}", "--set", f"model.weights={weights}"]
        before = result([*tuned, "--set", "train.steps=1", "--set", "optimizer.lr=1e-12"], "eval_loss")
        table.add("nothing", "", "", "", "", "", f"{before:.3f}", "")
        first = None
        for name, rate, more in [("all", 1e-3, []), ("adapters of rank 8", 4e-3, ["--set", "model.lora.rank=8"]),
                                 ("adapters of rank 4", 4e-3, ["--set", "model.lora.rank=4"])]:
            config = [*tuned, *more, "--set", f"optimizer.lr={rate}"]
            found = [result([*config, "--set", "train.steps=600", "--set", f"train.seed={seed}"], "eval_loss") for seed in range(3)]
            mean, state = statistics.fmean(found), planned(config, 32, "train.seed=0")["categories"]["optimizer_state"]
            first = first or (mean, state)
            table.add(name, f"{rate:g}", f"{trained_parameters(config):,}", f"{state / 2**20:.2f} MiB", f"{100 * state / first[1]:.0f}",
                      ", ".join(f"{value:.3f}" for value in found), f"{mean:.3f}", f"{mean / first[0]:.3f}")
    return table


def auto():
    table = Table(f"{COMMAND} auto --save", "model", ">limit", "recompute", ">peak in use", ">step", ">processor time")
    steps = 8
    for name, config in [("resnet18", [*RESNET18, "--set", "train.batch=64"]), ("lstm T 1,024", LSTM)]:
        most, least = (row["planned_peak_bytes"] for row in
                       compare(*config, "--recompute", "none,stages", "--plan-only"))
        # 1.1 % is the largest under-prediction of a plan.
        limits = [int(1.011 * (least + (most - least) * share / 10)) for share in range(10, -1, -1)]
        for limit, recompute in [*((limit, "auto") for limit in limits), (2 * most, "stages")]:
            before = processor_seconds()
            [row] = compare(*config, "--recompute", recompute, "--memory-limit", str(limit), "--steps", str(steps))
            used = (processor_seconds() - before) / steps
            peak = row["peak_in_use_bytes"]
            verdict = "" if peak is not None and peak <= limit else " ABOVE"
            table.add(name, f"{limit / 2**20:.0f} MiB", recompute, f"{(peak or 0) / 2**20:.0f} MiB{verdict}",
                      f"{row['step_seconds'] or 0:.2f} s", f"{used:.2f} s")
    return table


def accuracy(arguments):
    """The held-out accuracy at the end of `oomph train`, in percent."""
    return 100 * result(arguments, "eval_accuracy")


def result(arguments, figure):
    """A figure of the last evaluation of `oomph train`."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = [OOMPH, "train", "--json", *arguments, "--set", f"run.directory={run}"]
        done = subprocess.run(command, capture_output=True, text=True)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found = [event[figure] for event in events if event.get(figure) is not None]
        if not found:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return found[-1]


def quality(photos=None, seeds="3"):
    table = Table(f"{COMMAND} quality --save", "data", "precision", "accuracy of each seed, %", ">mean", ">standard error")
    cases = [("digits", ["--config", "resnet"])]
    if photos:
        cases.append(("photos", ["--config", "resnet-folder", "--set", f"data.path={photos}"]))
    for (name, config), precision in itertools.product(cases, ["fp32", "bf16", "fp16"]):
        found = [accuracy([*config, "--set", f"memory.precision={precision}", "--set", f"train.seed={seed}"])
                 for seed in range(int(seeds))]
        each = ", ".join(f"{value:.1f}" for value in found)
        error = statistics.stdev(found) / len(found) ** 0.5
        table.add(name, precision, each, f"{statistics.fmean(found):.2f}", f"{error:.2f}")
    return table


if __name__ == "__main__":
    commands = {"activations": activations, "stages": stages, "gradients": gradients, "attention": attention, "offload": offload, "shard": shard, "state": state, "state-quality": state_quality,
                "chunks": chunks, "adapters": adapters, "auto": auto, "quality": quality}
    words = [word for word in sys.argv[1:] if word != "--save"]
    if not words or words[0] not in commands:
        sys.exit(__doc__)
    measured = commands[words[0]](*words[1:])
    if "--save" in sys.argv:
        measured.save(f"levers-{words[0]}")
