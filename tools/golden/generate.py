#!/usr/bin/env python3
"""Writes the golden values in `tests/golden/`, from PyTorch on the CPU.

The Rust tests read these files and need no Python. Run this only to change what
is checked, with exactly these versions (the files then come out byte for byte the
same on the same kind of CPU; another CPU may move last digits):

    python3.11 -m venv /tmp/torchvenv
    /tmp/torchvenv/bin/pip install torch==2.15.0 torchvision==0.29.2 \\
        numpy==2.4.6 safetensors==0.8.0
    python tools/golden/generate.py --out tests/golden
    python tools/golden/generate.py --check    # how well conditioned

`tests/golden/README.md` describes every file and key; keep it in step with this
script. Every number that goes in comes from `values` below, never from a random
number generator, so that ResNet weights need not be stored: Rust computes the
same float32 values from the tensor's name.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
import torchvision
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch
from torch import nn
from torch.nn import functional as F

# ---------------------------------------------------------------- values by formula

MASK = (1 << 64) - 1


def fnv1a(text):
    """FNV-1a, 64 bits, of the UTF-8 bytes of `text`."""
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def units(name, count):
    """The first `count` outputs of SplitMix64 seeded with fnv1a(name), as u in [0, 1).

    Only the top 24 bits are used, so u is exact in float32 and in float64.
    """
    step = np.uint64(0x9E3779B97F4A7C15)
    z = np.uint64(fnv1a(name)) + np.arange(1, count + 1, dtype=np.uint64) * step
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 16777216.0


def values(name, shape, half=1.0, center=0.0):
    """float32 values in [center - half, center + half), row-major.

    center + (2u - 1) * half in float64, in this order, rounded once to float32.
    """
    u = units(name, math.prod(shape))
    return torch.from_numpy((center + (2.0 * u - 1.0) * half).astype(np.float32).reshape(shape))


# ---------------------------------------------------------------- ResNet

# Depth makes float32 gradients jumpy: a pre-activation within rounding error of zero
# falls on one side in one implementation and on the other in the next. Small last
# batch norms (LAST_NORM) keep that from growing with depth, and a salt was picked, of
# 100 (ResNet-18) and 250 (ResNet-50), that leaves the widest gap around zero: 4e-6
# and 1e-6, over both steps, max-pool ties counted too.
SALT = {"resnet18": 54, "resnet50": 60}
BATCH, SIZE, CLASSES = 4, 40, 10
LR, MOMENTUM, WEIGHT_DECAY = 0.05, 0.9, 1e-4
STEM_GAIN, CONV_GAIN, FC_GAIN = 2.0, 0.5, 0.3
NORM, LAST_NORM = (1.0, 0.5), (0.1, 0.05)
SAMPLES = 8


def resnet_values(arch, name, shape):
    """The initial value of one parameter or buffer, by its torchvision name."""
    last_norm = {"resnet18": "bn2", "resnet50": "bn3"}[arch]
    module, _, leaf = name.rpartition(".")
    center, half = 0.0, 0.1  # biases and running means
    if len(shape) > 1:
        gain = {"conv1": STEM_GAIN, "fc": FC_GAIN}.get(module, CONV_GAIN)
        half = gain * math.sqrt(3.0 / math.prod(shape[1:]))
    elif leaf == "weight":
        center, half = LAST_NORM if module.endswith("." + last_norm) else NORM
    elif leaf == "running_var":
        center, half = NORM
    return values(f"{arch}/{SALT[arch]}/{name}", shape, half, center)


def float_state(net):
    return {k: v for k, v in net.state_dict().items() if v.is_floating_point()}


def train_resnet(arch, dtype, onednn=True):
    """Two training steps on one batch: everything the golden file summarizes."""
    net = getattr(torchvision.models, arch)(num_classes=CLASSES)
    with torch.no_grad():
        for name, tensor in float_state(net).items():
            tensor.copy_(resnet_values(arch, name, tensor.shape))
    net.to(dtype)
    x = values(f"{arch}/{SALT[arch]}/input", (BATCH, 3, SIZE, SIZE)).to(dtype)
    labels = torch.arange(BATCH) % CLASSES
    optimizer = torch.optim.SGD(
        net.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, foreach=False
    )
    run = {"loss": [], "logits": []}

    def keep(stage, tensors):
        run[stage] = {k: v.detach().double().clone() for k, v in tensors.items()}

    keep("initial", float_state(net))
    net.train()
    with torch.backends.mkldnn.flags(enabled=onednn):
        for step in (1, 2):
            logits = net(x)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            keep(f"grad{step}", {k: p.grad for k, p in net.named_parameters()})
            optimizer.step()
            keep(f"after{step}", float_state(net))
            run["loss"].append(loss.item())
            run["logits"].append(logits.detach())
        net.eval()
        with torch.no_grad():
            run["logits_eval"] = net(x)
    return run


def summary(name, tensor):
    """[sum, L2 norm, probe, 8 samples] in float64; see README.md."""
    flat = tensor.double().flatten().numpy()
    probe = 2.0 * units("probe/" + name, flat.size) - 1.0
    places = [k * (flat.size - 1) // (SAMPLES - 1) for k in range(SAMPLES)]
    head = [flat.sum(), math.sqrt(np.dot(flat, flat)), np.dot(flat, probe)]
    return np.array(head + [flat[p] for p in places], dtype=np.float64)


def kept_whole(arch, name, tensor):
    last = {"resnet18": "layer4.1.", "resnet50": "layer4.2."}[arch]
    blocks = ("bn1.", "layer1.0.", last, "fc.bias")
    return tensor.dim() == 1 and name.startswith(blocks)


def resnet(arch):
    run, exact = train_resnet(arch, torch.float32), train_resnet(arch, torch.float64)
    out = {
        "loss": torch.tensor(run["loss"], dtype=torch.float32),
        "loss_float64": torch.tensor(exact["loss"], dtype=torch.float64),
        "logits_train1": run["logits"][0],
        "logits_train2": run["logits"][1],
        "logits_eval": run["logits_eval"],
    }
    for stage in ("initial", "grad1", "after1", "after2"):
        for name, tensor in run[stage].items():
            out[f"{stage}.{name}"] = summary(name, tensor)
    for name, tensor in run["after2"].items():
        if kept_whole(arch, name, tensor):
            out[f"whole.{name}"] = tensor.float()
    return out


# ---------------------------------------------------------------- the first blocks of a ResNet

BLOCK_WIDTH = 8
# What each has behind its stem: (block, of how many, with which stride). The salt, of 200,
# leaves the widest gap around zero before a rectifier, as for the whole networks.
BLOCKS = {
    "basic": (torchvision.models.resnet.BasicBlock, [(2, 1), (1, 2)], 142),
    "bottleneck": (torchvision.models.resnet.Bottleneck, [(3, 1), (1, 2)], 14),
}


class FirstBlocks(nn.Module):
    """torchvision's stem at a smaller width, `layer1`, and the first block of `layer2`."""

    def __init__(self, block, layers):
        super().__init__()
        self.conv1 = nn.Conv2d(3, BLOCK_WIDTH, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(BLOCK_WIDTH)
        channels = BLOCK_WIDTH
        for index, (count, stride) in enumerate(layers):
            width = BLOCK_WIDTH << index
            made = []
            for at in range(count):
                by = stride if at == 0 else 1
                output = width * block.expansion
                downsample = None
                if by != 1 or channels != output:
                    conv = nn.Conv2d(channels, output, 1, by, bias=False)
                    downsample = nn.Sequential(conv, nn.BatchNorm2d(output))
                made.append(block(channels, width, by, downsample))
                channels = output
            setattr(self, f"layer{index + 1}", nn.Sequential(*made))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.layer2(self.layer1(x))


def blocks(dtype=torch.float64):
    """One training forward and backward: in float64, rounded at the end, what float32 is to come close to."""
    out = {}
    for kind, (block, layers, salt) in BLOCKS.items():
        seed = f"blocks/{kind}/{salt}"
        net = FirstBlocks(block, layers)
        with torch.no_grad():
            for name, tensor in float_state(net).items():
                half, center = (0.1, 0.0) if name.endswith(("bias", "mean")) else (0.5, 1.0)
                if tensor.dim() > 1:
                    half, center = math.sqrt(3.0 / math.prod(tensor.shape[1:])), 0.0
                tensor.copy_(values(f"{seed}/{name}", tensor.shape, half, center))
        net.to(dtype)
        x = values(f"{seed}/input", (BATCH, 3, SIZE, SIZE)).to(dtype)
        y = net(x)
        (y * values(f"{seed}/upstream", y.shape).to(dtype)).sum().backward()
        out[f"{kind}.output"] = y.detach()
        out.update({f"{kind}.grad.{k}": p.grad for k, p in net.named_parameters()})
        running = {k: v for k, v in float_state(net).items() if "running" in k}
        out.update({f"{kind}.after.{k}": v for k, v in running.items()})
    return {k: v.float() for k, v in out.items()}


# ---------------------------------------------------------------- LSTM

B, T, INPUT, HIDDEN, LAYERS, LABELS = 3, 9, 5, 7, 2, 4


def lstm(dtype=torch.float32):
    def leaf(key, shape, half=1.0):
        return values("lstm/" + key, shape, half).to(dtype).requires_grad_()

    net = nn.LSTM(INPUT, HIDDEN, LAYERS, batch_first=True).to(dtype)
    head = nn.Linear(HIDDEN, LABELS).to(dtype)
    params = dict(net.named_parameters())
    with torch.no_grad():
        for key, param in params.items():
            param.copy_(values("lstm/" + key, param.shape, 0.6))
        head.weight.copy_(values("lstm/classifier.weight", head.weight.shape, 0.6))
        head.bias.copy_(values("lstm/classifier.bias", head.bias.shape, 0.6))
    x = leaf("input", (B, T, INPUT), 1.5)
    h0, c0 = leaf("h0", (LAYERS, B, HIDDEN)), leaf("c0", (LAYERS, B, HIDDEN))
    up = {"output": values("lstm/upstream.output", (B, T, HIDDEN)).to(dtype)}
    for key in ("hn", "cn"):
        up[key] = values(f"lstm/upstream.{key}", (LAYERS, B, HIDDEN)).to(dtype)
    leaves = {**params, "input": x, "h0": h0, "c0": c0}

    output, (hn, cn) = net(x, (h0, c0))
    loss = (output * up["output"]).sum() + (hn * up["hn"]).sum() + (cn * up["cn"]).sum()
    loss.backward()
    out = {key: t.detach().clone() for key, t in leaves.items()}
    out.update({f"grad.{key}": t.grad.clone() for key, t in leaves.items()})
    out.update({f"upstream.{key}": t for key, t in up.items()})
    out.update(output=output.detach(), hn=hn.detach(), cn=cn.detach(), loss=loss.detach().view(1))

    for tensor in leaves.values():
        tensor.grad = None
    labels = torch.arange(B) % LABELS
    logits = head(net(x)[0][:, -1])  # zero initial state
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    out["classifier.labels"] = labels
    out["classifier.logits"] = logits.detach()
    out["classifier.loss"] = loss.detach().view(1)
    for key, tensor in {**params, "input": x}.items():
        out[f"classifier.grad.{key}"] = tensor.grad.clone()
    for key, tensor in head.named_parameters():
        out[f"classifier.{key}"] = tensor.detach().clone()
        out[f"classifier.grad.classifier.{key}"] = tensor.grad.clone()
    return out


# ---------------------------------------------------------------- batch norm


def batchnorm(dtype=torch.float32):
    shape, channels = (4, 3, 5, 6), 3
    net = nn.BatchNorm2d(channels).to(dtype)
    with torch.no_grad():
        net.weight.copy_(values("batchnorm/weight", (channels,), 0.5, 1.0))
        net.bias.copy_(values("batchnorm/bias", (channels,), 0.5))
    # Per-channel scale and offset, so that mean and variance matter.
    scale = torch.tensor([1.0, 0.25, 4.0]).view(1, 3, 1, 1)
    offset = torch.tensor([0.5, -2.0, 1.0]).view(1, 3, 1, 1)
    out = {k: v.detach().clone() for k, v in net.named_parameters()}
    for call in (1, 2):
        x = (values(f"batchnorm/x{call}", shape) * scale + offset).to(dtype)
        upstream = values(f"batchnorm/upstream{call}", shape).to(dtype)
        out.update(differentiate(net, x, upstream, str(call)))
        out[f"running_mean{call}"] = net.running_mean.clone()
        out[f"running_var{call}"] = net.running_var.clone()
    net.eval()
    out.update(differentiate(net, x, upstream, "_eval"))
    del out["x_eval"], out["upstream_eval"]  # those of call 2

    # Hard on E[x²] - E[x]²: a mean a hundred times the spread.
    far = nn.BatchNorm2d(channels).to(dtype)
    x = (values("batchnorm/x_far", shape) + 100.0).to(dtype)
    out.update(differentiate(far, x, values("batchnorm/upstream_far", shape).to(dtype), "_far"))
    out["running_mean_far"] = far.running_mean.clone()
    out["running_var_far"] = far.running_var.clone()
    return out


def differentiate(net, x, upstream, suffix):
    """y of one call, and the gradients of (y * upstream).sum()."""
    net.zero_grad()
    x = x.clone().requires_grad_()
    y = net(x)
    (y * upstream).sum().backward()
    return {
        "x" + suffix: x.detach(),
        "upstream" + suffix: upstream,
        "y" + suffix: y.detach(),
        "dx" + suffix: x.grad,
        "dweight" + suffix: net.weight.grad.clone(),
        "dbias" + suffix: net.bias.grad.clone(),
    }


# ---------------------------------------------------------------- a language model

# Few: a lean layer reads tokens where a batch has four rows for each.
TOKENS, CHUNKS = 6, 2


class LanguageModel(nn.Module):
    """As among PyTorch's examples: embedding, LSTM, a linear layer that may be tied."""

    def __init__(self, tied):
        super().__init__()
        self.encoder = nn.Embedding(TOKENS, HIDDEN)
        self.rnn = nn.LSTM(HIDDEN, HIDDEN, LAYERS, batch_first=True)
        self.decoder = nn.Linear(HIDDEN, TOKENS)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens, state):
        output, state = self.rnn(self.encoder(tokens), state)
        return self.decoder(output), state


