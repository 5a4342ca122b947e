"""Granular's Loader, with two worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import crop
import granular
import numpy as np


class Source:
    """A function from a step to a decoded sample. Each process opens its own reader, since readers do not pickle."""

    def __init__(self, path: str, seed: int) -> None:
        self.path, self.seed, self.reader = path, seed, None
        self.order = np.random.default_rng(seed).permutation(len(_open(path)))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "reader": None}

    def __call__(self, step: int) -> dict[str, Any]:
        self.reader = self.reader or _open(self.path)
        number = int(self.order[step % len(self.order)])
        return {"image": crop.with_cv2(self.reader[number]["image"], np.random.default_rng((self.seed, number)))}


def _open(path: str) -> Any:
    return granular.DatasetReader(path, granular.decoders, cache_index=True)


def prepare(path: str, variant: str) -> None:
    """Do nothing: nothing is kept between epochs."""


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield the full batches of an epoch; the loader is endless."""
    source = Source(path, seed)
    loader = granular.Loader(source, crop.BATCH, workers=crop.THREADS, recycle_after=2)
    try:
        batches = iter(loader)
        for _ in range(len(source.order) // crop.BATCH):
            yield next(batches)["image"]
    finally:
        loader.close()
