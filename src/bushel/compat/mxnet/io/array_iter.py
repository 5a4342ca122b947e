"""`mxnet.io.NDArrayIter`: batches of arrays in memory; `PrefetchingIter`: batches of other iterators, made ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

import numpy as np

from bushel.compat.errors import WrongTypeError, WrongUseError
from bushel.compat.mxnet.base import (
    DataBatch,
    DataDesc,
    DataIter,
    NDArray,
    array,
    check_last_batch,
)

LastBatch = Literal["pad", "discard", "roll_over"]


class NDArrayIter(DataIter):
    """Batches of arrays in memory, in their order, or shuffled by the module `numpy.random`.

    Args:
        data: An array, a list of them, or a dict by name. The first axis counts samples.
        label: Labels, likewise, or None.
        batch_size: Number of samples of a batch.
        shuffle: Whether each `reset` draws a new order.
        last_batch_handle: A last batch that is short is filled with the first samples (`pad`), left
            out (`discard`), or begins the next epoch (`roll_over`).
        data_name: Name of the one array of `data`.
        label_name: Name of the one array of `label`.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: LastBatch = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        super().__init__(batch_size)
        check_last_batch(last_batch_handle)
        self.data, self.label = _named(data, data_name), _named(label, label_name)
        if not self.data:
            raise WrongUseError("data has no array")
        lengths = {name: len(values) for name, values in self.data + self.label}
        if len(set(lengths.values())) > 1:
            raise WrongUseError(f"all arrays must have the same number of samples: {lengths}")
        self.num_data = len(self.data[0][1])
        self.shuffle, self.last_batch_handle = shuffle, last_batch_handle
        self.idx = self._order = np.arange(self.num_data)
        self._rolled = self.idx[:0]  # samples of the last epoch that begin this one
        self._rest = self.idx[:0]
        self.provide_data = _descriptions(self.data, batch_size)
        self.provide_label = _descriptions(self.label, batch_size)
        self.hard_reset()

    def hard_reset(self) -> None:
        """Start again, without the samples that the last epoch left."""
        self._rest = self.idx[:0]
        self.reset()

    def reset(self) -> None:
        """Start again."""
        if self.shuffle:
            # the original shuffles the numbers of the last epoch, and the arrays by these
            self.idx = np.random.permutation(self.idx)
            self._order = self._order[self.idx]
        self._rolled, self._rest = self._rest, self.idx[:0]
        self._batches = self._positions()

    def next(self) -> DataBatch:
        """Return the next batch, or raise StopIteration."""
        rows, pad = next(self._batches)
        data, label = ([values[rows] for _, values in arrays] for arrays in (self.data, self.label))
        return DataBatch(data, label, pad)

    def _positions(self) -> Iterator[tuple[Any, int]]:
        """Yield the samples of each batch, and how many of them only fill it."""
        order = np.concatenate([self._rolled, self._order])
        size = self.batch_size
        full = len(order) // size * size
        for first in range(0, full, size):
            pad = len(self._rolled) if first == 0 else 0
            yield order[first : first + size], pad
        rest = order[full:]
        if len(rest) and self.last_batch_handle == "pad":
            pad = size - len(rest)
            yield np.concatenate([rest, np.resize(order, pad)]), pad
        elif self.last_batch_handle == "roll_over":
            self._rest = rest.copy()


def _named(arrays: Any, name: str) -> list[tuple[str, NDArray]]:
    """Return arrays with their names, sorted by these, as the original does."""
    if arrays is None:
        return []
    if isinstance(arrays, np.ndarray):
        arrays = [arrays]
    if isinstance(arrays, list):
        names = (
            [name] if len(arrays) == 1 else [f"_{number}_{name}" for number in range(len(arrays))]
        )
        arrays = dict(zip(names, arrays, strict=True))
    if not isinstance(arrays, Mapping):
        raise WrongTypeError(
            "data must be an array, a list of arrays or "
            f"a dict of them, not {type(arrays).__name__}"
        )
    return [
        (key, values if isinstance(values, NDArray) else array(values))
        for key, values in sorted(arrays.items())
    ]


def _descriptions(arrays: Sequence[tuple[str, NDArray]], batch_size: int) -> list[DataDesc]:
    return [DataDesc(name, (batch_size, *values.shape[1:])) for name, values in arrays]


class PrefetchingIter(DataIter):
    """Batches of one or several iterators side by side, the next one made by a thread.

    Args:
        iters: An iterator, or a list of them with equally many batches.
        rename_data: For each iterator, new names of its data by the old ones.
        rename_label: Likewise for its labels.
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None) -> None:
        self.iters = list(iters) if isinstance(iters, list | tuple) else [iters]
        if not self.iters:
            raise WrongUseError("there must be at least one iterator")
        super().__init__(self.iters[0].batch_size)
        self.provide_data = _renamed([each.provide_data for each in self.iters], rename_data)
        self.provide_label = _renamed([each.provide_label for each in self.iters], rename_label)
        self._coming: Future[DataBatch | None] | None = None
        self._thread = ThreadPoolExecutor(1, "bushel-prefetch")

    def reset(self) -> None:
        """Start again."""
        if self._coming is not None:
            self._coming.result()  # it uses the iterators
        self._coming = None
        for iterator in self.iters:
            iterator.reset()

    def next(self) -> DataBatch:
        """Return the next batch, or raise StopIteration."""
        coming = self._coming or self._thread.submit(self._joined)
        batch = coming.result()
        if batch is None:
            self._coming = coming
            raise StopIteration
        self._coming = self._thread.submit(self._joined)
        return batch

    def _joined(self) -> DataBatch | None:
        batches = [next(iterator, None) for iterator in self.iters]
        parts = [batch for batch in batches if batch is not None]
        if not parts:
            return None
        if len(parts) != len(batches) or len({batch.pad for batch in parts}) > 1:
            raise WrongUseError("the iterators have different numbers of samples")
        data = [values for batch in parts for values in batch.data]
        label = [values for batch in parts for values in batch.label]
        return DataBatch(data, label, parts[0].pad, parts[0].index)


def _renamed(
    described: Sequence[Sequence[Any]], names: Sequence[Mapping[str, str]] | None
) -> list[DataDesc]:
    if names is None:
        names = [{}] * len(described)
    pairs = zip(described, names, strict=True)
    return [
        DataDesc(new.get(name, name), shape)
        for descriptions, new in pairs
        for name, shape, *_ in descriptions
    ]