def language(dtype=torch.float64):
    """Two chunks of three texts, the state carried from one to the next and cut from the graph."""
    out = {}
    tokens = (values("language/tokens", (B, CHUNKS * T + 1), 0.5, 0.5) * TOKENS).long()
    out["tokens"] = tokens
    for tied in (False, True):
        name = "tied" if tied else "untied"
        net = LanguageModel(tied)
        with torch.no_grad():
            for key, tensor in net.named_parameters():
                tensor.copy_(values(f"language/{name}/{key}", tensor.shape, 0.5))
        net.to(dtype)
        out.update({f"{name}.{k}": v.detach().clone() for k, v in net.named_parameters()})
        state, losses = None, []
        for chunk in range(CHUNKS):
            piece = tokens[:, chunk * T : (chunk + 1) * T + 1]
            logits, state = net(piece[:, :-1], state)
            state = tuple(tensor.detach() for tensor in state)
            loss = F.cross_entropy(logits.reshape(-1, TOKENS), piece[:, 1:].reshape(-1))
            net.zero_grad()
            loss.backward()
            losses.append(loss.detach())
            out[f"{name}.logits{chunk}"] = logits.detach()
            out.update({f"{name}.grad{chunk}.{k}": p.grad.clone() for k, p in net.named_parameters()})
        out[f"{name}.loss"] = torch.stack(losses)
        out[f"{name}.perplexity"] = torch.stack(losses).mean().exp().reshape(1)
    return {k: v.float() if v.is_floating_point() else v for k, v in out.items()}


