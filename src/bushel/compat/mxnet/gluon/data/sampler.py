"""Samplers: positions in an order, and batches of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bushel.compat.batching import Batches, LastBatch, shuffled


class Sampler:
    """Base class: iterates over positions, or lists of them, in every epoch."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class SequentialSampler(Sampler):
    """The positions from `start` on."""

    def __init__(self, length: int, start: int = 0) -> None:
        self._positions: Sequence[int] = range(start, start + length)

    def __iter__(self) -> Iterator[int]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


class RandomSampler(SequentialSampler):
    """All positions in a random order, drawn from the module `numpy.random`, as in the original."""

    def __init__(self, length: int) -> None:
        super().__init__(length)

    def __iter__(self) -> Iterator[int]:
        return iter(shuffled(len(self)))


class FilterSampler(SequentialSampler):
    """The positions of the samples of a dataset for which `fn` is true. It is called once for each, at once."""

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._positions = [position for position, sample in enumerate(dataset) if fn(sample)]


class BatchSampler(Batches, Sampler):
    """Lists of `batch_size` positions; `last_batch` keeps a short last one, discards it, or begins the next epoch."""

    def __init__(self, sampler: Any, batch_size: int, last_batch: LastBatch = "keep") -> None:
        if last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(
                f"last_batch must be one of keep, discard, rollover, not {last_batch!r}"
            )
        super().__init__(sampler, batch_size, last_batch)
