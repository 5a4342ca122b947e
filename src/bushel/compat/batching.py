"""Batches of indices and of samples, for the loaders of GulpIO and of Gluon, and for WebDataset."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar

import numpy as np

from bushel.loader import parallel_map

LastBatch = Literal["keep", "discard", "rollover"]
T = TypeVar("T")


def shuffled(length: int) -> list[int]:
    """Return the numbers below `length` in an order drawn from NumPy's global generator."""
    order: list[int] = np.random.permutation(length).tolist()
    return order


def in_batches(items: Iterable[T], size: int, *, drop_last: bool = False) -> Iterator[list[T]]:
    """Yield items in lists of `size`; the last list may be shorter, unless `drop_last` leaves it out.

    Examples:
        >>> from bushel.compat.batching import in_batches
        >>> list(in_batches(range(5), 2))
        [[0, 1], [2, 3], [4]]
    """
    source = iter(items)
    while batch := list(itertools.islice(source, size)):
        if len(batch) == size or not drop_last:
            yield batch


class Batches:
    """Lists of `batch_size` indices of a sampler.

    A last list that is shorter is kept, discarded, or kept back to start the next epoch
    (`rollover`).
    """

    def __init__(self, sampler: Any, batch_size: int, last_batch: LastBatch) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self.sampler, self.batch_size, self.last_batch = sampler, batch_size, last_batch
        self._rest: list[int] = []

    def __iter__(self) -> Iterator[list[int]]:
        indices = itertools.chain(self._rest, self.sampler)
        self._rest = []
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or self.last_batch == "keep":
                yield batch
            elif self.last_batch == "rollover":
                self._rest = batch

    def __len__(self) -> int:
        count = len(self.sampler) + len(self._rest)
        return (
            -(-count // self.batch_size) if self.last_batch == "keep" else count // self.batch_size
        )


def make_batches(make: Callable[[Any], T], batches: Iterable[Any], workers: int) -> Iterator[T]:
    """Call `make` with each list of indices: in the caller's thread, or prefetched by `workers` threads, in order."""
    return parallel_map(make, batches, threads=workers) if workers else map(make, batches)