# ---------------------------------------------------------------- optimizers

STEPS = 6
SHAPES = {"a": (3, 4), "b": (5,), "c": (2, 3, 2)}
# The kernels of a convolution, for what depends on the number of dimensions.
STEPPED = {**SHAPES, "d": (3, 2, 2, 2)}


class Adan(torch.optim.Optimizer):
    """Adan, written from the paper's algorithm 1 (Xie et al. 2022, arXiv:2208.06677)
    with the bias corrections of the authors' code (sail-sg/Adan), which PyTorch lacks.

    With the betas counted as in that code (0.98, 0.92, 0.99), g the gradient,
    d = g - g_previous (0 on the first step), t the step from 1:
        m = b1 m + (1 - b1) g
        v = b2 v + (1 - b2) d
        n = b3 n + (1 - b3) (g + b2 d)^2
        denom = sqrt(n) / sqrt(1 - b3^t) + eps
        p = (p - lr m / (1 - b1^t) / denom - lr b2 v / (1 - b2^t) / denom) / (1 + lr wd)
    `no_prox`: instead of the division, p is multiplied by (1 - lr wd) first.
    """

    def __init__(self, params, lr, betas, eps, weight_decay=0.0, no_prox=False):
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, no_prox=no_prox)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self._step_one(p, group)

    def _step_one(self, p, group):
        (b1, b2, b3), lr, decay = group["betas"], group["lr"], group["lr"] * group["weight_decay"]
        g, s = p.grad, self.state[p]
        if not s:
            s.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p), n=torch.zeros_like(p))
            s["previous"] = g.clone()
        s["t"] += 1
        d = g - s["previous"]
        s["m"] = b1 * s["m"] + (1 - b1) * g
        s["v"] = b2 * s["v"] + (1 - b2) * d
        s["n"] = b3 * s["n"] + (1 - b3) * (g + b2 * d) ** 2
        s["previous"] = g.clone()
        denom = s["n"].sqrt() / math.sqrt(1 - b3 ** s["t"]) + group["eps"]
        update = s["m"] / (1 - b1 ** s["t"]) / denom + b2 * s["v"] / (1 - b2 ** s["t"]) / denom
        if group["no_prox"]:
            p.mul_(1 - decay).sub_(lr * update)
        else:
            p.sub_(lr * update).div_(1 + decay)


