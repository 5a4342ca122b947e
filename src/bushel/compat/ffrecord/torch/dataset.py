"""Datasets that are read in batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from torch.utils.data import Dataset as TorchDataset

from bushel.compat.errors import WrongTypeError, WrongUseError
from bushel.compat.ffrecord.errors import DatasetIndexError
from bushel.compat.ffrecord.fileio import FileReader, PathLike, Record


class ReaderRegistry:
    """An object that finds the readers among its attributes, and in attributes that are such objects."""

    def ffreaders(self) -> list[FileReader]:
        """Return its own readers, then the readers of its attributes."""
        values = list(vars(self).values())
        readers = [value for value in values if isinstance(value, FileReader)]
        for value in values:
            readers += value.ffreaders() if isinstance(value, ReaderRegistry) else []
        return readers


class Dataset(TorchDataset[Any], ReaderRegistry):  # type: ignore[misc, unused-ignore]  # without PyTorch
    """The records of files, in batches; arguments as for `FileReader`. Subclasses define `process`.

    PyTorch's own loader reads it in batches too.
    """

    def __init__(self, fnames: PathLike | Sequence[PathLike], check_data: bool = True) -> None:
        self.fnames = fnames
        self.reader = FileReader(fnames, check_data)

    def __len__(self) -> int:
        return self.reader.n

    def __getitem__(self, indices: Any) -> Any:
        """Read a batch of records, by a list of indices, and return the result of `process`.

        Raises:
            TypeError: `indices` is not a list.
            RecordIndexError, DamagedRecordError: As `FileReader.read`.
        """
        if not isinstance(indices, (list, tuple)):
            raise TypeError(f"indices must be a list of index, not {type(indices).__name__}")
        return self.process(list(indices), self.reader.read(indices))

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """Read a batch for PyTorch's loader."""
        return self[list(indices)]

    def __add__(self, other: Any) -> ConcatDataset:  # type: ignore[override, unused-ignore]
        """Return the concatenation of both."""
        return ConcatDataset([self, other])

    def process(self, indices: list[int], data: list[Record]) -> Any:
        """Turn a batch of records (uint8[length] each) into samples for `collate_fn`. Subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define process(indices, data)")


class Subset(Dataset):
    """The samples of a dataset with these indices, in any order."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, indices: Any) -> Any:
        """Read a batch, by indices into the subset."""
        return self.dataset[[self.indices[index] for index in indices]]


class ConcatDataset(Dataset):
    """Several datasets, one after another."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise WrongUseError("datasets should not be empty")
        for dataset in self.datasets:
            if not isinstance(dataset, Dataset):
                raise WrongTypeError(f"{type(dataset).__name__} is not an ffrecord.torch.Dataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, indices: Any) -> Any:
        """Read a batch with one read per dataset. Indices may be repeated; negative ones count from the end."""
        positions = np.asarray(indices, np.int64).reshape(-1)
        if len(positions) and not (-len(self) <= positions.min() and positions.max() < len(self)):
            wrong = positions.min() if positions.min() < -len(self) else positions.max()
            raise DatasetIndexError(f"index {wrong} is out of range: there are {len(self)} samples")
        positions = np.where(positions < 0, positions + len(self), positions)
        numbers = np.searchsorted(self.cumulative_sizes, positions, side="right")
        samples: list[Any] = [None] * len(positions)
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number).tolist()
            start = self.cumulative_sizes[number] - len(self.datasets[number])
            batch = self.datasets[number][(positions[places] - start).tolist()]
            for place, sample in zip(places, batch, strict=True):
                samples[place] = sample
        return samples

    def ffreaders(self) -> list[FileReader]:
        """Return the readers of all datasets."""
        return [reader for dataset in self.datasets for reader in dataset.ffreaders()]
