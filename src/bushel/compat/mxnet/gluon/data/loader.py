"""`gluon.data.DataLoader` and its samplers: batches of any dataset with a length and positions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from bushel.compat.mxnet.ndarray import NDArray
from bushel.core.parallel import parallel_map

__all__ = ["BatchSampler", "DataLoader", "RandomSampler", "Sampler", "SequentialSampler"]

LastBatch = Literal["keep", "discard", "rollover"]


class Sampler:
    """Base class: yields positions, or lists of them, anew for every epoch."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class SequentialSampler(Sampler):
    """The positions from `start` on."""

    def __init__(self, length: int, start: int = 0) -> None:
        self._positions = range(start, start + length)

    def __iter__(self) -> Iterator[int]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


class RandomSampler(Sampler):
    """All positions in a random order, by the module `numpy.random`, as in the original."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        order = np.arange(self._length)
        np.random.shuffle(order)
        return iter(order.tolist())

    def __len__(self) -> int:
        return self._length


class BatchSampler(Sampler):
    """Positions of another sampler, in lists.

    Args:
        sampler: Yields positions.
        batch_size: Positions in a list.
        last_batch: What becomes of a last list that is not full: `keep` it, `discard` it, or `rollover`, to begin the
            next epoch with it.
    """

    def __init__(self, sampler: Any, batch_size: int, last_batch: LastBatch = "keep") -> None:
        if last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(f"last_batch must be one of keep, discard, rollover, not {last_batch!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1, not {batch_size}")
        self._sampler, self._size, self._last = sampler, batch_size, last_batch
        self._rest: list[int] = []

    def __iter__(self) -> Iterator[list[int]]:
        positions = itertools.chain(self._rest, self._sampler)
        self._rest = []
        while batch := list(itertools.islice(positions, self._size)):
            if len(batch) == self._size or self._last == "keep":
                yield batch
            elif self._last == "rollover":
                self._rest = batch

    def __len__(self) -> int:
        count = len(self._sampler) + len(self._rest)
        return -(-count // self._size) if self._last == "keep" else count // self._size


class DataLoader:
    """Batches of a dataset, made in threads.

    Args:
        dataset: A `Dataset`, an array, a list.
        batch_size: Samples in a batch.
        shuffle: A random order, another in every epoch.
        sampler: An order of one's own, instead.
        last_batch: As for `BatchSampler`; by default `keep`.
        batch_sampler: Yields lists of positions, instead of all of these.
        batchify_fn: Makes a batch of a list of samples; by default arrays are stacked, and of tuples each element.
        num_workers: Threads that make batches ahead; 0 to make each when it is asked for.
        others: Options of the original that say how it works: `pin_memory`, `prefetch`, `thread_pool`, `timeout`….

    Raises:
        ValueError: Arguments do not go together.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        last_batch: LastBatch | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        batchify_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        **others: Any,
    ) -> None:
        hints = {"pin_memory", "pin_device_id", "prefetch", "thread_pool", "timeout", "try_nopython", "auto_reload"}
        if unknown := sorted(set(others) - hints):
            raise TypeError(f"DataLoader has no argument {unknown[0]!r}")
        if batch_sampler is None:
            if batch_size is None:
                raise ValueError("batch_size must be specified unless batch_sampler is specified")
            if sampler is not None and shuffle:
                raise ValueError("shuffle must not be specified if sampler is specified")
            usual = RandomSampler if shuffle else SequentialSampler
            order = usual(len(dataset)) if sampler is None else sampler
            batch_sampler = BatchSampler(order, batch_size, last_batch or "keep")
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError("batch_sampler goes with none of batch_size, shuffle, sampler and last_batch")
        self._dataset, self._batches = dataset, batch_sampler
        self._batchify = _batchify if batchify_fn is None else batchify_fn
        self._workers = max(num_workers, 0)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if not self._workers:
            return map(self._make, self._batches)
        return parallel_map(
            self._make,
            self._batches,
            workers=self._workers,
            limit=2 * self._workers,
            size=lambda _: 1,
            draw_in_workers=True,
        )

    def _make(self, positions: Sequence[int]) -> Any:
        return self._batchify([self._dataset[position] for position in positions])


def _batchify(samples: list[Any]) -> Any:
    if isinstance(samples[0], tuple):
        return [_batchify(list(values)) for values in zip(*samples, strict=True)]
    return np.stack([np.asarray(sample) for sample in samples]).view(NDArray)