class Lion(torch.optim.Optimizer):
    """Lion, written from the paper's algorithm 2 (Chen et al. 2023, arXiv:2302.06675), which
    PyTorch lacks, with g the gradient:
        u = sign(b1 m + (1 - b1) g)
        p = p - lr (u + wd p)
        m = b2 m + (1 - b2) g
    """

    def __init__(self, params, lr, betas, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(b1 * m + (1 - b1) * p.grad)
                p -= lr * (update + decay * p)
                self.state[p]["m"] = b2 * m + (1 - b2) * p.grad


def optimizer_cases():
    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    rmsprop, adagrad = torch.optim.RMSprop, torch.optim.Adagrad
    adafactor = torch.optim.Adafactor
    m = dict(lr=0.1, momentum=0.9)
    a = dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8)
    r = dict(lr=0.01, alpha=0.99, eps=1e-8)
    g = dict(lr=0.01, eps=1e-10)
    n = dict(lr=0.01, betas=(0.98, 0.92, 0.99), eps=1e-8)
    o = dict(lr=0.01, betas=(0.9, 0.99))
    # The default of PyTorch, which in float64 would be another.
    f = dict(lr=0.01, eps=(torch.finfo(torch.float32).eps, 1e-3))
    return {
        "sgd": (sgd, dict(lr=0.1)),
        "sgd_decay": (sgd, dict(lr=0.1, weight_decay=0.01)),
        "sgd_momentum": (sgd, m),
        "sgd_momentum_decay": (sgd, {**m, "weight_decay": 0.01}),
        "sgd_nesterov": (sgd, {**m, "nesterov": True}),
        "sgd_nesterov_decay": (sgd, {**m, "nesterov": True, "weight_decay": 0.01}),
        "sgd_dampening": (sgd, {**m, "dampening": 0.1}),
        "adam": (adam, {**a, "weight_decay": 0.0}),
        "adam_decay": (adam, {**a, "weight_decay": 0.01}),
        "adam_amsgrad": (adam, {**a, "amsgrad": True}),
        "adam_large_eps": (adam, {**a, "eps": 0.1}),
        "adamw": (adamw, {**a, "weight_decay": 0.01}),
        "adamw_large_decay": (adamw, {**a, "weight_decay": 0.5}),
        "rmsprop": (rmsprop, r),
        "rmsprop_decay": (rmsprop, {**r, "weight_decay": 0.01}),
        "rmsprop_momentum": (rmsprop, {**r, "momentum": 0.9}),
        "rmsprop_centered": (rmsprop, {**r, "centered": True}),
        "rmsprop_centered_momentum": (rmsprop, {**r, "centered": True, "momentum": 0.9}),
        "rmsprop_large_eps": (rmsprop, {**r, "eps": 0.1}),
        "adagrad": (adagrad, g),
        "adagrad_decay": (adagrad, {**g, "weight_decay": 0.01}),
        "adagrad_lr_decay": (adagrad, {**g, "lr_decay": 0.1}),
        "adagrad_large_eps": (adagrad, {**g, "eps": 0.1}),
        "adan": (Adan, n),
        "adan_decay": (Adan, {**n, "weight_decay": 0.02}),
        "adan_no_prox_decay": (Adan, {**n, "weight_decay": 0.02, "no_prox": True}),
        "adan_large_eps": (Adan, {**n, "eps": 0.1}),
        "lion": (Lion, o),
        "lion_decay": (Lion, {**o, "weight_decay": 0.5}),
        "lion_betas": (Lion, {**o, "betas": (0.5, 0.8)}),
        "adafactor": (adafactor, f),
        "adafactor_decay": (adafactor, {**f, "weight_decay": 0.5}),
        "adafactor_large_lr": (adafactor, {**f, "lr": 0.6}),  # above 1 / sqrt(t) from step 3 on
        "adafactor_large_d": (adafactor, {**f, "d": 100.0}),  # no update is clipped
        "adafactor_beta2_decay": (adafactor, {**f, "beta2_decay": -0.3}),
        "adafactor_large_eps1": (adafactor, {**f, "eps": (0.5, 1e-3)}),
        "adafactor_large_eps2": (adafactor, {**f, "eps": (f["eps"][0], 2.0)}),
    }


