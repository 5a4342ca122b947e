"""Generate a small dataset for the other examples: JPEG images of bright discs and squares on noise."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import numpy as np

import bushel

SIDE = 64
CLASSES = ("disc", "square")


def write_shapes(path: Path, samples: int = 512) -> None:
    """Write the dataset if it does not exist. Several processes may do so at the same time: the first one has it."""
    if path.exists():
        return
    copy = path.with_name(f"{path.name}.{os.getpid()}")
    write_copy(copy, samples)
    try:
        os.rename(copy, path)
    except OSError:  # another process was faster
        shutil.rmtree(copy)


def write_copy(path: Path, samples: int) -> None:
    """Write the dataset."""
    rng = np.random.default_rng(0)
    down, across = np.mgrid[:SIDE, :SIDE]
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, container="bag", shard_samples=200) as writer:
        for number in range(samples):
            label = number % len(CLASSES)
            middle, radius = rng.integers(24, 40, 2), int(rng.integers(12, 20))
            x, y = np.abs(across - middle[0]), np.abs(down - middle[1])
            inside = x**2 + y**2 < radius**2 if CLASSES[label] == "disc" else np.maximum(x, y) < radius
            image = rng.integers(0, 100, (SIDE, SIDE, 3)) + 120 * inside[..., None]
            writer.append({"image": image.astype(np.uint8), "label": label})


def open_shapes(path: Path) -> bushel.Dataset:
    """Write the dataset if it does not exist, and open it."""
    write_shapes(path)
    return bushel.open(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    write_shapes(parser.parse_args().path)
