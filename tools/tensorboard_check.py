#!/usr/bin/env python3
"""Trains, stops, resumes, and reads the event files with TensorBoard's own readers. Takes about a minute.

    python3 -m venv tb && tb/bin/pip install tensorboard
    cargo build --release && tb/bin/python tools/tensorboard_check.py target/release/oomph [DIRECTORY]

Both readers are checked: `EventAccumulator` in Python, and the data server that `tensorboard` starts by default. Every
scalar must equal its number in `metrics.jsonl`. A step repeated after a kill must appear once. Histograms must count as
many values as their tensors have. Then the script starts TensorBoard and asks it over HTTP for runs and tags. With a
DIRECTORY it keeps the run there. Exits with 1 and a message where a check fails.
"""

import json
import math
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

CONFIG = """
[model]
name = 'resnet18'
stem = 'small'
width = 8
[data]
source = 'digits'
[train]
steps = 60
eval_every = '20 steps'
[run]
directory = 'runs/digits'
log_every = 5
save_every = '20 steps'
histograms = '20 steps'
"""

STEPS = 60

# Tag, event of `metrics.jsonl`, and the key of its number.
SCALARS = [
    ("loss/train", "step", ["loss"]),
    ("accuracy/train", "step", ["accuracy"]),
    ("loss/eval", "eval", ["eval_loss"]),
    ("accuracy/eval", "eval", ["eval_accuracy"]),
    ("optimizer/learning_rate", "step", ["lr"]),
    ("speed/samples_per_second", "step", ["samples_per_second"]),
    ("memory/in_use", "step", ["in_use_bytes"]),
    ("memory/peak_in_use", "step", ["peak_in_use_bytes"]),
] + [
    (f"memory/{category}", "step", ["step_peak_bytes", category])
    for category in ["parameters", "gradients", "optimizer_state", "activations", "inputs", "workspace", "other"]
]


def check(holds, sentence):
    if not holds:
        sys.exit(f"error: {sentence}")


def train(oomph, root, *arguments, kill_after=None):
    command = [oomph, "train", "--json", *arguments]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        event = json.loads(line)
        if kill_after is not None and event["event"] == "step" and event["step"] >= kill_after:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return
    check(process.wait() == 0, f"`{' '.join(command)}` failed")


def expected(run):
    """The numbers by tag and step; of a repeated step, the last."""
    numbers = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "started":
            for steps in numbers.values():
                for step in [step for step in steps if step > event["first_step"]]:
                    del steps[step]
        for tag, name, path in SCALARS:
            if event["event"] == name:
                value = event
                for key in path:
                    value = value[key]
                numbers.setdefault(tag, {})[event["step"]] = value
    return numbers


def compare(tag, found, wanted):
    check([step for step, _ in found] == list(wanted), f"`{tag}` has steps {[s for s, _ in found]}, not {list(wanted)}")
    for step, value in found:
        # Event files have 32 bits.
        check(math.isclose(value, wanted[step], rel_tol=1e-6), f"`{tag}` is {value} at step {step}, not {wanted[step]}")


def check_accumulator(run, numbers):
    events = EventAccumulator(str(run), size_guidance={"tensors": 0, "scalars": 0, "histograms": 0})
    events.Reload()
    tags = events.Tags()
    check(sorted(tags["scalars"]) == sorted(numbers), f"the scalars are {tags['scalars']}, not {sorted(numbers)}")
    for tag, wanted in numbers.items():
        compare(tag, [(event.step, event.value) for event in events.Scalars(tag)], wanted)
    histograms = tags["histograms"]
    for group in ["parameters", "gradients"]:
        check(f"{group}/stem.conv1.weight" in histograms, f"there is no histogram of {group} in {histograms}")
        found = events.Histograms(f"{group}/stem.conv1.weight")
        check([event.step for event in found] == [20, 40, 60], f"its steps are {[event.step for event in found]}")
        for event in found:
            value = event.histogram_value
            check(value.num == sum(value.bucket) == 8 * 9, f"{group} of 72 values has {value.num}")
            check(value.min <= value.sum / value.num <= value.max, "the mean is out of its bounds")
    print(f"EventAccumulator: {len(numbers)} scalars as in metrics.jsonl, {len(histograms)} histograms")


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/{path}", timeout=10) as answer:
        return json.load(answer)


def check_server(root, numbers, *arguments):
    port = "16064"
    # `--load_fast` starts a server of its own, which must end with this process.
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", "runs", "--port", port, *arguments]
    server = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # The server answers before it has read all files.
        for _ in range(120):
            try:
                runs = ask(port, "runs")
                tags = ask(port, "plugin/scalars/tags").get("digits", {})
                found = ask(port, "plugin/scalars/scalars?run=digits&tag=loss/eval") if tags else []
            except OSError:
                runs, tags, found = [], {}, []
            if found and found[-1][1] == STEPS:
                break
            time.sleep(0.5)
        check(runs == ["digits"], f"TensorBoard knows the runs {runs}")
        check(sorted(tags) == sorted(numbers), f"TensorBoard knows the tags {sorted(tags)}")
        for tag, wanted in numbers.items():
            found = ask(port, f"plugin/scalars/scalars?run=digits&tag={tag}")
            compare(tag, [(step, value) for _, step, value in found], wanted)
        histograms = ask(port, "plugin/histograms/tags")["digits"]
        found = ask(port, "plugin/histograms/histograms?run=digits&tag=gradients/stem.conv1.weight")
        check([step for _, step, _ in found] == [20, 40, 60], "the histograms are of other steps")
        print(f"tensorboard {' '.join(arguments)}: {len(tags)} scalars, {len(histograms)} histograms")
    finally:
        server.terminate()
        server.wait()


def main():
    oomph = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else temporary)
        root.mkdir(parents=True, exist_ok=True)
        (root / "digits.toml").write_text(CONFIG)
        run = root / "runs" / "digits"
        train(oomph, root, "--config", "digits.toml", kill_after=35)
        files = sorted(run.glob("events.out.tfevents.*"))
        # Half of the last record, as after a power failure.
        files[-1].write_bytes(files[-1].read_bytes()[:-20])
        train(oomph, root, "--resume", "runs/digits")
        sizes = [file.stat().st_size for file in sorted(run.glob("events.out.tfevents.*"))]
        check(len(sizes) == 2, f"there are {len(sizes)} event files, not one a process")
        print(f"killed after step 35, resumed: event files of {sizes} bytes, torn in the first")
        numbers = expected(run)
        check_accumulator(run, numbers)
        check_server(root, numbers, "--load_fast=true")
        check_server(root, numbers, "--load_fast=false")


if __name__ == "__main__":
    main()
