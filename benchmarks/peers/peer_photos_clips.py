"""PyTorch's DataLoader over clips of JPEG files, one folder each, with two worker processes and a crop per clip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crop
import numpy as np
import torch


class Clips(torch.utils.data.Dataset):
    """The usual map-style dataset."""

    def __init__(self, path: str, variant: str, seed: int) -> None:
        self.clips = [sorted(folder.glob("*.jpg")) for folder in sorted(Path(path).iterdir())]
        self.load, self.seed = crop.with_pillow if variant == "Pillow" else crop.with_cv2, seed

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, number: int) -> Any:
        seed = self.seed, number
        frames = [self.load(path.read_bytes(), np.random.default_rng(seed)) for path in self.clips[number]]
        return torch.from_numpy(np.stack(frames))


def prepare(path: str, variant: str) -> None:
    """Do nothing: nothing is kept between epochs."""


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches with as many frames as the batches of the others have photos."""
    torch.manual_seed(seed)
    clips = Clips(path, variant, seed)
    size = crop.BATCH // len(clips.clips[0])
    for batch in torch.utils.data.DataLoader(clips, size, shuffle=True, num_workers=crop.THREADS):
        yield batch.reshape(-1, crop.SIDE, crop.SIDE, 3)
