#!/usr/bin/env python3
"""Writes the golden values of image augmentation, from torchvision and Pillow on the CPU.

The Rust test `crates/transform/src/golden.rs` reads the written file and needs no
Python. Run this only to change what is checked, with these versions:

    python3 -m venv /tmp/torchvenv
    /tmp/torchvenv/bin/pip install torch==2.15.0 torchvision==0.29.2 pillow==13.0.0
    /tmp/torchvenv/bin/python tools/golden/augment.py

Colour and geometry are torchvision's functions on tensors of bytes; resizing is Pillow's,
which torchvision calls for images. The images are given by a formula and stored too.
"""

import json
import math
from pathlib import Path

import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, RandAugment
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import _apply_op

OUT = Path(__file__).resolve().parents[2] / "crates" / "transform" / "tests" / "golden" / "augment.json"
BILINEAR = InterpolationMode.BILINEAR


def image(channels, height, width, low=0, spread=256):
    """Smooth waves, with some noise by a formula of integers."""
    pixels = [
        low + (c * 70 + y * 13 + x * 7 + (x * y * 5) % 31 + (x * x + 3 * y) % 17 * 4) % spread
        for c in range(channels)
        for y in range(height)
        for x in range(width)
    ]
    return torch.tensor(pixels, dtype=torch.uint8).reshape(channels, height, width)


def primary():
    """Pure colours, greys and their neighbours: where hue and saturation are special."""
    levels = [0, 1, 127, 128, 254, 255]
    colours = [(r, g, b) for r in levels for g in levels for b in levels]
    return torch.tensor(colours, dtype=torch.uint8).T.reshape(3, 12, 18)


# Equalising needs more than 255 pixels to do anything.
IMAGES = {
    "photo": image(3, 17, 20),
    "grey": image(1, 18, 16),
    "dull": image(3, 16, 18, low=90, spread=60),
    "even": torch.full((3, 6, 7), 37, dtype=torch.uint8),
    "colours": primary(),
    "tall": image(3, 31, 13),
}


def pillow(tensor, change):
    """A function of Pillow images, on a tensor."""
    return F.pil_to_tensor(change(F.to_pil_image(tensor)))


def operations(tensor):
    """(name, numbers, result) of every operation that keeps the size."""
    channels, height, width = tensor.shape
    for factor in [0.0, 0.3, 0.73, 1.0, 1.27, 1.9]:
        yield "brightness", [factor], F.adjust_brightness(tensor, factor)
        yield "contrast", [factor], F.adjust_contrast(tensor, factor)
        yield "saturation", [factor], F.adjust_saturation(tensor, factor)
        yield "sharpness", [factor], F.adjust_sharpness(tensor, factor)
    for turn in [-0.5, -0.1, 0.0, 0.04, 0.25]:
        yield "hue", [turn], F.adjust_hue(tensor, turn)
    for bits in [8, 7, 4, 1]:
        yield "posterize", [bits], F.posterize(tensor, bits)
    for threshold in [0.0, 100.5, 178.5, 255.0]:
        yield "solarize", [threshold], F.solarize(tensor, threshold)
    yield "autocontrast", [], F.autocontrast(tensor)
    yield "equalize", [], F.equalize(tensor)
    for angle in [0.0, 9.0, -17.3, 90.0, 135.0]:
        yield "rotate", [angle], F.rotate(tensor, angle, interpolation=BILINEAR)
    for slope in [0.09, -0.3]:
        degrees = math.degrees(math.atan(slope))
        affine = dict(angle=0.0, translate=[0, 0], scale=1.0, interpolation=BILINEAR, center=[0, 0])
        yield "shear_x", [slope], F.affine(tensor, shear=[degrees, 0.0], **affine)
        yield "shear_y", [slope], F.affine(tensor, shear=[0.0, degrees], **affine)
    for right, down in [(3, 0), (-2, 5)]:
        moved = F.affine(
            tensor, angle=0.0, translate=[right, down], scale=1.0, shear=[0.0, 0.0], interpolation=BILINEAR
        )
        yield "translate", [right, down], moved


def resizing(tensor):
    """The same of every operation that changes the size."""
    channels, height, width = tensor.shape
    for tall, wide in [(7, 5), (height, 9), (40, 31), (1, 1)]:
        size = (wide, tall)
        yield "resize", [tall, wide], pillow(tensor, lambda i: i.resize(size, Image.Resampling.BILINEAR))
        yield "resize_nearest", [tall, wide], pillow(tensor, lambda i: i.resize(size, Image.Resampling.NEAREST))
    for side in [5, 8, 30]:
        cropped = pillow(tensor, lambda i: F.center_crop(F.resize(i, side, BILINEAR), [side, side]))
        yield "fit", [side], cropped
    for window in [(0, 0, height, width), (1, 2, 4, 3), (2, 1, 3, 6)]:
        yield "resized_crop", [*window, 8], pillow(tensor, lambda i: F.resized_crop(i, *window, [8, 8], BILINEAR))


def rand_augment(tensor):
    """The same of RandAugment's operations."""
    channels, height, width = tensor.shape
    for magnitude in [5, 9, 30]:
        space = RandAugment()._augmentation_space(31, (height, width))
        for kind, (name, (strengths, signed)) in enumerate(space.items()):
            for sign in [1.0, -1.0] if signed else [1.0]:
                strength = float(strengths[magnitude]) if strengths.ndim else 0.0
                changed = _apply_op(tensor, name, sign * strength, BILINEAR, None)
                yield "rand_augment", [kind, magnitude, sign], changed


def stored(tensor):
    return {"shape": list(tensor.shape), "pixels": bytes(tensor.flatten().tolist()).hex()}


def main():
    jobs = [
        (operations, ["photo", "grey", "dull", "even", "colours"]),
        (resizing, ["photo", "grey", "even", "tall"]),
        (rand_augment, ["photo", "grey", "tall"]),
    ]
    cases = [
        {"image": name, "operation": operation, "numbers": numbers, "result": stored(result)}
        for job, names in jobs
        for name in names
        for operation, numbers, result in job(IMAGES[name])
    ]
    images = {name: stored(tensor) for name, tensor in IMAGES.items()}
    OUT.parent.mkdir(exist_ok=True)
    # A line a case: a change shows where it is.
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    images = json.dumps(images, separators=(",", ":"))
    OUT.write_text(f'{{"images":{images},\n"cases":[\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
