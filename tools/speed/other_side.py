"""PyTorch's side: trains a network of `networks.py` for some steps, evaluates it, and prints what it took as JSON.

    python other_side.py NETWORK STEPS THREADS
"""

import json
import resource
import sys
import time

BEGIN = time.perf_counter()

import torch
import torchvision

from networks import NETWORKS


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


class Recurrent(torch.nn.Module):
    """One layer, of which the last step is classified."""

    def __init__(self, network):
        super().__init__()
        self.layer = torch.nn.LSTM(network["features"], network["hidden"], batch_first=True)
        self.head = torch.nn.Linear(network["hidden"], network["classes"])

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def model_of(name, network):
    if name == "lstm":
        return Recurrent(network)
    model = getattr(torchvision.models, name)(num_classes=network["classes"])
    if network["size"] <= 32:
        model.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model


def main():
    name, steps, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    network = NETWORKS[name]
    before = resident_bytes()
    model = model_of(name, network)
    sample = [network["steps"], network["features"]] if name == "lstm" else [3, network["size"], network["size"]]
    x = torch.randn(network["batch"], *sample)
    y = torch.randint(0, network["classes"], (network["batch"],))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    seconds, processor = [], []
    for step in range(steps):
        clock, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - clock)
        processor.append(time.process_time() - used)
        if step == 0:
            first = time.perf_counter() - BEGIN
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    model.eval()
    evaluated = network["evaluated"]
    with torch.no_grad():
        model(x)
        clock = time.perf_counter()
        for _ in range(0, evaluated, network["batch"]):
            model(x)
        evaluation = (time.perf_counter() - clock) / evaluated
    print(json.dumps({"seconds": seconds, "processor": processor, "first": first, "peak_bytes": peak,
                      "evaluation": evaluation}))


main()
