"""`gluon.data.DataLoader` and its samplers: batches of any dataset with a length and positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bushel.compat.batching import Batches, LastBatch, make_batches, shuffled
from bushel.compat.mxnet.base import NDArray


class Sampler:
    """Base class: iterates over positions, or lists of them, in every epoch."""

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
    """All positions in a random order, drawn from the module `numpy.random`, as in the original."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        return iter(shuffled(self._length))

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The positions of the samples of a dataset for which `fn` is true. It is called once for each, at once."""

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._positions = [position for position, sample in enumerate(dataset) if fn(sample)]

    def __iter__(self) -> Iterator[int]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


class BatchSampler(Batches, Sampler):
    """Lists of `batch_size` positions; `last_batch` keeps a short last one, discards it, or begins the next epoch."""

    def __init__(self, sampler: Any, batch_size: int, last_batch: LastBatch = "keep") -> None:
        if last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(f"last_batch must be one of keep, discard, rollover, not {last_batch!r}")
        super().__init__(sampler, batch_size, last_batch)


class DataLoader:
    """Batches of a dataset, made in `num_workers` threads. Options of how the original works have no effect."""

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
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: int = 120,
        auto_reload: bool = False,
        try_nopython: bool | None = None,
    ) -> None:
        if batch_sampler is None:
            if batch_size is None:
                raise ValueError("batch_size must be specified unless batch_sampler is specified")
            if sampler is not None and shuffle:
                raise ValueError("shuffle must not be specified if sampler is specified")
            usual = RandomSampler if shuffle else SequentialSampler
            order = usual(len(dataset)) if sampler is None else sampler
            batch_sampler = BatchSampler(order, batch_size, last_batch or "keep")
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError("batch_sampler cannot be combined with batch_size, shuffle, sampler or last_batch")
        self._dataset, self._batches = dataset, batch_sampler
        self._batchify = _batchify if batchify_fn is None else batchify_fn
        self._workers = max(num_workers, 0)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return make_batches(self._make, self._batches, self._workers)

    def _make(self, positions: Sequence[int]) -> Any:
        return self._batchify([self._dataset[position] for position in positions])


def _batchify(samples: list[Any]) -> Any:
    if isinstance(samples[0], tuple):
        return [_batchify(list(values)) for values in zip(*samples, strict=True)]
    return np.stack([np.asarray(sample) for sample in samples]).view(NDArray)
