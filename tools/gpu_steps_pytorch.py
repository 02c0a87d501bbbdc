#!/usr/bin/env python3
"""Counts operators and bytes of a training step in PyTorch, beside those that `cargo xtask gpu steps --save` saved of oomph.
Nothing is computed. `--save` writes docs/tables/gpu-pytorch.json; `cargo xtask docs` shows it.

    python3 -m venv target/pytorch && target/pytorch/bin/pip install torch torchvision
    target/pytorch/bin/python tools/gpu_steps_pytorch.py --save

The second step of each network runs on fake tensors under a TorchDispatchMode, which sees each ATen operator of the forward
pass, the backward pass and the optimizer. The counts are of eager PyTorch, without `torch.compile`:

- An operator is a launch. A view, or an operator that only allocates, is none. The gradients of a convolution are two. An
  operator of a list (`_foreach_…`) has as many launches as `multi_tensor_apply` of ATen makes.
- Bytes are those of each tensor that the operator reads and of each that it writes, once. An operator in place reads and
  writes its tensor. A broadcast tensor counts with what it stores.
- An LSTM layer is one operator of cuDNN forward and one backward. Bytes: see `CudnnLstm`.

So the launches are too few where cuDNN and cuBLAS make several of an operator: transposed layouts, split sums, the steps of
an LSTM. The bytes are too few where one reads a tensor twice.
"""

import argparse
import collections
import json
import math

import torch
import torchvision
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from table import FOLDER, Table

BATCH = 32
CASES = {
    "ResNet-18, digits": {"resnet": "resnet18", "width": 16, "input": (1, 8, 8), "classes": 10},
    "ResNet-18, CIFAR": {"resnet": "resnet18", "width": 64, "input": (3, 32, 32), "classes": 10},
    "ResNet-50, 224², bf16": {"resnet": "resnet50", "width": 64, "input": (3, 224, 224), "classes": 1000, "batch": 8,
                              "bf16": True},
    "LSTM 96, digits": {"hidden": 96, "layers": 2, "input": (8, 8), "classes": 10},
    "LSTM 128 → 256, 64 steps": {"hidden": 256, "layers": 1, "input": (64, 128), "classes": 10},
}

# `multi_tensor_apply`: elements of a block, blocks of a launch, tensors of a launch by how many lists there are.
CHUNK, BLOCKS, TENSORS = 65536, 320, [110, 64, 48, 36, 30]
# What only allocates, looks, or names the same memory without saying so.
FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "_local_scalar_dense",
        "is_same_size", "resize_"}
# What replaces a tensor without reading it.
FILLS = {"fill_", "zero_", "copy_"}


def stored_bytes(tensor):
    """Bytes of the different elements: a broadcast dimension has one."""
    shape = [size for size, stride in zip(tensor.shape, tensor.stride()) if stride != 0]
    return math.prod(shape) * tensor.element_size()


def of(tensors):
    """Bytes of tensors, each place of memory once."""
    places = {(id(t.untyped_storage()), t.storage_offset(), t.shape, t.stride()): t for t in tensors}
    return sum(map(stored_bytes, places.values()))


def list_launches(lists):
    """The launches of an operator of lists of tensors."""
    most = TENSORS[min(len(lists), len(TENSORS)) - 1]
    launches = tensors = blocks = 0
    for tensor in lists[0]:
        tensors += 1
        for chunk in range(chunks := math.ceil(tensor.numel() / CHUNK)):
            blocks += 1
            if blocks == BLOCKS or (tensors == most and chunk == chunks - 1):
                launches += 1
                tensors, blocks = (0 if chunk == chunks - 1 else 1), 0
    return launches + (blocks > 0)


