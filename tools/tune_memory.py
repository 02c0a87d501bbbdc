#!/usr/bin/env python3
"""Searches a space of which half is too large for the memory limit, with `oomph tune` and with Optuna's TPE.

    python3 tools/tune_memory.py target/release/oomph --optuna target/optuna/ci/bin/python

For each answer to what is too large (adapt, avoid, refuse) it prints how many trials were trained, how far measured peaks are
from planned ones, and the largest sum of measured peaks of trials that ran at the same time. Optuna's trials are trainings
under the same limit. Then it compares the time of trials side by side with that of the same trials one after the other. It fails if a
trial runs out of memory, a peak is off by over 2 %, or a sum exceeds the limit.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

MODEL = """
model = { name = 'lstm', hidden = 32 }
data = { source = 'digits', layout = 'rows', workers = 0 }
train = { epochs = 2, batch = 64, seed = 1 }
optimizer = { name = 'adamw', lr = 1e-3 }
"""

STUDY = """
[tune]
trials = {trials}
sampler = '{sampler}'
scheduler = 'none'
on_too_large = '{answer}'
parallel = {parallel}

[tune.space]
'optimizer.lr' = {{ low = 1e-3, high = 0.1, log = true }}
'model.hidden' = {{ low = 16, high = 192, step = 16 }}
'model.layers' = [1, 2, 3]
'train.batch' = [64, 256, 512]
"""

# Optuna's TPE on the same space. A training that does not fit its limit ends with 75, and its trial has failed.
OPTUNA = """
import json, subprocess, sys, optuna
oomph, limit, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
optuna.logging.disable_default_handler()

