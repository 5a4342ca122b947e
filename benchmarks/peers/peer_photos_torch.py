"""PyTorch's DataLoader over JPEG files, with two worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crop
import numpy as np
import torch


class Photos(torch.utils.data.Dataset):
    """The usual map-style dataset."""

    def __init__(self, path: str, variant: str, seed: int) -> None:
        self.paths, self.seed = sorted(map(str, Path(path).glob("*.jpg"))), seed
        self.load = crop.with_pillow if variant == "Pillow" else crop.with_cv2

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Any:
        with open(self.paths[number], "rb") as file:
            data = file.read()
        image = self.load(data, np.random.default_rng((self.seed, number)))
        return torch.from_numpy(np.array(image, copy=not image.flags.writeable))


def prepare(path: str, variant: str) -> None:
    """Do nothing: nothing is kept between epochs."""


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches."""
    torch.manual_seed(seed)
    photos = Photos(path, variant, seed)
    yield from torch.utils.data.DataLoader(photos, crop.BATCH, shuffle=True, num_workers=crop.THREADS)
