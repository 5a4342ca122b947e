"""Make views of windows: check the arguments, and return the view."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from bushel._dataset.read.columns import check_has_elements, element_counts
from bushel._dataset.read.field_clocks import FieldClocks
from bushel._dataset.read.selection import Selection
from bushel._dataset.read.time_spans import first_and_count
from bushel._dataset.read.window_reader import WindowReader
from bushel._dataset.read.windows import Windows, WindowShape, window_counts
from bushel._runtime.arrays import I64, offsets_of
from bushel.errors import SpecError, UnsupportedError

from .samples import Samples

S = TypeVar("S", bound=Samples)

_MOST = 1 << 32
_CHUNK = 4096  # samples whose times are looked at together


def windows_of(dataset: S, shape: WindowShape) -> S:
    """Return the view of a dataset whose samples are windows of its samples.

    Raises:
        UnsupportedError: The samples are windows already.
        KeyError: The field does not exist, or the index lacks the number of its elements.
        TypeError: A field has no elements.
        ValueError: Fields that are read together have different numbers of elements, or a name is
            taken.
    """
    if dataset._reader.windows is not None:
        raise UnsupportedError(
            "these samples are windows already: make windows of the original dataset"
        )
    reader, selection = dataset._reader, dataset._selection
    for name in shape.offsets:
        if name not in selection.fields:
            raise KeyError(
                f"unknown field {name!r}: the fields are {', '.join(selection.fields) or 'none'}"
            )
        check_has_elements(reader, name, "windows()")
    for name in shape.pads:
        if name in selection.fields:
            raise ValueError(
                f"windows would have a field {name!r} of their own: leave that field"
                " out with fields()"
            )
    positions = selection.absolute(np.arange(len(dataset), dtype=np.int64))
    if shape.time is not None:
        return view_of(dataset, _windows_in_time(dataset, shape, positions))
    counts = element_counts(reader, positions, shape.field)
    has = window_counts(counts, shape) > 0
    for name in shape.offsets:
        if name == shape.field:
            counts_of_field = counts
        else:
            counts_of_field = element_counts(reader, positions, name)
        if (unlike := has & (counts_of_field != counts) & (counts_of_field >= 0)).any():
            place = int(np.flatnonzero(unlike)[0])
            raise ValueError(
                f"sample {dataset.keys[place]!r} has {counts[place]} elements of {shape.field!r}"
                " and "
                f"{counts_of_field[place]} of {name!r}: fields whose windows are read together"
                " need equally many, or times="
            )
    return view_of(dataset, Windows.of(shape, counts))


def _windows_in_time(dataset: Samples, shape: WindowShape, positions: I64) -> Windows:
    """Return the windows of samples in time. Samples that lack a field have none."""
    assert shape.time is not None
    clocks = FieldClocks(dataset._reader, shape.time.sources)
    firsts, counts = np.zeros(len(positions)), np.zeros(len(positions), np.int64)
    for begin in range(0, len(positions), _CHUNK):
        of_samples = clocks.of(positions[begin : begin + _CHUNK], shape.offsets)
        for place, clocks_of_sample in enumerate(of_samples, begin):
            if len(clocks_of_sample) < len(shape.offsets):
                continue
            try:
                firsts[place], counts[place] = first_and_count(shape, clocks_of_sample)
            except ValueError as error:
                raise SpecError(f"sample {dataset.keys[place]!r} {error}") from None
    if not isinstance(shape.hop, float):
        return Windows(shape, np.cumsum(counts), firsts.astype(np.int64))
    return Windows(shape, np.cumsum(counts), firsts)


def view_of(dataset: S, windows: Windows) -> S:
    """Return the view of a dataset whose samples are its windows."""
    reader = WindowReader(dataset._reader, dataset._selection, windows, dataset._find)
    return type(dataset)((), reader=reader, selection=Selection(range(len(windows)), reader.fields))


def concat_windows(views: Sequence[S], join: Callable[[list[Any]], S]) -> S:
    """Return views of windows as one, one after another.

    Raises:
        UnsupportedError: One of them has other windows, or none.
    """
    readers = [view._reader for view in views if isinstance(view._reader, WindowReader)]
    first = readers[0].windows.shape
    if len(readers) < len(views) or not all(
        reader.windows.shape.described() == first.described() for reader in readers
    ):
        raise UnsupportedError(
            "windows are only joined with windows that are made in the same way: call windows()"
            " with the same "
            "arguments on each dataset, or on the result of bushel.concat"
        )
    bases = [
        type(views[0])((), reader=reader.base, selection=reader.selection) for reader in readers
    ]
    whole = view_of(join(bases), Windows.joined(reader.windows for reader in readers))
    names = dict.fromkeys(name for view in views for name in view.spec)
    if all(
        view._selection.is_whole(len(reader.windows))
        for view, reader in zip(views, readers, strict=True)
    ):
        return whole._view(names=names)
    starts = offsets_of(len(reader.windows) for reader in readers)
    numbers = [
        view._selection.absolute(np.arange(len(view), dtype=np.int64)) + start
        for view, start in zip(views, starts.tolist(), strict=False)
    ]
    return whole._view(np.concatenate(numbers), names)


def shape_of(
    field: str,
    length: int | None,
    *,
    hop: float | None,
    step: int,
    also: Iterable[str],
    pad: bool,
    delta: Mapping[str, Iterable[float]] | None,
) -> WindowShape:
    """Return the shape of windows that a caller asks for.

    Raises:
        TypeError: An argument has another type.
        ValueError: One is out of its range, or two contradict each other.
    """
    if isinstance(also, str):
        raise TypeError(f"give also= as a list, such as [{also!r}]")
    every = None if hop is None else count("hop", hop)
    if delta is None:
        if length is None:
            raise TypeError(
                "give the length of the windows, as in windows('frames', 16), or delta="
            )
        offsets, span = window_length(length, step)
        names = dict.fromkeys([field, *also])
        return WindowShape(
            field, dict.fromkeys(names, offsets), every or len(offsets) * step, span, bool(pad)
        )
    if length is not None or step != 1 or pad or tuple(also):
        raise ValueError(
            "delta= gives the elements of windows, and pads: leave out length,"
            " step=, also= and pad="
        )
    if not isinstance(delta, Mapping) or not delta:
        raise TypeError(
            f"delta={delta!r}: expected fields and offsets, such as {{{field!r}: [-1, 0, 1]}}"
        )
    chosen = {name: _offsets(name, offsets) for name, offsets in {field: [0], **delta}.items()}
    return WindowShape(field, chosen, every or 1, 0, pad=True)


def window_length(length: Any, step: Any) -> tuple[I64, int]:
    """Return the offsets of the elements of a window, and the number of elements that it takes up."""
    elements, stride = count("length", length), count("step", step)
    return np.arange(elements, dtype=np.int64) * stride, (elements - 1) * stride + 1


def _offsets(name: str, numbers: Iterable[Any]) -> I64:
    try:
        offsets = np.array([operator.index(offset) for offset in numbers], np.int64)
    except (TypeError, OverflowError):
        offsets = np.zeros(0, np.int64)
    if not len(offsets) or int(np.abs(offsets).max()) >= _MOST:
        raise TypeError(
            f"delta={{{name!r}: {numbers!r}}}: expected whole numbers, such as [-1, 0, 1]"
        )
    return offsets


def count(name: str, value: Any) -> int:
    """Return a whole number from 1 that a user gave.

    Raises:
        TypeError: It is not a whole number.
        ValueError: It is out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: expected a whole number from 1") from None
    if isinstance(value, bool) or not 1 <= number < _MOST:
        raise ValueError(f"{name}={value!r}: expected a whole number from 1")
    return number
