"""Find discs and squares pixel by pixel: an image and its mask are cropped and mirrored together.

python examples/train_segmentation.py run                    trains four epochs, and saves every tenth step
python examples/train_segmentation.py run --stop-after 25    stops there; the next call continues from the checkpoint
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from resuming import Run, train
from torch import nn

import bushel
from bushel.transforms import Mask, Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW

SIDE, CROP, SAMPLES, NEW, EPOCHS = 64, 48, 256, 64, 4
CLASSES = ("background", "disc", "square")
TO_NUMBERS: list[Any] = [Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()]


def write(path: Path) -> None:
    """Write images of a disc and a darker square on noise as JPEG, and as PNG masks with the class of each pixel."""
    rng = np.random.default_rng(0)
    down, across = np.mgrid[:SIDE, :SIDE]
    with bushel.Writer(path, {"image": "jpg", "mask": "png"}, container="tar") as writer:
        for number in range(SAMPLES + NEW):
            mask = np.zeros((SIDE, SIDE), np.uint8)
            for label, left in enumerate(rng.permutation([16, 48]), 1):
                middle, radius = (left + rng.integers(-3, 4), rng.integers(16, 48)), rng.integers(8, 13)
                x, y = np.abs(across - middle[0]), np.abs(down - middle[1])
                mask[x**2 + y**2 < radius**2 if label == 1 else np.maximum(x, y) < radius * 0.89] = label
            image = rng.integers(0, 120, (SIDE, SIDE, 3)) + np.array([0, 110, 60])[mask][..., None]
            writer.append({"image": image.astype(np.uint8), "mask": mask}, key=f"{number:04d}")


def make_model() -> nn.Module:
    """A network from images (N, 3, height, width) to scores of each pixel (N, classes, height, width)."""
    torch.manual_seed(0)
    sizes = ((3, 16, 2), (16, 24, 2), (24, 24, 1))
    layers = [(nn.Conv2d(*size[:2], 5, size[2], 2), nn.BatchNorm2d(size[1]), nn.ReLU()) for size in sizes]
    last = nn.Upsample(scale_factor=4, mode="bilinear"), nn.Conv2d(24, len(CLASSES), 5, 1, 2)
    return nn.Sequential(*(part for layer in (*layers, last) for part in layer))


def overlap(model: nn.Module, loader: bushel.Loader[dict[str, Any]]) -> list[float]:
    """Return the intersection over union of each class."""
    shared, either = np.zeros(len(CLASSES)), np.zeros(len(CLASSES))
    with torch.no_grad():
        for batch in loader:
            found, mask = model(batch["image"]).argmax(1), batch["mask"]
            for label in range(len(CLASSES)):
                shared[label] += ((found == label) & (mask == label)).sum().item()
                either[label] += ((found == label) | (mask == label)).sum().item()
    return [float(each) for each in shared / either]


def main() -> None:
    """Train."""
    run, model = Run.asked("Images and masks that are cropped together."), make_model()
    shapes = bushel.open(run.made("shapes.tar", write))
    geometry = [RandomResizedCrop(CROP, scale=(0.4, 1)), RandomHorizontalFlip()]
    together: dict[Any, Any] = {("image", Mask("mask")): [*geometry, *TO_NUMBERS]}
    loader = bushel.Loader(shapes[:SAMPLES], 16, shuffle=True, seed=0, transforms=together, to="torch")
    loss = nn.CrossEntropyLoss()
    if train(run, model, loader, lambda batch: loss(model(batch["image"]), batch["mask"].long()), EPOCHS, 0.005):
        new = bushel.Loader(shapes[SAMPLES:], 16, transforms={"image": TO_NUMBERS}, to="torch")
        print("IoU of new images:", ", ".join(map("{} {:.3f}".format, CLASSES, overlap(model.eval(), new))))


if __name__ == "__main__":
    main()
