#!/usr/bin/env python3
"""Trains `gpt-shakespeare` on a text, and shows the held-out loss of each epoch. Three minutes an epoch, on two cores with AMX.

    cargo build --release
    python3 tools/gpt_quality.py TEXT [EPOCHS]

TEXT is a text file in UTF-8, such as Tiny Shakespeare. EPOCHS is that of configs/gpt-shakespeare.toml unless given. The time is that of
all processors, which other programs disturb less than the clock. `--save` at the end writes docs/tables/gpt-quality.json; `cargo xtask
docs` shows it.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from levers import processor_seconds
from table import Table

OOMPH = os.environ.get("OOMPH", "target/release/oomph")


def main():
    words = [word for word in sys.argv[1:] if word != "--save"]
    if not words:
        sys.exit(__doc__)
    text, epochs = words[0], words[1:2]
    table = Table(f"python3 tools/gpt_quality.py {' '.join(['TEXT', *epochs])} --save", ">epoch", ">held-out loss, nats", ">bits per byte",
                  ">accuracy, %")
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"data.path={text}", f"run.directory={folder}/run", *(f"train.epochs={count}" for count in epochs)]
        command = [OOMPH, "train", "--quiet", "--config", "gpt-shakespeare"]
        subprocess.run([*command, *(part for setting in settings for part in ("--set", setting))], check=True)
        events = [json.loads(line) for line in (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()]
    for event in events:
        if event["event"] == "eval":
            table.add(event["epoch"], f"{event['eval_loss']:.4f}", f"{event['eval_bits_per_byte']:.3f}",
                      f"{100 * event['eval_accuracy']:.1f}")
    table.figures = {
        "loss": f"{min(event['eval_loss'] for event in events if event['event'] == 'eval'):.3f}",
        "minutes": f"{processor_seconds() / 60:.0f}",
        "parameters": f"{events[0]['parameters']:,}",
    }
    print(table.figures)
    if "--save" in sys.argv:
        table.save("gpt-quality")


if __name__ == "__main__":
    main()
