"""Runs a network with oomph or PyTorch, each in its own process: times and peaks."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

from networks import RUN, SGD

OOMPH = os.environ.get("OOMPH", "target/release/oomph")
HERE = pathlib.Path(__file__).parent


def ran(command):
    """The output of a command, and the peak memory of its process."""
    with tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True)
        out = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            err.seek(0)
            raise SystemExit(f"{' '.join(command)}\n{err.read()}")
    return out, used.ru_maxrss * 1024


def before(program):
    """The peak memory of the program when it writes its first line: a full pipe holds it there. What `ran` measures is at least the
    memory of this process, from which the other one began."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    try:
        while True:
            os.write(into, bytes(4096))
    except BlockingIOError:
        os.set_blocking(into, True)
    child = subprocess.Popen([program, "--version"], stdout=into)
    os.close(into)
    time.sleep(0.3)
    status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
    with open(out, "rb") as out:
        out.read()
    child.wait()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024


def oomph(network, asked):
    """The figures of some steps and an evaluation, as PyTorch's side prints them, and the peak of memory in use."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = f"{folder}/run", f"{folder}/config.toml"
        pathlib.Path(config).write_text("")
        settings = [*network["settings"], *SGD, *RUN, f"train.batch={network['batch']}", f"train.steps={asked.steps}",
                    f"data.test_samples={network['evaluated']}", f"device.threads={asked.threads}",
                    f"device.devices={asked.device}", f"memory.precision={asked.precision}", f"run.directory={run}"]
        start = before(OOMPH)
        begin = time.time()
        command = [OOMPH, "train", "--quiet", "--config", config]
        _, peak = ran(command + [part for setting in settings for part in ("--set", setting)])
        lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
        first = os.stat(f"{run}/config.toml").st_mtime - begin
        steps = [line for line in lines if line["event"] == "step"]
        ends = [step["seconds"] for step in steps]
        seconds = [after - earlier for earlier, after in zip(ends, ends[1:])]
        evaluated, peak_of_evaluation = ran([OOMPH, "evaluate", "--json", "--checkpoint", run])
        evaluated = json.loads(evaluated)
    if asked.device == "cpu":
        peaks = [peak - start, peak_of_evaluation - start]
    else:
        # Memory of a GPU is not memory of the process.
        peaks = [max(step["reserved_bytes"] for step in steps), evaluated["peak_in_use_bytes"]]
    return {"seconds": seconds, "first": first + ends[0], "evaluation": 1 / evaluated["samples_per_second"],
            "peaks": peaks, "in_use": max(step["peak_in_use_bytes"] for step in steps)}


def pytorch(name, asked):
    def side(steps):
        command = [asked.python, str(HERE / "other_side.py"), name, "--steps", str(steps), "--threads",
                   str(asked.threads), "--device", asked.device, "--precision", asked.precision]
        command += ["--batch", str(asked.batch)] if asked.batch else []
        out, _ = ran(command + ["--compile"] * asked.compile + ["--channels-last"] * asked.channels_last)
        return json.loads(out)

    trained, evaluated = side(asked.steps), side(0)
    return {**trained, "peaks": [trained["peak_bytes"], evaluated["peak_bytes"]]}
