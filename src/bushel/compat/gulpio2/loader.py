"""What `gulpio.loader` of the first GulpIO has: a loader of batches as NumPy arrays, and its samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bushel.compat.gulpio2.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
)
from bushel.core.parallel import work_ahead

__all__ = [
    "BatchSampler",
    "DataLoader",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "default_collate",
]


def default_collate(batch: Sequence[Any]) -> Any:
    """Put samples together: arrays are stacked, numbers become an array, dicts and sequences go member by member."""
    first = batch[0]
    if isinstance(first, np.ndarray):
        return np.stack(batch)
    if isinstance(first, bool | int | float | np.generic):
        return np.array(batch)
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        return {name: default_collate([sample[name] for sample in batch]) for name in first}
    if isinstance(first, Sequence):
        return [default_collate(members) for members in zip(*batch, strict=True)]
    raise TypeError(f"batches are made of arrays, numbers, text, dicts and sequences, not of {type(first).__name__}")


class DataLoader:
    """Batches of a dataset.

    Args:
        dataset: Samples by index.
        batch_size: Samples in a batch.
        shuffle: Whether to draw a new order for each epoch, from NumPy's global generator.
        sampler: Gives the indices instead.
        batch_sampler: Gives lists of indices instead; then none of batch_size, shuffle, sampler and drop_last.
        num_workers: Threads that make batches ahead; 0: the caller's thread makes them.
        collate_fn: Makes a batch of a list of samples.
        drop_last: Whether to leave out a last batch that is smaller.

    Raises:
        ValueError: Arguments that exclude each other.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
        drop_last: bool = False,
    ) -> None:
        if batch_sampler is not None and (batch_size > 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        if sampler is not None and shuffle:
            raise ValueError("sampler is mutually exclusive with shuffle")
        if num_workers < 0:
            raise ValueError("num_workers cannot be negative; use num_workers=0 to disable threads")
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
        self.collate_fn, self.drop_last = collate_fn, drop_last
        if batch_sampler is None:
            if sampler is None:
                sampler = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the batches of an epoch; what a sample raises is raised in the place of its batch."""
        if self.num_workers == 0:
            return map(self._batch, self.batch_sampler)
        return work_ahead(self._batch, self.batch_sampler, workers=self.num_workers)

    def __len__(self) -> int:
        size: int = len(self.batch_sampler)  # type: ignore[arg-type]
        return size

    def _batch(self, indices: list[int]) -> Any:
        return self.collate_fn([self.dataset[index] for index in indices])
