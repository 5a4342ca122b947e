"""WebDataset's pipeline over tars, in PyTorch's DataLoader with two worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import crop
import numpy as np
import torch
import webdataset


def prepare(path: str, variant: str) -> None:
    """Do nothing: nothing is kept between epochs."""


def _load(seed: int, sample: dict[str, Any]) -> np.ndarray:
    return np.ascontiguousarray(crop.with_cv2(sample["jpg"], np.random.default_rng((seed, int(sample["__key__"])))))


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield batches that a buffer shuffles."""
    tars = sorted(map(str, Path(path).glob("*.tar")))
    stream = webdataset.WebDataset(tars, shardshuffle=len(tars), seed=seed, empty_check=False)
    stream = stream.shuffle(1000, seed=seed).map(partial(_load, seed)).batched(crop.BATCH, collation_fn=np.stack)
    yield from torch.utils.data.DataLoader(stream, batch_size=None, num_workers=crop.THREADS)
