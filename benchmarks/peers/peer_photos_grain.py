"""Grain over an ArrayRecord, with two worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import crop
import grain
import numpy as np


def prepare(path: str, variant: str) -> None:
    """Parse the flags that Grain's processes need."""
    from absl import flags

    flags.FLAGS(["benchmark"])


class Load(grain.transforms.RandomMap):
    """Decode and crop."""

    def random_map(self, data: bytes, rng: np.random.Generator) -> np.ndarray:
        """Decode and crop one photo."""
        return crop.with_cv2(data, rng)


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches."""
    source = grain.sources.ArrayRecordDataSource([path])
    dataset = grain.MapDataset.source(source).seed(seed).shuffle().random_map(Load())
    batches = dataset.to_iter_dataset().batch(crop.BATCH, drop_remainder=True)
    yield from batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=crop.THREADS))
