#!/usr/bin/env python3
"""Compares how many JPEG files a second oomph's loader and PyTorch's DataLoader read, decode and resize, each by one worker. Takes three
minutes. `--save` writes docs/tables/loading.json; `cargo xtask docs` shows it.

    cargo build --release -p oomph-tools --bin xtask
    python3 tools/speed/loading.py /tmp/torchvenv/bin/python       # a Python with torch, torchvision and Pillow

The photos are made: coarse colours, edges and some noise, 500 × 375 pixels in quality 90, as those of ImageNet. Both sides resize to
224 × 224 with antialiasing and normalise. PyTorch decodes by Pillow, or by torchvision's own decoder. Sides take turns; a ratio is
the median of the rounds, with the lowest and the highest.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from table import Table  # noqa: E402

XTASK = os.environ.get("XTASK", "target/release/xtask")
SIZE = 224

PHOTOS = """
import pathlib, sys
import numpy as np
from PIL import Image
folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
draw = np.random.default_rng(0)
for index in range(count):
    part, label = ("train", "ab"[index % 2]) if index >= 4 else ("test", "ab"[index % 2])
    coarse = draw.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    photo = np.asarray(Image.fromarray(coarse).resize((500, 375), Image.BICUBIC)).astype(np.int16)
    for _ in range(12):
        x, y, w, h = draw.integers(0, 400), draw.integers(0, 300), draw.integers(10, 100), draw.integers(10, 75)
        photo[y:y + h, x:x + w] += draw.integers(-60, 60, 3, dtype=np.int16)
    photo += draw.integers(-8, 9, photo.shape, dtype=np.int16)
    to = folder / part / label
    to.mkdir(parents=True, exist_ok=True)
    Image.fromarray(photo.clip(0, 255).astype(np.uint8)).save(to / f"{index}.jpg", quality=90)
"""

LOADER = """
import sys, time
import torch, torchvision
from torchvision.transforms import v2
folder, size, decoder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
normalise = v2.Compose([v2.Resize((size, size), antialias=True), v2.ToDtype(torch.float32, scale=True),
                        v2.Normalize([0.5] * 3, [0.25] * 3)])
if decoder == "pillow":
    resize = v2.Compose([v2.Resize((size, size), antialias=True), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True),
                         v2.Normalize([0.5] * 3, [0.25] * 3)])
    data = torchvision.datasets.ImageFolder(f"{folder}/train", resize)
else:
    decode = lambda path: torchvision.io.decode_image(path, torchvision.io.ImageReadMode.RGB)
    data = torchvision.datasets.DatasetFolder(f"{folder}/train", decode, (".jpg",), normalise)
torch.set_num_threads(1)
loader = torch.utils.data.DataLoader(data, batch_size=64, num_workers=1, worker_init_fn=lambda _: torch.set_num_threads(1))
begin = time.perf_counter()
count = sum(len(labels) for _, labels in loader)
print(count / (time.perf_counter() - begin))
"""


def rate(*command):
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--photos", type=int, default=1004)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    table = Table("python3 tools/speed/loading.py PYTHON --save", "PyTorch decodes by", ">oomph, images a second", ">PyTorch",
                  ">times as fast")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([asked.python, "-c", PHOTOS, folder, str(asked.photos)], check=True)
        for decoder in ("pillow", "torchvision"):
            rounds = [(rate(XTASK, "loading", folder, str(SIZE)), rate(asked.python, "-c", LOADER, folder, str(SIZE), decoder))
                      for _ in range(asked.rounds)]
            ours, theirs = zip(*rounds)
            ratios = [our / their for our, their in rounds]
            table.add("Pillow" if decoder == "pillow" else "torchvision", f"{max(ours):.0f}", f"{max(theirs):.0f}",
                      f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
    if asked.save:
        table.save("loading", f", one worker, {asked.rounds} rounds")


main()
