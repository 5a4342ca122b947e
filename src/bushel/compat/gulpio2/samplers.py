"""Orders of indices, for the loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler"]


class Sampler:
    """Indices of a dataset in some order; `__iter__` and `__len__` say which."""

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
        order: list[int] = np.random.permutation(len(self.data_source)).tolist()
        return iter(order)


class SubsetRandomSampler(Sampler):
    """Some indices, in an order drawn from NumPy's global generator."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__(indices)
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[place] for place in np.random.permutation(len(self.indices)).tolist())


class BatchSampler:
    """Indices of another sampler in lists of `batch_size`; the last may be shorter, or left out.

    Raises:
        ValueError: There is to be nothing in a batch.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {batch_size}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        sampler: Any = self.sampler
        return len(sampler) // self.batch_size if self.drop_last else -(-len(sampler) // self.batch_size)
