"""Writes a folder of images as CIFAR-10's binary files and as IDX files, plain and compressed, with PIL and numpy. Takes some seconds.

    python tools/cifar_and_idx.py ../shared/data/cifar10-mini /tmp/cifar-and-idx

This implementation of both formats shares nothing with oomph. Training on these files must give the result of training on
the folder. The images must be 32 x 32; the classes are the folders in the order of their names. It writes

    <out>/cifar10/data_batch_1.bin ... data_batch_5.bin, test_batch.bin, batches.meta.txt
    <out>/idx/train-images-idx4-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images.idx4-ubyte, t10k-labels.idx1-ubyte
    <out>/png/train/<class>/*.png, test/<class>/*.png

The last are the same pixels without JPEG, for comparing pixel by pixel. The order of the samples in all three is that
of oomph's folder source: class by class, file by file.
"""

import argparse
import gzip
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def samples(part: Path):
    """Pixels [N, 32, 32, 3] and labels [N] in the order of the names."""
    classes = sorted(entry.name for entry in part.iterdir() if entry.is_dir())
    pixels, labels = [], []
    for label, name in enumerate(classes):
        for path in sorted((part / name).iterdir()):
            image = np.asarray(Image.open(path).convert("RGB"))
            assert image.shape == (32, 32, 3), f"{path} is {image.shape}"
            pixels.append(image)
            labels.append(label)
    return np.stack(pixels), np.array(labels, dtype=np.uint8), classes


def write_cifar(path: Path, pixels, labels):
    planes = pixels.transpose(0, 3, 1, 2).reshape(len(labels), -1)
    path.write_bytes(np.concatenate([labels[:, None], planes], axis=1).astype(np.uint8).tobytes())


def write_idx(path: Path, array, packed: bool):
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    data = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(data) if packed else data)


def write_png(folder: Path, pixels, labels, classes):
    for index, (image, label) in enumerate(zip(pixels, labels)):
        path = folder / classes[label] / f"{index:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    for name in ["cifar10", "idx", "png"]:
        (arguments.out / name).mkdir(parents=True, exist_ok=True)

    pixels, labels, classes = samples(arguments.folder / "train")
    # Five files of nearly equal size, in order.
    for number, part in enumerate(np.array_split(np.arange(len(labels)), 5), start=1):
        write_cifar(arguments.out / f"cifar10/data_batch_{number}.bin", pixels[part], labels[part])
    (arguments.out / "cifar10/batches.meta.txt").write_text("\n".join(classes) + "\n\n")
    write_idx(arguments.out / "idx/train-images-idx4-ubyte.gz", pixels, True)
    write_idx(arguments.out / "idx/train-labels-idx1-ubyte.gz", labels, True)
    write_png(arguments.out / "png/train", pixels, labels, classes)

    pixels, labels, _ = samples(arguments.folder / "test")
    write_cifar(arguments.out / "cifar10/test_batch.bin", pixels, labels)
    write_idx(arguments.out / "idx/t10k-images.idx4-ubyte", pixels, False)
    write_idx(arguments.out / "idx/t10k-labels.idx1-ubyte", labels, False)
    write_png(arguments.out / "png/test", pixels, labels, classes)
    print(f"{len(classes)} classes, {len(labels)} images held out, in {arguments.out}")


if __name__ == "__main__":
    main()