class Counts(TorchDispatchMode):
    """Launches and bytes by part of the step, and by operator."""

    def __init__(self):
        super().__init__()
        self.part = None
        self.parts, self.operators = (collections.defaultdict(collections.Counter) for _ in range(2))

    def add(self, operator, launches, read, written):
        for counter in (self.parts[self.part], self.operators[operator]):
            counter.update(launches=launches, read=read, written=written)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.count(function, args, kwargs or {}, out)
        return out

    def count(self, function, args, kwargs, out):
        name = function._schema.name.removeprefix("aten::")
        is_alias = any(r.alias_info and not r.alias_info.is_write for r in function._schema.returns)
        if function.namespace != "aten" or is_alias or name in FREE:
            return
        tensors = lambda value: [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        given = {a.name: v for a, v in zip(function._schema.arguments, args)} | kwargs
        changed = [a.name for a in function._schema.arguments if a.alias_info and a.alias_info.is_write and a.name in given]
        written = tensors([given[name] for name in changed]) or tensors(out)
        read = tensors([v for k, v in given.items() if not (k in changed and name in FILLS)])
        if self.part == "optimizer" and not any(t.dim() for t in read + written):
            return  # Counters of steps, which stay on the host.
        if name == "convolution_backward":
            # One kernel for the gradient of the input, one for that of the weights.
            gradient, sample, weight = args[:3]
            for other, result in ((weight, out[0]), (sample, out[1])):
                if result is not None:
                    self.add(name, 1, of([gradient, other]), of([result]))
            return
        lists = [v for v in given.values() if isinstance(v, (list, tuple)) and v and isinstance(v[0], torch.Tensor)]
        if name.startswith("_foreach_"):
            lists = lists if changed else [*lists, out]
            launches = list_launches(lists)
        else:
            launches = 1
        self.add(name, launches, of(read), of(written))


COUNTS = None


class CudnnLstm(torch.autograd.Function):
    """One layer as cuDNN computes it. Forward: reads samples and weights, writes outputs, and for the backward pass the four
    gates and the cell of each step. Backward: reads these, the gradient of the outputs and the weights, writes the gradients
    of the gates and of the samples; then reads the gradients of the gates, samples and outputs, writes those of the weights.
    The weights count once, though each step needs them."""

    @staticmethod
    def forward(ctx, x, *weights):
        hidden = weights[1].shape[1]
        batch, steps, _ = x.shape
        out, kept = x.new_empty(batch, steps, hidden), x.new_empty(batch, steps, 5 * hidden)
        COUNTS.add("lstm", 1, of([x, *weights]), of([out, kept]))
        ctx.save_for_backward(x, out, kept, *weights)
        return out

    @staticmethod
    def backward(ctx, gradient):
        x, out, kept, *weights = ctx.saved_tensors
        gates = x.new_empty(*x.shape[:2], 4 * weights[1].shape[1])
        of_sample = [torch.empty_like(x)] if ctx.needs_input_grad[0] else []
        of_weights = [torch.empty_like(weight) for weight in weights]
        COUNTS.add("lstm backward", 1, of([gradient, kept, *weights]) + of([gates, x, out]),
                   of([gates, *of_sample]) + of(of_weights))
        return (of_sample or [None])[0], *of_weights


class Lstm(torch.nn.Module):
    """LSTM layers; a head classifies the last step."""

    def __init__(self, case):
        super().__init__()
        inner = torch.nn.LSTM(case["input"][1], case["hidden"], case["layers"], batch_first=True)
        self.inner, self.layers = inner, case["layers"]
        self.head = torch.nn.Linear(case["hidden"], case["classes"])

    def forward(self, x):
        for layer in range(self.layers):
            x = CudnnLstm.apply(x, *self.inner.all_weights[layer])
        return self.head(x[:, -1])


def model_of(case):
    if "hidden" in case:
        return Lstm(case)
    width = case["width"]
    model = getattr(torchvision.models, case["resnet"])(num_classes=case["classes"])
    if width != 64:
        block = torchvision.models.resnet.BasicBlock
        model.inplanes = width
        model.bn1 = torch.nn.BatchNorm2d(width)
        for index in range(4):
            layer = model._make_layer(block, width << index, 2, 1 if index == 0 else 2)
            setattr(model, f"layer{index + 1}", layer)
        model.fc = torch.nn.Linear(width * 8, case["classes"])
    if case["input"][1] <= 32:
        model.conv1 = torch.nn.Conv2d(case["input"][0], width, 3, 1, 1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model


def counted(case):
    """The counts of the second step, and the number of parameters."""
    global COUNTS
    with FakeTensorMode():
        model = model_of(case)
        if "hidden" in case:
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
        else:
            optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True)
        batch = case.get("batch", BATCH)
        x, y = torch.randn(batch, *case["input"]), torch.randint(0, case["classes"], (batch,))
        for _ in range(2):
            COUNTS = Counts()
            with COUNTS:
                COUNTS.part = "network"
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16, enabled=case.get("bf16", False)):
                    outputs = model(x)
                    loss = torch.nn.functional.cross_entropy(outputs.float(), y)
                loss.backward()
                COUNTS.part = "optimizer"
                optimizer.step()
        return COUNTS, sum(parameter.numel() for parameter in model.parameters())


def ours():
    """What `cargo xtask gpu steps --save` saved: cells of each training by the title of their column."""
    table = json.loads((FOLDER / "gpu-bytes.json").read_text())
    titles = [column["title"] for column in table["columns"]]
    return {row[0]: dict(zip(titles, row)) for row in table["rows"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--operators", action="store_true", help="print the operators of each step, by bytes")
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    saved = ours()
    titles = [f">{what}, {who}" for what in ("launches", "MB", "launches of the optimizer", "bytes a parameter")
              for who in ("oomph", "PyTorch")]
    table = Table("python3 tools/gpu_steps_pytorch.py --save", "training", *titles)
    for name, case in CASES.items():
        counts, parameters = counted(case)
        network, optimizer = counts.parts["network"], counts.parts["optimizer"]
        moved = lambda part: part["read"] + part["written"]
        own = saved.get(name, collections.defaultdict(lambda: "–"))
        table.add(name, own["launches"], network["launches"] + optimizer["launches"],
                  own["MB"], f"{(moved(network) + moved(optimizer)) / 1e6:.1f}",
                  own["launches of the optimizer"], optimizer["launches"],
                  own["bytes a parameter"], f"{moved(optimizer) / parameters:.1f}")
        if asked.operators:
            for operator, of_it in sorted(counts.operators.items(), key=lambda one: -moved(one[1])):
                print(f"  {operator}: {of_it['launches']} launches, {of_it['read'] / 1e6:.2f} MB read, "
                      f"{of_it['written'] / 1e6:.2f} MB written")
            print(f"  {parameters} parameters")
    if asked.save:
        table.save("gpu-pytorch", f", PyTorch {torch.__version__}, nothing computed")


if __name__ == "__main__":
    main()