def as_stepped(kind, tensor):
    """Ours factors kernels [O, I, ...] as a matrix [O, I * ...], PyTorch their last two dimensions."""
    is_kernel = kind is torch.optim.Adafactor and tensor.dim() > 2
    return tensor.flatten(1) if is_kernel else tensor


def optimizers(dtype=torch.float32):
    start = {k: values(f"optimizers/param.{k}", s).to(dtype) for k, s in STEPPED.items()}
    grads = {k: values(f"optimizers/grad.{k}", (STEPS, *s)).to(dtype) for k, s in STEPPED.items()}
    grads["b"][:, 0] = 0.0  # never any gradient: only weight decay may move it
    grads["b"][0, 1] = 0.0  # no gradient on the first step only
    out = {f"param.{k}": t for k, t in start.items()}
    out.update({f"grad.{k}": t for k, t in grads.items()})
    for case, (kind, settings) in optimizer_cases().items():
        params = {k: as_stepped(kind, t).clone().requires_grad_() for k, t in start.items()}
        extra = {} if kind in (Adan, Lion) else {"foreach": False}
        optimizer = kind(params.values(), **settings, **extra)
        trail = {k: [] for k in params}
        for step in range(STEPS):
            for key, param in params.items():
                param.grad = as_stepped(kind, grads[key][step]).clone()
            optimizer.step()
            for key, param in params.items():
                trail[key].append(param.detach().clone().reshape(start[key].shape))
        out.update({f"{case}.{k}": torch.stack(t) for k, t in trail.items()})
    return out


