"""PyTorch's side: trains a network of `networks.py` for some steps, evaluates it, and prints times and peaks as JSON.
Without steps it measures the memory of evaluation."""

import argparse
import json
import resource
import time

BEGIN = time.perf_counter()

import torch
import torchvision

from networks import sized

BATCHES = 4  # that are taken again and again


class Recurrent(torch.nn.Module):
    """One LSTM layer; a head classifies its last step."""

    def __init__(self, network):
        super().__init__()
        self.layer = torch.nn.LSTM(network["features"], network["hidden"], batch_first=True)
        self.head = torch.nn.Linear(network["hidden"], network["classes"])

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Language(torch.nn.Module):
    """One LSTM layer; a head predicts the next token of each step."""

    def __init__(self, network):
        super().__init__()
        self.embedding = torch.nn.Embedding(network["classes"], network["hidden"])
        self.layer = torch.nn.LSTM(network["hidden"], network["hidden"], batch_first=True)
        self.head = torch.nn.Linear(network["hidden"], network["classes"])

    def forward(self, x):
        return self.head(self.layer(self.embedding(x))[0]).flatten(0, 1)


class Block(torch.nn.Module):
    """A block of GPT-2."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.qkv, self.out = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.ln_1(x)).chunk(3, -1))
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(torch.nn.Module):
    """GPT-2, whose head has the embedding's weights."""

    def __init__(self, network):
        super().__init__()
        hidden = network["hidden"]
        self.tokens, self.positions = (torch.nn.Embedding(network[of], hidden) for of in ("classes", "steps"))
        self.blocks = torch.nn.Sequential(*(Block(hidden, network["heads"]) for _ in range(network["layers"])))
        self.norm = torch.nn.LayerNorm(hidden)

    def forward(self, x):
        x = self.blocks(self.tokens(x) + self.positions.weight)
        return torch.nn.functional.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


def model_of(name, network):
    if name == "lstm":
        return Recurrent(network)
    if name == "lstm-lm":
        return Language(network)
    if name == "gpt":
        return Gpt(network)
    if name == "vit":
        return torchvision.models.VisionTransformer(network["size"], 16, 12, 3, 192, 768, num_classes=network["classes"])
    model = getattr(torchvision.models, name)(num_classes=network["classes"])
    if network["size"] <= 32:
        model.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model


def batches_of(name, network):
    """Samples and targets."""
    batch, classes = network["batch"], network["classes"]
    if name in ("lstm-lm", "gpt"):
        tokens = [torch.randint(0, classes, (batch, network["steps"] + 1)) for _ in range(BATCHES)]
        return [(some[:, :-1].contiguous(), some[:, 1:].flatten()) for some in tokens]
    sample = [network["steps"], network["features"]] if name == "lstm" else [3, network["size"], network["size"]]
    return [(torch.randn(batch, *sample), torch.randint(0, classes, (batch,))) for _ in range(BATCHES)]


class Side:
    def __init__(self, name, asked):
        self.asked, self.network, self.cuda = asked, sized(name, asked.batch), asked.device != "cpu"
        torch.set_num_threads(asked.threads)
        torch.backends.cudnn.benchmark = True
        # As oomph, which rounds factors to TF32 where the card can.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        self.batches = batches_of(name, self.network)
        self.before = resident_bytes()
        self.model = model_of(name, self.network).to(asked.device)
        last = (self.cuda or asked.channels_last) and "size" in self.network
        self.form = torch.channels_last if last else torch.contiguous_format
        self.model.to(memory_format=self.form)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
        self.run = torch.compile(self.model) if asked.compile else self.model

    def outputs(self, index):
        """A forward pass of a batch with its loss."""
        x, y = (part.to(self.asked.device) for part in self.batches[index % BATCHES])
        if "size" in self.network:
            x = x.to(memory_format=self.form)
        narrow = self.asked.precision == "bf16"
        with torch.autocast(self.asked.device.split(":")[0], torch.bfloat16, enabled=narrow):
            outputs = self.run(x)
            return outputs, torch.nn.functional.cross_entropy(outputs, y), y

    def step(self, index):
        self.optimizer.zero_grad()
        _, loss, _ = self.outputs(index)
        loss.backward()
        self.optimizer.step()
        loss.item()

    def evaluate(self):
        """Seconds per sample."""
        self.model.eval()
        count = self.network["evaluated"] // self.network["batch"]
        with torch.no_grad():
            self.outputs(0)[1].item()
            clock = time.perf_counter()
            losses, right = [], []
            for index in range(count):
                outputs, loss, y = self.outputs(index)
                losses.append(loss)
                right.append((outputs.argmax(1) == y).sum())
            torch.stack(losses).sum().item(), torch.stack(right).sum().item()
            return (time.perf_counter() - clock) / (count * self.network["batch"])

    def peak_bytes(self):
        if self.cuda:
            of = torch.cuda.max_memory_reserved if self.asked.steps else torch.cuda.max_memory_allocated
            return of(self.asked.device)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self.before


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    asked = parser.parse_args()
    side = Side(asked.network, asked)
    seconds, first = [], None
    for index in range(asked.steps):
        clock = time.perf_counter()
        side.step(index)
        seconds.append(time.perf_counter() - clock)
        if index == 0:
            first = time.perf_counter() - BEGIN
    peak = side.peak_bytes()
    evaluation = side.evaluate()
    peak = peak if asked.steps else side.peak_bytes()
    print(json.dumps({"seconds": seconds, "first": first, "peak_bytes": peak, "evaluation": evaluation}))


main()
