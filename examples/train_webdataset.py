"""Train as the page of WebDataset.jl does: shards, a dataset descriptor, and a loader of several threads.

python examples/train_webdataset.py run
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from shapes import open_shapes

from bushel.compat.webdataset import ShardWriter
from bushel.compat.webdataset.jl import DatasetDescriptor, braceexpand, dataloader, debugloader, default_decoders

EPOCHS, BATCH, SHARD, SIDE, HIDDEN, RATE = 6, 32, 128, 16, 32, 0.1

Array = npt.NDArray[np.float32]


def write_shards(folder: Path) -> str:
    """Write the shapes as shards, and return the pattern that names them."""
    shapes = open_shapes(folder / "shapes")
    with ShardWriter(str(folder / "shapes-%06d.tar"), maxcount=SHARD, mtime=0) as writer:
        for number, sample in enumerate(shapes.read(range(len(shapes)), decode=False)):
            label = shapes[number, ["label"]]["label"]
            writer.write({"__key__": f"{number:06d}", "jpg": bytes(sample["image"]), "cls": label})
    samples = len(shapes)
    shapes.close()
    return str(folder / f"shapes-{{000000..{((samples - 1) // SHARD):06d}}}.tar")


def image_augmentation(image: npt.NDArray[np.uint8]) -> Array:
    """Return a grey image of a quarter of the size, flipped at random."""
    squares = image.reshape(SIDE, 4, SIDE, 4, 3)
    grey: Array = (squares.mean(axis=(1, 3, 4)) / 128 - 1).astype(np.float32)
    return grey[:, ::-1] if np.random.default_rng().random() < 0.5 else grey


augmenting: list[tuple[Any, Any]] = [
    # call any augmentation for individual images
    (".img", image_augmentation),
    # this line ensures that any other sample components are carried along unchanged
    ("", lambda x: x),
]

collating: list[tuple[Any, Any]] = [
    (".cls", lambda data: np.array(data, np.int64)),
    (".img", np.stack),
]


class Network:
    """Two layers, trained by gradient descent."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.first = (rng.standard_normal((SIDE * SIDE, HIDDEN)) / SIDE).astype(np.float32)
        self.second = (rng.standard_normal((HIDDEN, 2)) / HIDDEN**0.5).astype(np.float32)

    def step(self, images: Array, classes: npt.NDArray[np.int64]) -> float:
        """Learn from a batch; returns the mean cross entropy before."""
        inputs = images.reshape(len(images), -1)
        hidden = np.maximum(inputs @ self.first, 0)
        scores = np.exp(hidden @ self.second)
        chances = scores / scores.sum(axis=1, keepdims=True)
        slope = (chances - np.eye(2, dtype=np.float32)[classes]) / len(images)
        back = (slope @ self.second.T) * (hidden > 0)
        self.second -= RATE * hidden.T @ slope
        self.first -= RATE * inputs.T @ back
        return float(-np.log(chances[np.arange(len(classes)), classes]).mean())


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the shards are written")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    desc = DatasetDescriptor(
        sources=braceexpand(write_shards(folder)),
        shuffle=1000,
        batchsize=BATCH,
        decoding=default_decoders,
        augmenting=augmenting,
        collating=collating,
    )

    # errors of threads are hard to read: try one batch without them
    with debugloader(desc, desc.sources) as channel:
        batch = channel.take()
        print(f"a batch: {batch['.img'].shape} images, {batch['.cls'].shape} classes")

    network = Network()
    for epoch in range(EPOCHS):
        losses = [network.step(batch[".img"], batch[".cls"]) for batch in dataloader(desc)]
        print(f"epoch {epoch}: mean loss {np.mean(losses):.3f} over {len(losses)} steps")


if __name__ == "__main__":
    main()
