#!/usr/bin/env python3
"""Compares the time of a generated token with PyTorch's, for a decoder of 10 million parameters. It takes a minute.

    cargo build --release
    PYTHON tools/generation_speed.py TEXT

TEXT is any text file in UTF-8; PYTHON has torch. oomph trains `gpt-shakespeare` for a step and continues a prompt, by 250 tokens and by
10: the difference of both times is that of 240 tokens, without the start of the program. PyTorch has a decoder of the same layers with
`scaled_dot_product_attention` and a cache of keys and values, and draws from the softmax too. Both run in turn, seven times. `--save`
at the end writes docs/tables/generation-speed.json; `cargo xtask docs` shows it. Times need an idle machine.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

from table import Table

OOMPH = os.environ.get("OOMPH", "target/release/oomph")
LAYERS, FEATURES, HEADS, TOKENS, CONTEXT = 6, 384, 6, 66, 256
RUNS, SHORT, LONG = 7, 10, 250


class Block(nn.Module):
    """A block of GPT-2 for one position."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(FEATURES) for _ in range(2))
        self.qkv, self.output = nn.Linear(FEATURES, 3 * FEATURES), nn.Linear(FEATURES, FEATURES)
        self.up, self.down = nn.Linear(FEATURES, 4 * FEATURES), nn.Linear(4 * FEATURES, FEATURES)
        self.kept = torch.zeros(2, 1, HEADS, CONTEXT, FEATURES // HEADS)

    def forward(self, x, place):
        query, *new = self.qkv(self.norms[0](x)).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        for kept, one in zip(self.kept, new):
            kept[:, :, place] = one[:, :, 0]
        keys, values = self.kept[:, :, :, :place + 1]
        x = x + self.output(F.scaled_dot_product_attention(query, keys, values).transpose(1, 2).reshape(1, 1, FEATURES))
        return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, FEATURES), nn.Embedding(CONTEXT, FEATURES)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(FEATURES)

    def forward(self, token, place):
        x = self.tokens(token) + self.positions(torch.tensor([[place]]))
        for block in self.blocks:
            x = block(x, place)
        return F.linear(self.norm(x), self.tokens.weight)


def by_pytorch(decoder):
    """Seconds of a token."""
    with torch.inference_mode():
        token, began = torch.zeros(1, 1, dtype=torch.long), 0.0
        for place in range(LONG):
            if place == SHORT:
                began = time.perf_counter()
            token = torch.multinomial(F.softmax(decoder(token, place)[0], 1), 1)
        return (time.perf_counter() - began) / (LONG - SHORT)


def by_oomph(run):
    """The same of oomph."""
    def seconds(length):
        began = time.perf_counter()
        subprocess.run([OOMPH, "predict", run, "--prompt", "A", "--length", str(length)], capture_output=True, check=True)
        return time.perf_counter() - began

    return (seconds(LONG) - seconds(SHORT)) / (LONG - SHORT)


def main():
    words = [word for word in sys.argv[1:] if word != "--save"]
    if len(words) != 1:
        sys.exit(__doc__)
    table = Table("PYTHON tools/generation_speed.py TEXT --save", "program", ">a token", ">tokens a second", ">× PyTorch")
    decoder = Decoder().eval()
    by_pytorch(decoder)
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        layers = {"model.positions": "learned", "model.norm": "layer", "model.activation": "gelu-tanh", "memory.precision": "fp32"}
        short = {"train.steps": 1, "train.batch": 1, "train.eval_every": "never"}
        settings = {"data.path": words[0], "run.directory": run, **layers, **short}
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        subprocess.run([OOMPH, "train", "--config", "gpt-shakespeare", *options], capture_output=True, check=True)
        times = [(by_oomph(run), by_pytorch(decoder)) for _ in range(RUNS)]
    own, theirs = (statistics.median(of) for of in zip(*times))
    for name, seconds in [("PyTorch", theirs), ("oomph", own)]:
        table.add(name, f"{1e3 * seconds:.2f} ms", f"{1 / seconds:.0f}", f"{theirs / seconds:.2f}")
    if "--save" in sys.argv:
        table.save("generation-speed")


if __name__ == "__main__":
    main()