# ---------------------------------------------------------------- clipping


def clip():
    grads = {k: values(f"clip/grad.{k}", s, 2.0) for k, s in SHAPES.items()}
    utils = nn.utils

    def clipped(how):
        params = {k: nn.Parameter(torch.zeros_like(g)) for k, g in grads.items()}
        for key, param in params.items():
            param.grad = grads[key].clone()
        how(list(params.values()))
        return {k: p.grad for k, p in params.items()}

    def each(params):
        for param in params:
            utils.clip_grad_norm_([param], 1.5)

    cases = {
        "global_norm": lambda p: utils.clip_grad_norm_(p, 1.5),
        "global_norm_idle": lambda p: utils.clip_grad_norm_(p, 100.0),
        "tensor_norm": each,
        "value": lambda p: utils.clip_grad_value_(p, 0.5),
    }
    out = {f"grad.{k}": g for k, g in grads.items()}
    out["total_norm"] = utils.get_total_norm(list(grads.values())).view(1)
    for case, how in cases.items():
        out.update({f"{case}.{k}": g for k, g in clipped(how).items()})
    return out


# ---------------------------------------------------------------- mixed labels


def mixed(dtype=torch.float64):
    """Cross-entropy with probabilities as targets, as torchvision's MixUp and CutMix make them."""
    logits = values("mixed/logits", (5, 7), 3.0).to(dtype).requires_grad_()
    classes, partners = torch.tensor([0, 3, 6, 2, 2]), torch.tensor([2, 0, 3, 6, 2])
    out = {"logits": logits.detach().float(), "classes": classes, "partners": partners}
    for share in (0.0, 0.3, 0.5, 1.0):
        hot = lambda labels: F.one_hot(labels, 7).to(dtype)
        targets = share * hot(classes) + (1 - share) * hot(partners)
        for smoothing in (0.0, 0.1):
            loss = F.cross_entropy(logits, targets, label_smoothing=smoothing)
            (grad,) = torch.autograd.grad(loss, logits)
            out[f"loss.{share}.{smoothing}"] = loss.detach().float().view(1)
            out[f"grad.{share}.{smoothing}"] = grad.float()
    return out


