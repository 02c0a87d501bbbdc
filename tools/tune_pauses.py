#!/usr/bin/env python3
"""Compares trials that were paused at rungs with trainings of the same settings that nothing interrupted, to the byte.

    python3 tools/tune_pauses.py target/release/oomph --trials 100 --compared 20

Searches an LSTM and a ResNet with ASHA: each trial that comes to the end was paused at two rungs and promoted from both. So
many of them are trained again from their run's config.toml without a pause. It fails if a tensor differs.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

MODELS = {
    "lstm": "model = { name = 'lstm', hidden = 16, layers = 2, dropout = 0.2 }\n"
    "data = { source = 'digits', layout = 'rows', workers = 0 }\n",
    "resnet": "model = { name = 'resnet18', stem = 'small', width = 2 }\ndata = { source = 'digits', flip = true, workers = 0 }\n",
}

STUDY = """
train = {{ epochs = 4, batch = 32, seed = 1 }}
optimizer = {{ name = 'adamw', lr = 1e-3 }}
schedule = {{ name = 'one-cycle' }}

[tune]
trials = {trials}
eta = 2
checkpoints = 'all'

[tune.space]
'optimizer.lr' = {{ low = 1e-3, high = 0.1, log = true }}
'optimizer.weight_decay' = {{ low = 1e-6, high = 1e-1, log = true }}
'train.batch' = [32, 64]
"""


def run(oomph, folder, *words):
    answer = subprocess.run([oomph, *words], cwd=folder, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"`oomph {' '.join(words)}` ends with {answer.returncode}: {answer.stderr[-2000:]}")


def completed(log):
    """The numbers of the trials that came to the end, and after how many epochs each was compared."""
    lengths, done = {}, []
    for line in log.read_text().splitlines():
        record = json.loads(line)
        if record["op_code"] == 7:
            lengths.setdefault(record["trial_id"], set()).add(record["step"])
        elif record["op_code"] == 6 and record["state"] == 1:
            done.append(record["trial_id"])
    return [(trial, sorted(lengths.get(trial, ()))) for trial in done]


def digests(run):
    latest = run / "checkpoints/latest"
    files = ["model.safetensors", "optimizer.safetensors"]
    return {name: hashlib.sha256((latest / name).read_bytes()).hexdigest() for name in files}


def compare(oomph, model, trials, most):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "study.toml").write_text(MODELS[model] + STUDY.format(trials=trials))
        run(oomph, folder, "tune", "--config", "study.toml", "--quiet")
        study = folder / "tunes/study"
        # Trials that were compared after 1, 2 and 4 epochs.
        paused = [trial for trial, lengths in completed(study / "study.log") if {1, 2, 4} <= set(lengths)]
        equal, compared = 0, 0
        for trial in sorted(paused)[:most]:
            paused_run = study / f"trials/{trial:05}"
            (folder / "whole.toml").write_text((paused_run / "config.toml").read_text())
            run(oomph, folder, "train", "--quiet", "--config", "whole.toml", "--set", f"run.directory=whole-{trial}")
            compared += 1
            if digests(paused_run) == digests(folder / f"whole-{trial}"):
                equal += 1
            else:
                print(f"{model}: trial {trial} differs from an uninterrupted training")
    print(f"{model}: {equal} of {compared} paused trials end with the bytes of uninterrupted ones", flush=True)
    return equal, compared


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oomph")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--compared", type=int, default=20)
    arguments = parser.parse_args()
    oomph = str(pathlib.Path(arguments.oomph).resolve())
    found = [compare(oomph, model, arguments.trials, arguments.compared) for model in MODELS]
    if any(equal < compared or compared < arguments.compared for equal, compared in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
