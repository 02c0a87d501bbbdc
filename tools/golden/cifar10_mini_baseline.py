#!/usr/bin/env python3
"""PyTorch baseline of the image-folder recipe (`configs/resnet-folder.toml`).

Trains a small-image ResNet-18 of width 16 on an image folder with the same
network, data transforms, optimizer and schedule as the oomph recipe, one seed
after another, on the CPU, and prints test accuracy, seconds per epoch and
images per second. The Rust training is compared with this accuracy; no test
runs the script.

    python -m venv /tmp/torchvenv
    /tmp/torchvenv/bin/pip install torch==2.15.0 torchvision==0.29.2 numpy==2.4.6
    nice -n 10 python tools/golden/cifar10_mini_baseline.py \\
        --data ../shared/data/cifar10-mini --seeds 0 1 2

The recipe, in full:

network     torchvision BasicBlock ResNet-18; stem conv 3x3 stride 1 pad 1 and
            no max-pool; widths 16, 32, 64, 128; classifier 128 -> classes.
            Convolutions kaiming-normal (fan_out, relu), batch norm 1 and 0,
            classifier PyTorch's default; last batch norm of a block NOT zeroed.
data        train/<class>/* and test/<class>/*, classes in sorted order.
train time  horizontal flip with p = 0.5; 32x32 crop out of the image padded by
            4 pixels of RAW zero (black: padding comes before normalisation, as
            torchvision.transforms.RandomCrop on images); then (x/255 - mean)/std
            per channel, statistics over all pixels of the train set.
batches     64, shuffled every epoch, the last partial batch kept (79 steps an
            epoch at 5,000 images).
optimizer   SGD, momentum 0.9, Nesterov, dampening 0, weight decay 5e-4 on every
            parameter, batch norm and biases too.
schedule    OneCycleLR per step: max_lr 0.2, pct_start 0.3, cosine, div_factor 25,
            final_div_factor 1e4, total_steps = epochs * steps per epoch,
            cycle_momentum False (momentum stays 0.9; PyTorch's default is True).
loss        cross-entropy, mean over the batch, no label smoothing.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F
from torchvision.models.resnet import BasicBlock, ResNet

PADDING = 4


def small_resnet18(classes, width):
    """torchvision's ResNet-18 with a small-image stem and scaled widths.

    Built from torchvision's own `ResNet`: its four `layer`s and the stem are
    replaced by narrower ones, then its initialisation is repeated.
    """
    net = ResNet(BasicBlock, [2, 2, 2, 2], num_classes=classes)
    net.inplanes = width
    net.conv1 = nn.Conv2d(3, width, kernel_size=3, stride=1, padding=1, bias=False)
    net.bn1 = nn.BatchNorm2d(width)
    net.maxpool = nn.Identity()
    net.layer1 = net._make_layer(BasicBlock, width, 2)
    net.layer2 = net._make_layer(BasicBlock, width * 2, 2, stride=2)
    net.layer3 = net._make_layer(BasicBlock, width * 4, 2, stride=2)
    net.layer4 = net._make_layer(BasicBlock, width * 8, 2, stride=2)
    net.fc = nn.Linear(width * 8, classes)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.constant_(module.weight, 1.0)
            nn.init.constant_(module.bias, 0.0)
    return net


def read_split(folder):
    """All images of one split as uint8 [N, 3, H, W] and their labels."""
    images, labels = [], []
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    for label, name in enumerate(classes):
        for path in sorted((folder / name).iterdir()):
            with Image.open(path) as image:
                images.append(np.asarray(image.convert("RGB")).transpose(2, 0, 1))
            labels.append(label)
    return torch.from_numpy(np.stack(images)), torch.tensor(labels), classes


def augment(batch, generator):
    """Flip and padded crop, drawn separately for every image of a uint8 batch."""
    count, _, height, width = batch.shape
    padded = F.pad(batch, (PADDING, PADDING, PADDING, PADDING))
    flips = torch.rand(count, generator=generator) < 0.5
    offsets = torch.randint(0, 2 * PADDING + 1, (count, 2), generator=generator)
    out = torch.empty_like(batch)
    for i, (flip, (top, left)) in enumerate(zip(flips.tolist(), offsets.tolist())):
        crop = padded[i, :, top : top + height, left : left + width]
        out[i] = crop.flip(-1) if flip else crop
    return out


def normalize(batch, mean, std):
    return (batch.float() / 255.0 - mean) / std


def evaluate(net, images, labels, mean, std):
    net.eval()
    correct, loss = 0, 0.0
    with torch.no_grad():
        for start in range(0, len(images), 250):
            logits = net(normalize(images[start : start + 250], mean, std))
            target = labels[start : start + 250]
            correct += (logits.argmax(1) == target).sum().item()
            loss += F.cross_entropy(logits, target, reduction="sum").item()
    return correct / len(images), loss / len(images)


def train_one_seed(seed, args, train, test, classes, mean, std):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    net = small_resnet18(classes, args.width)
    steps = -(-len(train[0]) // args.batch)
    optimizer = torch.optim.SGD(
        net.parameters(), lr=args.max_lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        max_lr=args.max_lr,
        total_steps=args.epochs * steps,
        cycle_momentum=args.cycle_momentum,
    )
    seconds, accuracy = [], 0.0
    for epoch in range(args.epochs):
        net.train()
        order = torch.randperm(len(train[0]), generator=generator)
        loss_sum, started = 0.0, time.perf_counter()
        for step in range(steps):
            picked = order[step * args.batch : (step + 1) * args.batch]
            batch = normalize(augment(train[0][picked], generator), mean, std)
            loss = F.cross_entropy(net(batch), train[1][picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            loss_sum += loss.item() * len(picked)
        seconds.append(time.perf_counter() - started)
        accuracy, test_loss = evaluate(net, *test, mean, std)
        print(
            f"seed {seed} epoch {epoch + 1:2}: train loss {loss_sum / len(train[0]):.4f}"
            f"  test loss {test_loss:.4f}  test accuracy {accuracy:.4f}"
            f"  {seconds[-1]:.1f} s  {len(train[0]) / seconds[-1]:.0f} img/s",
            flush=True,
        )
    per_epoch = sum(seconds) / len(seconds)
    return {
        "seed": seed,
        "test_accuracy": accuracy,
        "seconds_per_epoch": round(per_epoch, 2),
        "images_per_second": round(len(train[0]) / per_epoch, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/cifar10-mini"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--max-lr", type=float, default=0.2)
    parser.add_argument("--cycle-momentum", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    images, labels, names = read_split(args.data / "train")
    test_images, test_labels, test_names = read_split(args.data / "test")
    assert names == test_names, "train and test must have the same classes"
    channels = images.permute(1, 0, 2, 3).reshape(3, -1).double() / 255.0
    mean = channels.mean(1).float().view(1, 3, 1, 1)
    std = channels.std(1, correction=0).float().view(1, 3, 1, 1)
    print(f"torch {torch.__version__}, {args.threads} thread(s), classes {names}")
    print(f"mean {mean.flatten().tolist()} std {std.flatten().tolist()}", flush=True)

    results = []
    for seed in args.seeds:
        results.append(
            train_one_seed(
                seed, args, (images, labels), (test_images, test_labels), len(names), mean, std
            )
        )
        print(json.dumps(results[-1]), flush=True)
    mean_accuracy = sum(r["test_accuracy"] for r in results) / len(results)
    print(json.dumps({"seeds": len(results), "mean_test_accuracy": mean_accuracy}))


if __name__ == "__main__":
    main()
