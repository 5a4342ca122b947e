"""Datasets of batches of indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from torch.utils.data import Dataset as TorchDataset

from bushel.compat.ffrecord.fileio import FileReader, PathLike, Record

__all__ = ["ConcatDataset", "Dataset", "ReaderRegistry", "Subset"]


class ReaderRegistry:
    """An object that knows the readers among its attributes, and those of attributes that are such objects."""

    def ffreaders(self) -> list[FileReader]:
        """The readers: its own first, then those of its attributes."""
        values = list(vars(self).values())
        readers = [value for value in values if isinstance(value, FileReader)]
        for value in values:
            readers += value.ffreaders() if isinstance(value, ReaderRegistry) else []
        return readers


class Dataset(TorchDataset[Any], ReaderRegistry):  # type: ignore[misc, unused-ignore]  # without PyTorch
    """The records of files, in batches. Inherit from it and define `process`.

    Also a dataset for PyTorch's own loader, which then reads a batch at a time, too.

    Args:
        fnames: As for `FileReader`.
        check_data: As for `FileReader`.
    """

    def __init__(self, fnames: PathLike | Sequence[PathLike], check_data: bool = True) -> None:
        self.fnames = fnames
        self.reader = FileReader(fnames, check_data)

    def __len__(self) -> int:
        """Number of samples."""
        return self.reader.n

    def __getitem__(self, indices: Any) -> Any:
        """What `process` makes of a batch of records.

        Args:
            indices: A list of numbers.

        Raises:
            TypeError: It is no list.
            RecordIndexError, DamagedRecordError: As `FileReader.read`.
        """
        if not isinstance(indices, (list, tuple)):
            raise TypeError(f"indices must be a list of index, not {type(indices).__name__}")
        return self.process(list(indices), self.reader.read(indices))

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """A batch, as PyTorch asks for it."""
        return self[list(indices)]

    def __add__(self, other: Any) -> ConcatDataset:  # type: ignore[override, unused-ignore]
        """Both, one after another."""
        return ConcatDataset([self, other])

    def process(self, indices: list[int], data: list[Record]) -> Any:
        """Make samples of a batch of records; define it in your class.

        Args:
            indices: The numbers of the records.
            data: uint8[length] of each.

        Returns:
            A list of samples, which goes into `collate_fn`.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define process(indices, data)")


class Subset(Dataset):
    """Some samples of a dataset.

    Args:
        dataset: The whole.
        indices: Numbers of its samples, in any order.
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.indices)

    def __getitem__(self, indices: Any) -> Any:
        """A batch of the samples with these numbers in the subset."""
        return self.dataset[[self.indices[index] for index in indices]]


class ConcatDataset(Dataset):
    """Datasets, one after another.

    Args:
        datasets: At least one.

    Raises:
        ValueError: There is none.
        TypeError: One is no `Dataset`.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be empty")
        for dataset in self.datasets:
            if not isinstance(dataset, Dataset):
                raise TypeError(f"{type(dataset).__name__} is no ffrecord.torch.Dataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        """Number of samples."""
        return self.cumulative_sizes[-1]

    def __getitem__(self, indices: Any) -> Any:
        """A batch, read from each dataset at once.

        Args:
            indices: A list of numbers, repeated or not; negative ones count from the end.

        Raises:
            IndexError: There is no such sample.
        """
        wanted = np.asarray(indices, np.int64).reshape(-1)
        if len(wanted) and not (-len(self) <= wanted.min() and wanted.max() < len(self)):
            raise IndexError(f"index {wanted.min() if wanted.min() < 0 else wanted.max()} of {len(self)} samples")
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        numbers = np.searchsorted(self.cumulative_sizes, wanted, side="right")
        samples: list[Any] = [None] * len(wanted)
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number).tolist()
            start = self.cumulative_sizes[number] - len(self.datasets[number])
            batch = self.datasets[number][(wanted[places] - start).tolist()]
            for place, sample in zip(places, batch, strict=True):
                samples[place] = sample
        return samples

    def ffreaders(self) -> list[FileReader]:
        """The readers of all datasets."""
        return [reader for dataset in self.datasets for reader in dataset.ffreaders()]
