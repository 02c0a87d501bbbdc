#!/usr/bin/env python3
"""Writes the golden values of GRUs, from PyTorch on the CPU, as `generate.py` does for other networks:

    python tools/golden/gru.py --out tests/golden

`tests/golden/README.md` describes every key. The layers are `nn.GRU`. Values are of float64, stored as float32.
"""

import argparse
from pathlib import Path

import torch
from generate import values, write
from torch import nn
from torch.nn import functional as F

B, T, INPUT, HIDDEN, LAYERS, LABELS, TOKENS, CHUNKS = 3, 9, 5, 7, 2, 4, 6, 2
# A large epsilon keeps the steps of small gradients small, whose last bits differ.
RATE, DECAY, EPSILON, STEPS = 0.01, 0.1, 1e-4, 2


def fill(name, net, dtype):
    with torch.no_grad():
        for key, tensor in net.named_parameters():
            tensor.copy_(values(f"gru/{name}/{key}", tensor.shape, 0.6))
    return net.to(dtype)


def with_prefix(name, tensors):
    return {f"{name}.{key}": tensor.detach().clone() for key, tensor in tensors}


def gradients(name, net):
    return with_prefix(name, ((key, tensor.grad) for key, tensor in net.named_parameters()))


def trained(name, net, loss_of):
    """Two steps of AdamW: outputs, loss and gradients of the first, and the parameters after the second."""
    out = with_prefix(name, net.named_parameters())
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, eps=EPSILON)
    for step in range(STEPS):
        logits, loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            out[f"{name}.logits"], out[f"{name}.loss"] = logits.detach().clone(), loss.detach().reshape(1)
            out.update(gradients(f"{name}.grad", net))
        optimizer.step()
    out.update(with_prefix(f"{name}.after", net.named_parameters()))
    return out


def layers(dtype):
    """Two layers from given states: outputs, last states, and the gradients of everything."""
    net = fill("layers", nn.GRU(INPUT, HIDDEN, LAYERS, batch_first=True), dtype)
    shapes = {"input": (B, T, INPUT), "h0": (LAYERS, B, HIDDEN)}
    leaves = {key: values(f"gru/layers/{key}", shape).to(dtype).requires_grad_() for key, shape in shapes.items()}
    output, hn = net(leaves["input"], leaves["h0"])
    found = {"output": output, "hn": hn}
    upstream = {key: values(f"gru/layers/upstream.{key}", tensor.shape).to(dtype) for key, tensor in found.items()}
    sum((tensor * upstream[key]).sum() for key, tensor in found.items()).backward()
    out = with_prefix("layers", [*net.named_parameters(), *leaves.items(), *found.items()])
    out.update(with_prefix("layers.upstream", upstream.items()))
    out.update(gradients("layers.grad", net))
    out.update(with_prefix("layers.grad", ((key, leaf.grad) for key, leaf in leaves.items())))
    return out


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(INPUT, HIDDEN, LAYERS, batch_first=True)
        self.fc = nn.Linear(HIDDEN, LABELS)

    def forward(self, x):
        return self.fc(self.gru(x)[0][:, -1])


def classifier(dtype):
    net = fill("classifier", Classifier(), dtype)
    x = values("gru/classifier/input", (B, T, INPUT), 1.5).to(dtype)
    labels = torch.arange(B) % LABELS

    def loss_of():
        logits = net(x)
        return logits, F.cross_entropy(logits, labels)

    return {"classifier.input": x, "classifier.labels": labels, **trained("classifier", net, loss_of)}


class LanguageModel(nn.Module):
    """As among PyTorch's examples: embedding, GRU, a linear layer that may be tied."""

    def __init__(self, tied):
        super().__init__()
        self.encoder = nn.Embedding(TOKENS, HIDDEN)
        self.rnn = nn.GRU(HIDDEN, HIDDEN, LAYERS, batch_first=True)
        self.decoder = nn.Linear(HIDDEN, TOKENS)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens, state):
        output, state = self.rnn(self.encoder(tokens), state)
        return self.decoder(output), state


def language(dtype):
    """Two chunks of three texts, each a step; the state is carried from one to the next and cut from the graph."""
    tokens = (values("gru/tokens", (B, CHUNKS * T + 1), 0.5, 0.5) * TOKENS).long()
    out = {"tokens": tokens}
    for tied in (False, True):
        name = "tied" if tied else "untied"
        net = fill(name, LanguageModel(tied), dtype)
        out.update(with_prefix(name, net.named_parameters()))
        optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, eps=EPSILON)
        state, losses = None, []
        for chunk in range(CHUNKS):
            piece = tokens[:, chunk * T : (chunk + 1) * T + 1]
            logits, state = net(piece[:, :-1], state)
            state = state.detach()
            loss = F.cross_entropy(logits.reshape(-1, TOKENS), piece[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.detach())
            out[f"{name}.logits{chunk}"] = logits.detach()
            out.update(gradients(f"{name}.grad{chunk}", net))
            optimizer.step()
        out[f"{name}.loss"] = torch.stack(losses)
        out[f"{name}.perplexity"] = torch.stack(losses).mean().exp().reshape(1)
        out.update(with_prefix(f"{name}.after", net.named_parameters()))
    return out


def gru(dtype=torch.float64):
    out = {**layers(dtype), **classifier(dtype), **language(dtype)}
    return {k: v.float() if v.is_floating_point() else v for k, v in out.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write, tests/golden")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    write(asked.out, "gru.safetensors", gru())


if __name__ == "__main__":
    main()
