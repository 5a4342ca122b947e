"""Find boxes: images have different numbers of them, and boxes are cropped and mirrored with their image.

`python examples/train_detection.py run` trains four epochs, with a checkpoint after every tenth step. With
`--stop-after 25` it stops there; the next call continues from the checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from resuming import Run, train
from torch import nn

import bushel
from bushel.transforms import Boxes, Normalize, RandomCrop, RandomHorizontalFlip, ToCHW

SIDE, CROP, CELL, SAMPLES, NEW, EPOCHS = 96, 80, 8, 256, 64, 4
TO_NUMBERS: list[Any] = [Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()]


def write(path: Path) -> None:
    """Write images of one to three bright boxes on noise, with the borders of these."""
    rng = np.random.default_rng(0)
    with bushel.Writer(path, {"image": "jpg", "boxes": "array(float32,-1,4)"}, container="tar") as writer:
        for _ in range(SAMPLES + NEW):
            image, boxes = rng.integers(0, 120, (SIDE, SIDE, 3)), list[Any]()
            for corner in rng.permutation([(4, 4), (4, 52), (52, 4), (52, 52)])[: rng.integers(1, 4)]:
                boxes.append((*corner, *corner + rng.integers(16, 42, 2)))
                image[boxes[-1][1] : boxes[-1][3], boxes[-1][0] : boxes[-1][2]] += 110
            writer.append({"image": image.astype(np.uint8), "boxes": np.array(boxes, np.float32)})


def make_model() -> nn.Module:
    """A network from images to a score and the distances to four sides, of each cell of 8 × 8 pixels."""
    torch.manual_seed(0)
    sizes = ((3, 12, 2), (12, 24, 2), (24, 32, 2), (32, 32, 1))
    layers = [(nn.Conv2d(*size[:2], 5, size[2], 2), nn.BatchNorm2d(size[1]), nn.ReLU()) for size in sizes]
    return nn.Sequential(*(part for layer in layers for part in layer), nn.Conv2d(32, 5, 1))


def compare(output: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return of (5, height, width): scores (cells), and for boxes (n, 4) their contents and IoU (cells, n) each."""
    y, x = torch.meshgrid(*(CELL * (torch.arange(size) + 0.5) for size in output.shape[1:]), indexing="ij")
    middles, sides = torch.stack([x.flatten(), y.flatten()], 1), nn.functional.softplus(output[1:]).flatten(1).T * CELL
    low, high = (middles - sides[:, :2])[:, None], (middles + sides[:, 2:])[:, None]
    inside = ((middles[:, None] > boxes[:, :2]) & (middles[:, None] < boxes[:, 2:])).all(2)
    shared = (torch.minimum(high, boxes[:, 2:]) - torch.maximum(low, boxes[:, :2])).clamp(min=0).prod(2)
    return output[0].flatten(), inside, shared / ((high - low).prod(2) + (boxes[:, 2:] - boxes[:, :2]).prod(1) - shared)


def loss_of(model: nn.Module, batch: dict[str, Any]) -> torch.Tensor:
    """Cells whose middle is in a box have to find it, and the others none."""
    total, score_loss = torch.zeros(()), nn.BCEWithLogitsLoss()
    for output, boxes in zip(model(batch["image"]), batch["boxes"], strict=True):
        scores, inside, iou = compare(output, torch.as_tensor(boxes))
        total += score_loss(scores, inside.any(1).float()) + ((1 - iou) * inside).sum() / inside.sum().clamp(min=1)
    return total / len(batch["boxes"])


def main() -> None:
    """Train."""
    run, model = Run.asked("Images and boxes that are cropped together."), make_model()
    images, geometry = bushel.open(run.made("boxes.tar", write)), [RandomCrop(CROP), RandomHorizontalFlip()]
    together: dict[Any, Any] = {("image", Boxes("boxes")): [*geometry, *TO_NUMBERS]}
    loader = bushel.Loader(images[:SAMPLES], 16, shuffle=True, seed=0, transforms=together, to="torch")
    if train(run, model, loader, lambda batch: loss_of(model, batch), EPOCHS):
        found = list[bool]()
        for batch in bushel.Loader(images[SAMPLES:], 16, transforms={"image": TO_NUMBERS}, to="torch"):
            for output, boxes in zip(model.eval()(batch["image"]), batch["boxes"], strict=True):
                scores, _, iou = compare(output, torch.as_tensor(boxes))
                found += ((iou > 0.5) & (scores > 0)[:, None]).any(0).tolist()
        print(f"{sum(found)} of {len(found)} boxes of new images are found")


if __name__ == "__main__":
    main()
