#!/usr/bin/env python3
"""Trains ViT-Tiny on small photos by oomph and by PyTorch, with one recipe and over seeds. Of oomph an epoch of a seed takes about a minute, of PyTorch longer.

    cargo build --release
    PYTHON tools/vit_quality.py PHOTOS [EPOCHS [SEEDS]]

PHOTOS has `train` and `test` with a folder of 32×32 images per class. PYTHON has torch and torchvision. The recipe is that of
configs/vit-photos.toml: crops of padded images, mirrored halves, AdamW with decay on matrices, one cycle, clipping. `--save` at the
end writes docs/tables/vit-quality.json; `cargo xtask docs` shows it.
"""

import statistics
import sys

import torch
from torch import nn
from torchvision.datasets import ImageFolder
from torchvision.models import VisionTransformer
from torchvision.transforms.functional import pil_to_tensor

from levers import result
from table import Table

BATCH, RATE, DECAY, PADDING = 64, 1e-3, 0.05, 4


def images(folder):
    """All images of a folder with their classes."""
    found = [(pil_to_tensor(image), label) for image, label in ImageFolder(folder)]
    pixels, labels = zip(*found)
    return torch.stack(pixels).float() / 255, torch.tensor(labels)


def network(classes):
    model = VisionTransformer(32, 4, 12, 3, 192, 768, dropout=0.1, num_classes=classes)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and not name.startswith("conv_proj"):
            nn.init.normal_(parameter, std=0.02)
    return model


def augmented(batch, random):
    """Crops of the padded images, of which half are mirrored."""
    padded = nn.functional.pad(batch, [PADDING] * 4)
    rows, columns = (torch.randint(2 * PADDING + 1, (len(batch),), generator=random) for _ in range(2))
    crops = [image[:, row:row + 32, column:column + 32] for image, row, column in zip(padded, rows, columns)]
    mirrored = torch.rand(len(batch), generator=random) < 0.5
    return torch.stack([crop.flip(2) if mirror else crop for crop, mirror in zip(crops, mirrored)])


def by_pytorch(photos, epochs, seed):
    """The held-out accuracy of PyTorch, in percent."""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    (train, classes), (test, expected) = (images(f"{photos}/{part}") for part in ("train", "test"))
    mean, deviation = train.mean((0, 2, 3), keepdim=True), train.std((0, 2, 3), keepdim=True)
    normalised = lambda batch: (batch - mean) / deviation
    model = network(int(classes.max()) + 1)
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    steps = epochs * -(-len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps, cycle_momentum=False)
    for _ in range(epochs):
        for rows in torch.randperm(len(train), generator=random).split(BATCH):
            loss = nn.functional.cross_entropy(model(normalised(augmented(train[rows], random))), classes[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()
    with torch.no_grad():
        told = torch.cat([model(normalised(rows)).argmax(1) for rows in test.split(BATCH)])
    return 100 * (told == expected).float().mean().item()


def by_oomph(photos, epochs, seed):
    """The same of oomph."""
    settings = {"data.path": photos, "train.epochs": epochs, "train.seed": seed}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return 100 * result(["--config", "vit-photos", *words], "eval_accuracy")


def main():
    words = [word for word in sys.argv[1:] if word != "--save"]
    if not words:
        sys.exit(__doc__)
    photos, epochs, seeds = words[0], int((words[1:2] or ["5"])[0]), int((words[2:3] or ["3"])[0])
    table = Table(f"PYTHON tools/vit_quality.py PHOTOS {epochs} {seeds} --save", "program", ">epochs", "accuracy of each seed, %", ">mean",
                  ">standard deviation")
    for name, train in [("oomph", by_oomph), ("PyTorch", by_pytorch)]:
        found = [train(photos, epochs, seed) for seed in range(seeds)]
        table.add(name, epochs, ", ".join(f"{value:.1f}" for value in found), f"{statistics.fmean(found):.2f}",
                  f"{statistics.stdev(found):.2f}" if seeds > 1 else "")
    if "--save" in sys.argv:
        table.save("vit-quality")


if __name__ == "__main__":
    main()