def train(trial):
    settings = {
        "optimizer.lr": trial.suggest_float("lr", 1e-3, 0.1, log=True),
        "model.hidden": trial.suggest_int("hidden", 16, 192, step=16),
        "model.layers": trial.suggest_categorical("layers", [1, 2, 3]),
        "train.batch": trial.suggest_categorical("batch", [64, 256, 512]),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = [oomph, "train", "--config", "model.toml", "--json", "--memory-limit", limit, *words]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode == 75:
        raise MemoryError
    if answer.returncode != 0:
        sys.exit(answer.stderr)
    return json.loads(answer.stdout.splitlines()[-1])["eval_loss"]

study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(train, n_trials=trials, catch=MemoryError)
failed = sum(trial.state == optuna.trial.TrialState.FAIL for trial in study.trials)
print(json.dumps({"failed": failed, "best": study.best_value}))
"""


def output(command, folder):
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"`{' '.join(map(str, command))}` ends with {answer.returncode}: {answer.stderr[-2000:]}")
    return answer.stdout


def half_of(oomph, folder):
    """The limit that half of the space fits: the median of the planned peaks of 256 of its points."""
    plan = output([oomph, "tune", "--config", "study.toml", "--plan", "256", "--json"], folder)
    points = json.loads(plan.splitlines()[-1])["points"]
    peaks = sorted(point["planned_peak_bytes"] for point in points)
    return int(peaks[len(peaks) // 2] * 1.01)


def trials_of(log):
    """State, value and attributes of each trial."""
    trials = {}
    for line in log.read_text().splitlines():
        record = json.loads(line)
        code, trial = record["op_code"], record.get("trial_id")
        if code == 4:
            trials[len(trials)] = {"parameters": {}}
        elif code == 5:
            trials[trial]["parameters"][record["param_name"]] = record["param_value_internal"]
        elif code == 8:
            trials[trial].update(record["user_attr"])
        elif code == 9:
            trials[trial].update(record["system_attr"])
        elif code == 6:
            trials[trial]["state"], trials[trial]["value"] = record["state"], (record.get("values") or [None])[0]
    return list(trials.values())


def largest_sum(trials):
    """The most that trials which ran at the same time had in use, by their measured peaks."""
    measured = [trial for trial in trials if trial.get("oomph:measured_peak_bytes")]
    at_once = lambda moment: [t["oomph:measured_peak_bytes"] for t in measured if t["begun"] <= moment < t["ended"]]
    return max(sum(at_once(trial["begun"])) for trial in measured)


def study(oomph, folder, name, trials, answer, parallel, limit, sampler="tpe"):
    """The trials of a study, with the times at which their processes begin and end; and how long the study took."""
    (folder / f"{name}.toml").write_text(MODEL + STUDY.format(trials=trials, answer=answer, parallel=parallel, sampler=sampler))
    begun, times = time.monotonic(), {}
    command = [oomph, "tune", "--config", f"{name}.toml", "--json", "--memory-limit", str(limit)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        event = json.loads(line)
        if event.get("event") == "trains":
            times[event["trial"]] = {"begun": time.monotonic()}
        elif event.get("event") in ("complete", "failed"):
            times.setdefault(event["trial"], {})["ended"] = time.monotonic()
    if process.wait() != 0:
        sys.exit(f"`{' '.join(command)}` ends with {process.returncode}")
    found = trials_of(folder / f"tunes/{name}/study.log")
    return [trial | times.get(number, {}) for number, trial in enumerate(found)], time.monotonic() - begun


def above_zero(constraint):
    return isinstance(constraint, (int, float)) and constraint > 0


def check(name, trials, limit):
    """Prints a study, and returns what is wrong with it."""
    trained = [trial for trial in trials if trial["state"] == 1]
    infeasible = [trial for trial in trials if any(map(above_zero, trial.get("constraints", [])))]
    lost = [trial for trial in trials if trial["state"] == 3 and trial not in infeasible]
    off = [trial["oomph:measured_peak_bytes"] / trial["oomph:planned_peak_bytes"] - 1 for trial in trained]
    adapted = sum(bool(trial.get("oomph:adapted")) for trial in trained)
    most = largest_sum(trials) / limit
    best = min(trial["value"] for trial in trained)
    print(
        f"{name}: {len(trials)} trials, {len(trained)} trained of which {adapted} adapted,"
        f" {len(infeasible)} infeasible, {len(lost)} failed; measured"
        f" peaks {min(off):+.2%} to {max(off):+.2%} of planned; largest sum {most:.1%} of the limit; best {best:.4f}",
        flush=True,
    )
    wrong = [f"{len(lost)} trials failed: {[trial.get('oomph:reason') for trial in lost]}"] if lost else []
    wrong += [f"a peak is off by {max(map(abs, off)):.2%}"] if max(map(abs, off)) > 0.02 else []
    wrong += [f"trials have {most:.1%} of the limit"] if most > 1 else []
    return [f"{name}: {what}" for what in wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oomph")
    parser.add_argument("--optuna", help="a Python that has Optuna")
    parser.add_argument("--trials", type=int, default=40)
    arguments = parser.parse_args()
    oomph, trials = str(pathlib.Path(arguments.oomph).resolve()), arguments.trials
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "model.toml").write_text(MODEL)
        (folder / "study.toml").write_text(MODEL + STUDY.format(trials=trials, answer="refuse", parallel=1, sampler="tpe"))
        limit = half_of(oomph, folder)
        print(f"limit {limit / 2**20:.1f} MiB, which half of the space fits", flush=True)
        for answer in ["adapt", "avoid", "refuse"]:
            found, _ = study(oomph, folder, answer, trials, answer, 1, limit)
            wrong += check(answer, found, limit)
        if arguments.optuna:
            command = [str(pathlib.Path(arguments.optuna).absolute()), "-c", OPTUNA, oomph, str(limit), str(trials)]
            told = json.loads(output(command, folder))
            print(f"Optuna's TPE: {trials} trials, {told['failed']} lost; best {told['best']:.4f}", flush=True)
        # Room for three of the largest that fit. Random points are the same ones whatever runs beside them; TPE's are not.
        alone, one = study(oomph, folder, "alone", trials, "avoid", 1, 3 * limit, "random")
        packed, many = study(oomph, folder, "packed", trials, "avoid", "'auto'", 3 * limit, "random")
        if [trial["parameters"] for trial in alone] != [trial["parameters"] for trial in packed]:
            wrong.append("the two studies trained different points")
        wrong += check("one after the other", alone, 3 * limit) + check("packed", packed, 3 * limit)
        print(f"packed: {one / many:.2f} times as fast as one trial after the other ({one:.0f} s and {many:.0f} s)")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
