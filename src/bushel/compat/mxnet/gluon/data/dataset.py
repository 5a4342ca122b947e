"""Datasets: samples by position, and views of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from bushel.compat.errors import WrongUseError
from bushel.compat.mxnet.recordio import MXIndexedRecordIO


class Dataset:
    """Base class: a length, samples by position, and views."""

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def filter(self, fn: Callable[[Any], bool]) -> Dataset:
        """Return the samples for which `fn`, which is called with all of them now, is true."""
        return _Chosen(self, [position for position, sample in enumerate(self) if fn(sample)])

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return part `index` of `num_shards`, whose sizes differ by at most one."""
        if not 0 <= index < num_shards:
            raise WrongUseError(f"Shard index of out bound: {index} out of {num_shards}")
        size, rest = divmod(len(self), num_shards)
        first = size * index + min(index, rest)
        return _Chosen(self, range(first, first + size + (index < rest)))

    def take(self, count: int | None) -> Dataset:
        """Return the first `count` samples; all for None."""
        return _Chosen(self, range(len(self) if count is None else min(count, len(self))))

    def sample(self, sampler: Iterable[int]) -> Dataset:
        """Return the samples at these positions."""
        return _Chosen(self, list(sampler))

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return the results of `fn` for every sample, whose elements are its arguments if the sample is a tuple."""
        changed = _Transformed(self, fn)
        return changed if lazy else SimpleDataset(list(changed))

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """Apply `fn` to the first element of every sample, such as the image without the label."""
        return self.transform(partial(_of_first, fn), lazy)


def _of_first(fn: Callable[[Any], Any], first: Any, *others: Any) -> Any:
    return (fn(first), *others) if others else fn(first)


class SimpleDataset(Dataset):
    """A dataset of a list, or of anything else with a length and positions."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx]


class _Chosen(SimpleDataset):
    def __init__(self, dataset: Dataset, positions: Sequence[int]) -> None:
        super().__init__(positions)
        self._dataset = dataset

    def __getitem__(self, idx: int) -> Any:
        return self._dataset[self._data[idx]]


class _Transformed(SimpleDataset):
    def __init__(self, data: Dataset, fn: Callable[..., Any]) -> None:
        super().__init__(data)
        self._fn = fn

    def __getitem__(self, idx: int) -> Any:
        sample = self._data[idx]
        return self._fn(*sample) if isinstance(sample, tuple) else self._fn(sample)


class ArrayDataset(Dataset):
    """Tuples of the elements of several arrays of one length."""

    def __init__(self, *args: Any) -> None:
        if not args or len({len(array) for array in args}) != 1:
            raise WrongUseError(
                f"all arrays must have the same length: {[len(array) for array in args]}"
            )
        self._data = args

    def __len__(self) -> int:
        return len(self._data[0])

    def __getitem__(self, idx: int) -> Any:
        return (
            self._data[0][idx]
            if len(self._data) == 1
            else tuple(array[idx] for array in self._data)
        )


class RecordFileDataset(Dataset):
    """The records of a file, as bytes, in the order of its `.idx` file, which has the same name.

    Threads may share it, a forked process may continue with it, and a pickled copy opens its own
    files.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        self._record = MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __len__(self) -> int:
        return len(self._record.keys)

    def __getitem__(self, idx: int) -> Any:
        return self._record.read_idx(self._record.keys[idx])