# ---------------------------------------------------------------- labels


def multi_label(dtype=torch.float64):
    """Binary cross-entropy with logits, plain and with `pos_weight`; targets are whole or blended."""
    logits = values("multi_label/logits", (6, 5), 4.0)
    logits[0, :3] = torch.tensor([0.0, 60.0, -60.0])
    logits = logits.to(dtype).requires_grad_()
    whole = (values("multi_label/targets", (6, 5)) > 0.2).to(dtype)
    weights = torch.tensor([0.5, 1.0, 3.0, 10.0, 0.25], dtype=dtype)
    out = {"logits": logits.detach().float(), "weights": weights.float()}
    for share in (1.0, 0.75):
        targets = share * whole + (1 - share) * whole.roll(1, 0)
        out[f"targets.{share}"] = targets.float()
        for smoothing in (0.0, 0.1):
            # PyTorch has no smoothing of such targets; this is that of Keras.
            smoothed = targets * (1 - smoothing) + smoothing / 2
            for name, pos_weight in (("plain", None), ("weighted", weights)):
                loss = nn.BCEWithLogitsLoss(pos_weight=pos_weight)(logits, smoothed)
                (grad,) = torch.autograd.grad(loss, logits)
                out[f"loss.{share}.{smoothing}.{name}"] = loss.detach().float().view(1)
                out[f"grad.{share}.{smoothing}.{name}"] = grad.float()
    return out


# ---------------------------------------------------------------- schedules


def learning_rates(base, steps, schedule):
    """The rate each of `steps` optimizer steps runs with, scheduler stepped after each."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=base)
    scheduler = schedule(optimizer)
    rates = []
    for step in range(steps):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        if step + 1 < steps:
            scheduler.step()
    return rates


def schedules():
    rules = torch.optim.lr_scheduler
    cycle = "OneCycleLR(max_lr=0.2, total_steps=100, pct_start=0.3, div_factor=25, "
    cycle += "final_div_factor=1e4, cycle_momentum=False, anneal_strategy='%s')"
    cases = {
        "one_cycle_cos": (0.1, 100, cycle % "cos"),
        "one_cycle_linear": (0.1, 100, cycle % "linear"),
        "cosine": (0.1, 101, "CosineAnnealingLR(T_max=100, eta_min=0.001)"),
        "step": (0.1, 100, "StepLR(step_size=30, gamma=0.1)"),
        "warmup_from_zero": (0.1, 30, "LambdaLR(lr_lambda=lambda t: min(1.0, t / 10))"),
        "warmup_linear_lr": (0.1, 30, "LinearLR(start_factor=0.1, end_factor=1.0, total_iters=10)"),
    }
    out = {}
    for name, (base, steps, text) in cases.items():
        kind, arguments = text.split("(", 1)
        settings = eval(f"dict({arguments}")  # the text above, so that it cannot disagree
        rates = learning_rates(base, steps, lambda o: getattr(rules, kind)(o, **settings))
        out[name] = {"torch": text, "base_lr": base, "lr": rates}
    return out


# ---------------------------------------------------------------- files of weights


class Classifier(nn.Module):
    """What `model.name = "lstm"` with two layers of 3 units is, by PyTorch's names."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, 3, num_layers=2, batch_first=True)
        self.fc = nn.Linear(3, 2)


