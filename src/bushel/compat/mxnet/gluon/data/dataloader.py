"""`gluon.data.DataLoader`: batches of any dataset with a length and positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bushel.compat.batching import LastBatch, make_batches
from bushel.compat.mxnet.base import NDArray

from .sampler import BatchSampler, RandomSampler, SequentialSampler


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
            raise ValueError(
                "batch_sampler cannot be combined with batch_size, shuffle, sampler or last_batch"
            )
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
