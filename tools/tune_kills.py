#!/usr/bin/env python3
"""Kills the workers of a study at random moments, and compares what it comes to with a study that was never killed.

    python3 tools/tune_kills.py target/release/oomph --rounds 200 --workers 4 --optuna target/optuna/ci/bin/python

The study repeats (`tune.deterministic`), so that both must have the same trials, values and weights to the byte. After each
kill the journal is read: no trial may be lost, doubled or failed. With `--optuna` the Optuna of a Python opens it too, and
must find as many trials. It prints how many kills there were, and fails if anything differs.
"""

import argparse
import hashlib
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
[model]
name = 'lstm'
hidden = 8

[data]
source = 'digits'
layout = 'rows'
workers = 0

[train]
epochs = 9
batch = 16
seed = 1

[optimizer]
name = 'adamw'

[run]
save_every = '20 steps'

[tune]
trials = {trials}
parallel = 4
deterministic = true
scheduler = '{scheduler}'
lease = 1
checkpoints = 'all'

[tune.space]
'optimizer.lr' = {{ low = 1e-3, high = 0.1, log = true }}
'model.hidden' = [16, 32, 64]
"""


def start(oomph, folder):
    command = [oomph, "tune", "--config", "study.toml", "--json"]
    out = open(folder / "out.jsonl", "ab")
    return subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)


def status(oomph, folder):
    command = [oomph, "tune", "--config", "study.toml", "--status", "--json"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"the journal cannot be read: {answer.stderr}")
    return json.loads(answer.stdout)


# Opens the journals whose names it reads from stdin, and prints the states of their trials.
OPTUNA = """
import collections, json, sys, optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
optuna.logging.disable_default_handler()
for line in sys.stdin:
    storage = JournalStorage(JournalFileBackend(line.strip()))
    study = optuna.load_study(study_name=None, storage=storage)
    states = collections.Counter(trial.state.name.lower() for trial in study.trials)
    print(json.dumps(states), flush=True)
"""


class Optuna:
    """A process with Optuna, which opens journals; without a Python it opens none."""

    def __init__(self, python):
        self.opened = 0
        command = [python, "-c", OPTUNA]
        self.process = python and subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def open(self, log, trials):
        if not self.process:
            return
        self.process.stdin.write(f"{log}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        states = json.loads(answer) if answer else sys.exit("Optuna cannot open the journal")
        # Other workers write meanwhile.
        if states.get("fail") or sum(states.values()) > trials:
            sys.exit(f"Optuna finds {states}")
        self.opened += 1


def results(folder):
    """Trials as the journal has them, and the digests of their last weights; without times, workers and leases."""
    trials = {}
    for line in (folder / "tunes/study/study.log").read_text().splitlines():
        record = json.loads(line)
        code, trial = record["op_code"], record.get("trial_id")
        if code == 5:
            trials.setdefault(trial, {})[record["param_name"]] = record["param_value_internal"]
        elif code == 7:
            trials.setdefault(trial, {})[f"after {record['step']}"] = record["intermediate_value"]
        elif code == 6 and record["state"] != 0:
            trials.setdefault(trial, {})["state"] = record["state"], record["values"]
    for trial, told in trials.items():
        model = folder / f"tunes/study/trials/{trial:05}/checkpoints/latest/model.safetensors"
        told["weights"] = hashlib.sha256(model.read_bytes()).hexdigest() if model.is_file() else None
    return trials


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oomph")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--scheduler", default="asha", help="asha, median, hyperband or none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optuna", help="a Python that has Optuna")
    arguments = parser.parse_args()
    oomph = str(pathlib.Path(arguments.oomph).resolve())
    config = CONFIG.format(trials=arguments.trials, scheduler=arguments.scheduler)
    draw = random.Random(arguments.seed)
    optuna = Optuna(arguments.optuna)
    with tempfile.TemporaryDirectory() as place:
        whole = pathlib.Path(place) / "whole"
        whole.mkdir()
        (whole / "study.toml").write_text(config)
        begun = time.monotonic()
        if start(oomph, whole).wait() != 0:
            sys.exit("the study that nobody killed failed: " + (whole / "out.jsonl").read_text()[-2000:])
        expected = results(whole)
        kills, studies = 0, 0
        while kills < arguments.rounds:
            killed = pathlib.Path(place) / f"killed-{studies}"
            killed.mkdir()
            (killed / "study.toml").write_text(config)
            workers = [start(oomph, killed) for _ in range(arguments.workers)]
            # A worker that ends by itself says that the study is over.
            size, grown = 0, time.monotonic()
            log = killed / "tunes/study/study.log"
            while all(worker.poll() is None for worker in workers):
                time.sleep(draw.uniform(0.02, 0.4))
                now = log.stat().st_size if log.is_file() else 0
                if now != size:
                    size, grown = now, time.monotonic()
                elif time.monotonic() - grown > 3:
                    # A worker was killed while it had the lock, which others take over after 30 seconds, as Optuna's do.
                    continue
                victim = draw.randrange(len(workers))
                if workers[victim].poll() is not None:
                    break
                workers[victim].send_signal(signal.SIGKILL)
                workers[victim].wait()
                workers[victim] = start(oomph, killed)
                kills += 1
                if log.is_file():
                    told = status(oomph, killed)
                    if told["states"].get("failed"):
                        sys.exit(f"a trial failed after kill {kills}: {told['states']} {told['reasons']}")
                    optuna.open(log, arguments.trials)
            codes = [worker.wait() for worker in workers]
            if any(codes):
                sys.exit(f"workers end with {codes}: " + (killed / "out.jsonl").read_text()[-2000:])
            found = results(killed)
            if found != expected:
                for trial in sorted(set(found) | set(expected)):
                    if found.get(trial) != expected.get(trial):
                        print(f"trial {trial}: {found.get(trial)}\n  expected {expected.get(trial)}")
                sys.exit(f"study {studies}, {kills} kills: it came to something else")
            replay = subprocess.run([oomph, "tune", "--name", "study", "--replay"], cwd=killed, capture_output=True)
            if replay.returncode != 0:
                sys.exit(f"study {studies}: a decision differs: {replay.stdout.decode()}")
            studies += 1
            print(f"{kills} of {arguments.rounds} kills, {studies} studies", flush=True)
    print(f"{kills} kills of {arguments.workers} workers in {studies} studies of {arguments.trials} trials: all equal to the"
          f" byte to the study that nobody killed; Optuna opened the journal {optuna.opened} times; {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
