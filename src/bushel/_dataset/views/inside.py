"""Private parts of datasets for other rooms: the reader, positions in the whole dataset, and equality of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from bushel._dataset.read.columns import part_of
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.selection import Mask, Selection
from bushel._dataset.read.window_reader import WindowReader
from bushel._dataset.read.windows import Windows
from bushel._index.columns import Part
from bushel._runtime.arrays import I64, Bools
from bushel.errors import UnsupportedError

from .samples import Samples
from .stored_values import StoredValues

SamplesT = TypeVar("SamplesT", bound=Samples)


def reader_of(dataset: Samples) -> Reader:
    """Return the reader that a dataset and all of its views share. Its positions are those in the whole dataset."""
    reader = dataset._reader
    return reader.base if isinstance(reader, WindowReader) else reader


def reader_and_selection(dataset: Samples) -> tuple[Reader, Selection]:
    """Return the reader of a dataset or view, whose samples are windows in a view of windows, and the selection."""
    return dataset._reader, dataset._selection


def reading(dataset: SamplesT, fields: Mask) -> SamplesT:
    """Return a view of these fields only: `Reader.narrowed` explains the benefit."""
    reader, selection = (
        dataset._reader.narrowed(dataset._selection.wanted(fields)),
        dataset._selection,
    )
    if reader is dataset._reader:
        return dataset
    return type(dataset)((), reader=reader, selection=selection)


def direct(dataset: SamplesT) -> SamplesT:
    """Return the same dataset or view with a reader of its own, which reads local files past the page cache."""
    return type(dataset)((), reader=dataset._reader.direct(), selection=dataset._selection)


def windows_of(dataset: Samples) -> Windows | None:
    """Return the windows that the samples of a view are; None if they are not windows."""
    return dataset._reader.windows


def elements_of_window(dataset: Samples, position: int) -> dict[str, I64]:
    """Return the elements of its sample that a window has, of each field that has some; empty if it is not a window.

    Raises:
        IndexError: The position is out of range.
    """
    reader, absolute = dataset._reader, dataset._selection.at(position)
    if not isinstance(reader, WindowReader):
        return {}
    return {
        name: elements.of(0)
        for name, elements in reader.ranges(np.array([absolute], np.int64)).items()
    }


def keys_at(dataset: Samples, positions: I64) -> list[str]:
    """Return the keys of samples of a view, windows included: text of their positions in the dataset if it has no keys.

    `positions` is int64[n], and each is in range.
    """
    return dataset._reader.keys(dataset._selection.absolute(positions))


def refuse_windows(dataset: Samples, instead: str) -> None:
    """Refuse a view whose samples are windows, where only whole samples have a meaning.

    Raises:
        UnsupportedError: They are windows; `instead` says what to do.
    """
    if dataset._reader.windows is not None:
        raise UnsupportedError(
            f"the samples of this view are {dataset._reader.windows.shape}: {instead}"
        )


def whole_positions(dataset: Samples, positions: I64) -> I64:
    """Return the positions in the whole dataset of samples of a view, or of the samples of its windows.

    `positions` is int64[n], and each is in range.

    Returns:
        int64[n].
    """
    reader, absolute = dataset._reader, dataset._selection.absolute(positions)
    if isinstance(reader, WindowReader):
        return reader.samples(absolute)
    return absolute


def whole_position(dataset: Samples, position: int) -> int:
    """Return the position in the whole dataset of a sample of a view, or window. A negative one counts from the end.

    Raises:
        IndexError: The position is out of range.
    """
    absolute, reader = dataset._selection.at(position), dataset._reader
    if isinstance(reader, WindowReader):
        return int(reader.samples(np.array([absolute], np.int64))[0])
    return absolute


def is_whole(dataset: Samples) -> bool:
    """Return whether this is not a view of some samples, or of the samples in another order."""
    return dataset._reader.windows is None and dataset._selection.is_whole(
        int(dataset._reader.starts[-1])
    )


def column_of_view(dataset: Samples, name: str) -> Part:
    """Return values and missing ones of a column, for the samples of a view.

    Raises:
        KeyError: The column does not exist; the message suggests names, or the command that makes
            it.
        FormatError: An index is damaged.
    """
    return part_of(dataset._reader, dataset._selection.positions, name)


_AT_ONCE = 64  # pairs of values that are decoded together


def are_same(left: StoredValues, right: StoredValues, pairs: tuple[I64, I64], name: str) -> Bools:
    """Return whether a field of pairs of samples has the same values: where both have names of classes, by these.

    Raises:
        BushelError, OSError: A value cannot be read or decoded.
    """
    same = np.zeros(len(pairs[0]), np.bool_)
    classes = [dataset.labels.get(name, ()) for dataset in (left, right)]
    for start in range(0, len(same), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        values = [
            [
                _named(sample.get(name, ...), names)
                for sample in dataset.read(positions[part].tolist(), [name])
            ]
            for dataset, positions, names in zip((left, right), pairs, classes, strict=True)
        ]
        same[part] = list(map(same_value, *values))
    return same


def _named(value: Any, classes: Sequence[str]) -> Any:
    """Return the name of a class, or the value itself where it has none."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return (classes[value] if is_number and 0 <= value < len(classes) else "") or value


def same_value(one: Any, other: Any) -> bool:
    """Return whether two decoded values are equal: arrays also in shape and dtype, NaN equal to NaN."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        arrays = np.asarray(one), np.asarray(other)
        floats = arrays[0].dtype.kind in "fc"
        return arrays[0].dtype == arrays[1].dtype and bool(
            np.array_equal(*arrays, equal_nan=floats)
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same_value(one[name], other[name]) for name in one
        )
    if isinstance(one, np.generic):
        one = one.item()
    if isinstance(other, np.generic):
        other = other.item()
    return type(one) is type(other) and (bool(one == other) or (one != one and other != other))