def weights():
    """One network in every kind of file that `torch.save` and safetensors write."""
    net = Classifier()
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            tensor.copy_(values(f"weights/{name}", tensor.shape))
    state = net.state_dict()
    optimizer = torch.optim.Adam(net.parameters())
    net.lstm(torch.ones(1, 4, 2))[0].sum().backward()
    optimizer.step()  # state, which lies beside the weights in a checkpoint of a training
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            tensor.copy_(values(f"weights/{name}", tensor.shape))
    half = {f"module.{name}": tensor.half() for name, tensor in state.items()}
    nested = {"epoch": 3, "best": 0.5, "state_dict": half, "optimizer": optimizer.state_dict()}
    # Parameters instead of tensors, all of one storage, matrices transposed in it.
    storage = torch.zeros(sum(t.numel() for t in state.values()), dtype=torch.float64)
    views, at = {}, 0
    for name, tensor in state.items():
        view = storage[at : at + tensor.numel()].view(tensor.shape[::-1]).t()
        view.copy_(tensor)
        views[name] = nn.Parameter(view)
        at += tensor.numel()
    return {
        "weights_zip.pth": lambda path: torch.save(state, path),
        "weights_legacy.pth": lambda path: torch.save(
            state, path, _use_new_zipfile_serialization=False
        ),
        "weights_nested_half.pth": lambda path: torch.save(nested, path),
        "weights_views_double.pth": lambda path: torch.save(views, path),
        "weights_protocol_4.pth": lambda path: torch.save(state, path, pickle_protocol=4),
        "weights_bfloat16.safetensors": lambda path: save_torch(
            {name: tensor.bfloat16() for name, tensor in state.items()}, path
        ),
        "weights_module.pth": lambda path: torch.save(net.fc, path),
    }


# ---------------------------------------------------------------- conditioning


def relative(a, b):
    """Relative L2 distance, and the largest element distance over the RMS of b."""
    a, b = a.double(), b.double()
    norm = b.norm().item() or 1.0
    return (a - b).norm().item() / norm, (a - b).abs().max().item() * b.numel() ** 0.5 / norm


def worst(run, exact):
    return max((*relative(run[k], exact[k]), k) for k in exact if exact[k].is_floating_point())


def check():
    """How far float32 is from float64, and from float32 computed another way."""
    for arch in SALT:
        exact = train_resnet(arch, torch.float64)
        print(f"{arch}: loss {exact['loss']}")
        for label, onednn in (("float32", True), ("float32 without oneDNN", False)):
            run = train_resnet(arch, torch.float32, onednn)
            losses = [abs(a - b) / abs(b) for a, b in zip(run["loss"], exact["loss"])]
            print(f"  {label} against float64: losses {[f'{x:.1e}' for x in losses]}")
            for stage in ("grad1", "after1", "grad2", "after2"):
                l2, element, name = worst(run[stage], exact[stage])
                print(f"    {stage}: worst L2 {l2:.1e} (element/rms {element:.1e}) {name}")
            for key, a, b in (
                ("logits_train2", run["logits"][1], exact["logits"][1]),
                ("logits_eval", run["logits_eval"], exact["logits_eval"]),
            ):
                print(f"    {key}: L2 {relative(a, b)[0]:.1e}")
        moved = sorted(
            (LR * g.norm() / exact["after1"][k].norm()).item() for k, g in exact["grad1"].items()
        )
        middle = moved[len(moved) // 2]
        print(f"  step 1 moves weights by {moved[0]:.1e} .. {middle:.1e} .. {moved[-1]:.1e}")
    for build in (blocks, lstm, language, batchnorm, optimizers):
        l2, element, name = worst(build(torch.float32), build(torch.float64))
        print(f"{build.__name__}: worst L2 {l2:.1e} (element/rms {element:.1e}) {name}")


def write(out, name, tensors):
    arrays = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    about = f"torch {torch.__version__}, torchvision {torchvision.__version__}; tools/golden"
    save_file(arrays, out / name, metadata={"about": about})
    print(f"{name}: {len(arrays)} tensors, {(out / name).stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="folder to write, tests/golden")
    parser.add_argument("--check", action="store_true", help="print the conditioning instead")
    args = parser.parse_args()
    if args.check == (args.out is not None):
        parser.error("one of --out and --check")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if args.check:
        check()
        return
    args.out.mkdir(parents=True, exist_ok=True)
    for arch in SALT:
        write(args.out, f"{arch}.safetensors", resnet(arch))
    for build in (blocks, lstm, language, batchnorm, optimizers, clip, mixed, multi_label):
        write(args.out, f"{build.__name__}.safetensors", build())
    for name, save in weights().items():
        save(args.out / name)
        print(f"{name}: {(args.out / name).stat().st_size} bytes")
    text = json.dumps(schedules(), indent=1)
    (args.out / "schedules.json").write_text(text + "\n")
    print(f"schedules.json: {len(text) + 1} bytes")


if __name__ == "__main__":
    main()
