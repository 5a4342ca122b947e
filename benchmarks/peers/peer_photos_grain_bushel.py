"""Grain over a dataset of Bushel, which decodes and crops batches or single samples, with two worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crop
import grain
from peer_photos_bushel import bushel

from bushel.loader import MapView
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop


def prepare(path: str, variant: str) -> None:
    """Parse the flags that Grain's processes need, and let these find Bushel."""
    from absl import flags

    flags.FLAGS(["benchmark"])
    os.environ["PYTHONPATH"] = str(Path(bushel.__file__).parents[1])


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches."""
    transforms: list[Any] = [RandomResizedCrop(crop.SIDE), RandomHorizontalFlip()]
    source = MapView(bushel.open(path), fields=["image"], transforms={"image": transforms}, seed=0)
    source.epoch = seed
    if variant == "batches":
        positions = grain.MapDataset.range(len(source)).seed(seed).shuffle()
        read = positions.batch(crop.BATCH, drop_remainder=True).map(source.batch)
        batches = read.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=2))
    else:
        samples = grain.MapDataset.source(source).seed(seed).shuffle()
        batches = samples.to_iter_dataset().batch(crop.BATCH, drop_remainder=True)
    for batch in batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=crop.THREADS)):
        yield batch["image"]
