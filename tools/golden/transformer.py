#!/usr/bin/env python3
"""Writes the golden values of transformers, from PyTorch on the CPU, as `generate.py` does for other networks:

    python tools/golden/transformer.py --out tests/golden

`tests/golden/README.md` describes every key. The networks are small and have PyTorch's own layers: `LayerNorm`, `RMSNorm`,
`scaled_dot_product_attention`, `gelu`, `silu`. Their parameters have oomph's names. Values are of float64, stored as float32.
"""

import argparse
from pathlib import Path

import torch
from generate import values, write
from torch import nn
from torch.nn import functional as F
from torchvision.models import VisionTransformer

B, T, TOKENS, LAYERS, HIDDEN, HEADS = 3, 9, 11, 2, 24, 4
# The bias of keys moves all scores of a row alike, so its gradient is 0 but for rounding. A large epsilon keeps that a small step.
RATE, DECAY, EPSILON, STEPS = 0.01, 0.1, 1e-4, 2

# What differs between decoders: normalisation, activation, positions, heads of keys, biases, a tied head.
VARIANTS = {
    "gpt2": dict(norm="layer", activation="gelu-tanh", positions="learned", key_heads=4, bias=True, tied=True),
    "llama": dict(norm="rms", activation="swiglu", positions="rotary", key_heads=2, bias=False, tied=False),
    "mixed": dict(norm="layer", activation="gelu", positions="rotary", key_heads=1, bias=True, tied=False),
}
FEED_FORWARD = {"gelu": 40, "gelu-tanh": 40, "swiglu": 28}


def norm(kind):
    return nn.LayerNorm(HIDDEN, eps=1e-5) if kind == "layer" else nn.RMSNorm(HIDDEN, eps=1e-5)


def turned(x, base=10000.0):
    """Rotary positions of [B, H, T, D], with element i and i + D/2 as a pair (Hugging Face's Llama)."""
    positions, size = x.shape[-2:]
    frequencies = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
    cosines, sines = (torch.cat((of, of), -1).to(x.dtype) for of in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat((-second, first), -1) * sines


class Block(nn.Module):
    def __init__(self, variant):
        super().__init__()
        self.variant = variant
        size, inner = HIDDEN // HEADS, FEED_FORWARD[variant["activation"]]
        gates = 2 if variant["activation"] == "swiglu" else 1
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=variant["bias"])
        self.attention_norm, self.feed_norm = norm(variant["norm"]), norm(variant["norm"])
        self.qkv = linear(HIDDEN, HIDDEN + 2 * variant["key_heads"] * size)
        self.attention_output = linear(HIDDEN, HIDDEN)
        self.up, self.down = linear(HIDDEN, gates * inner), linear(inner, HIDDEN)

    def attend(self, x):
        size, keys = HIDDEN // HEADS, self.variant["key_heads"]
        in_heads = lambda part: part.unflatten(-1, (-1, size)).transpose(1, 2)
        q, k, v = (in_heads(part) for part in x.split([HIDDEN, keys * size, keys * size], -1))
        if self.variant["positions"] == "rotary":
            q, k = turned(q), turned(k)
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return output.transpose(1, 2).flatten(2)

    def feed(self, x):
        if self.variant["activation"] == "swiglu":
            gate, value = x.chunk(2, -1)
            return F.silu(gate) * value
        return F.gelu(x, approximate="tanh" if self.variant["activation"] == "gelu-tanh" else "none")

    def forward(self, x):
        x = x + self.attention_output(self.attend(self.qkv(self.attention_norm(x))))
        return x + self.down(self.feed(self.up(self.feed_norm(x))))


class Gpt(nn.Module):
    def __init__(self, variant):
        super().__init__()
        self.embedding, self.head = nn.Module(), nn.Module()
        self.embedding.tokens = nn.Embedding(TOKENS, HIDDEN)
        if variant["positions"] == "learned":
            self.embedding.positions = nn.Parameter(torch.zeros(T, HIDDEN))
        self.block = nn.ModuleList(Block(variant) for _ in range(LAYERS))
        self.head.norm = norm(variant["norm"])
        self.head.weight = self.embedding.tokens.weight if variant["tied"] else nn.Parameter(torch.zeros(TOKENS, HIDDEN))

    def forward(self, tokens):
        x = self.embedding.tokens(tokens)
        if hasattr(self.embedding, "positions"):
            x = x + self.embedding.positions
        for block in self.block:
            x = block(x)
        return F.linear(self.head.norm(x), self.head.weight)


def gpt(dtype=torch.float64):
    """Logits, loss and gradients of three texts, and the parameters after two steps of AdamW."""
    tokens = (values("gpt/tokens", (B, T + 1), 0.5, 0.5) * TOKENS).long()
    out = {"tokens": tokens}
    for name, variant in VARIANTS.items():
        net = Gpt(variant)
        with torch.no_grad():
            for key, tensor in net.named_parameters():
                is_scale = key.endswith("norm.weight")
                tensor.copy_(values(f"gpt/{name}/{key}", tensor.shape, 0.3, 1.0 if is_scale else 0.0))
        net.to(dtype)
        out.update({f"{name}.{k}": v.detach().clone() for k, v in net.named_parameters()})
        optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, eps=EPSILON)
        for step in range(STEPS):
            logits = net(tokens[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, TOKENS), tokens[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            if step == 0:
                out[f"{name}.logits"], out[f"{name}.loss"] = logits.detach().clone(), loss.detach().reshape(1)
                out.update({f"{name}.grad.{k}": p.grad.clone() for k, p in net.named_parameters()})
            optimizer.step()
        out.update({f"{name}.after.{k}": p.detach().clone() for k, p in net.named_parameters()})
    return {k: v.float() if v.is_floating_point() else v for k, v in out.items()}


SIZE, PATCH, CLASSES = 16, 8, 5


def vit(dtype=torch.float64):
    """Logits, loss and gradients of torchvision's vision transformer, and its parameters after two steps of AdamW."""
    net = VisionTransformer(SIZE, PATCH, num_layers=LAYERS, num_heads=HEADS, hidden_dim=HIDDEN, mlp_dim=40, num_classes=CLASSES)
    with torch.no_grad():
        for key, tensor in net.named_parameters():
            is_scale = ".ln" in key and key.endswith("weight")
            tensor.copy_(values(f"vit/{key}", tensor.shape, 0.3, 1.0 if is_scale else 0.0))
    net.to(dtype)
    images = values("vit/images", (B, 3, SIZE, SIZE)).to(dtype)
    labels = torch.arange(B) % CLASSES
    out = {"images": images, "labels": labels, **{k: v.detach().clone() for k, v in net.named_parameters()}}
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, eps=EPSILON)
    for step in range(STEPS):
        logits = net(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            out["logits"], out["loss"] = logits.detach().clone(), loss.detach().reshape(1)
            out.update({f"grad.{k}": p.grad.clone() for k, p in net.named_parameters()})
        optimizer.step()
    out.update({f"after.{k}": p.detach().clone() for k, p in net.named_parameters()})
    return {k: v.float() if v.is_floating_point() else v for k, v in out.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write, tests/golden")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for build in (gpt, vit):
        write(asked.out, f"{build.__name__}.safetensors", build())


if __name__ == "__main__":
    main()
