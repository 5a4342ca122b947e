"""`gulpio.loader` of the first GulpIO: a loader of batches as NumPy arrays, and its samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from bushel.compat.batching import Batches, make_batches, shuffled


class Sampler:
    """Indices of a dataset; `__iter__` defines their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.data_source)


class SequentialSampler(Sampler):
    """All indices, ascending."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """All indices, in an order drawn from NumPy's global generator."""

    def __iter__(self) -> Iterator[int]:
        return iter(shuffled(len(self.data_source)))


class SubsetRandomSampler(Sampler):
    """The given indices, in an order drawn from NumPy's global generator."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__(indices)
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[number] for number in shuffled(len(self.indices)))


class BatchSampler(Batches):
    """Lists of `batch_size` indices of another sampler; the last may be shorter, or is left out."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        super().__init__(sampler, batch_size, "discard" if drop_last else "keep")
        self.drop_last = drop_last


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples: arrays are stacked, numbers become an array, dicts and sequences are joined by member."""
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
    raise TypeError(
        f"cannot join samples of {type(first).__name__}: "
        "use arrays, numbers, text, dicts or sequences"
    )


class DataLoader:
    """Batches of a dataset, prefetched by `num_workers` threads; with 0, made in the caller's thread."""

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
        if batch_sampler is not None and (
            batch_size > 1 or shuffle or sampler is not None or drop_last
        ):
            raise ValueError(
                "batch_sampler is mutually exclusive with "
                "batch_size, shuffle, sampler, and drop_last"
            )
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
        return make_batches(self._batch, self.batch_sampler, self.num_workers)

    def __len__(self) -> int:
        size: int = len(self.batch_sampler)  # type: ignore[arg-type]
        return size

    def _batch(self, indices: list[int]) -> Any:
        return self.collate_fn([self.dataset[index] for index in indices])
