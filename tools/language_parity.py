#!/usr/bin/env python3
"""Compares the perplexity of `oomph evaluate` with PyTorch's for the same weights and text. Takes some seconds.

    cargo build --release
    cargo train --config lstm-lm --set data.path=TEXT --set run.directory=RUN
    /tmp/torchvenv/bin/python tools/language_parity.py RUN TEXT

The weights come from `oomph export`, the vocabulary from the checkpoint. The script reads the held-out text itself, in the
streams that oomph uses. The model must be character-level with an untied head. Exits with 1 where the two perplexities
differ by more than 1e-4, relative.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

OOMPH = os.environ.get("OOMPH", "target/release/oomph")


class LanguageModel(nn.Module):
    """The language model of PyTorch's examples."""

    def __init__(self, tokens, hidden, layers):
        super().__init__()
        self.encoder = nn.Embedding(tokens, hidden)
        self.rnn = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.decoder = nn.Linear(hidden, tokens)

    def forward(self, tokens, state):
        output, state = self.rnn(self.encoder(tokens), state)
        return self.decoder(output), state


def streams(samples, batch):
    """The samples of each batch: each stream goes on with its next sample; the first streams may have one more."""
    each, longer = divmod(samples, batch)
    start = [place * each + min(place, longer) for place in range(batch)]
    yield from ([place + step for place in start] for step in range(each))
    if longer:
        yield [place + each for place in start[:longer]]


def perplexity(model, tokens, steps, batch):
    samples = (len(tokens) - 1) // steps
    state, total = None, 0.0
    with torch.no_grad():
        for indices in streams(samples, batch):
            rows = torch.stack([tokens[index * steps : (index + 1) * steps + 1] for index in indices])
            state = state and tuple(tensor[:, : len(indices)].contiguous() for tensor in state)
            logits, state = model(rows[:, :-1], state)
            total += F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum").item()
    return torch.tensor(total / (samples * steps)).exp().item()


def main(run, text):
    checkpoint = Path(run, "checkpoints", "latest")
    settings = tomllib.loads((checkpoint / "config.toml").read_text())
    names = json.loads((checkpoint / "source.json").read_text())["class_names"]
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder, "weights.safetensors")
        subprocess.run([OOMPH, "export", run, "--to", weights], check=True, capture_output=True)
        model = LanguageModel(len(names), settings["model"]["hidden"], settings["model"]["layers"])
        model.load_state_dict(load_file(weights), strict=True)
    found = subprocess.run([OOMPH, "evaluate", "--checkpoint", run, "--json"], check=True, capture_output=True, text=True)
    ours = json.loads(found.stdout.splitlines()[-1])["eval_perplexity"]
    known = {name: index for index, name in enumerate(names)}
    tokens = torch.tensor([known.get(character, 0) for character in Path(text).read_text()])
    held_out = round(len(tokens) * settings["data"]["held_out"])
    theirs = perplexity(model, tokens[-held_out:], settings["data"]["steps"], settings["train"]["batch"])
    print(f"oomph {ours:.7f}  PyTorch {theirs:.7f}  relative difference {abs(ours / theirs - 1):.1e}")
    return abs(ours / theirs - 1) > 1e-4


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
