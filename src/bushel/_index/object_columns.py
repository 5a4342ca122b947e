"""Columns made of Python values: of decoded values, and of members of JSON. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import joined
from bushel.codecs import ArrayLayout, Codec, get_codec
from bushel.errors import BushelError

from .columns import BOOL, FLOAT, INT, LONGEST_TEXT, TEXT, Column, as_text, numbers, of_texts
from .names import ColumnOf
from .table import FieldExtents

_TYPES: dict[type, int] = {type(None): 0, bool: BOOL, int: INT, float: FLOAT, str: TEXT}

_LARGEST = 10 ** (LONGEST_TEXT - 1)  # integers from here on have too many digits for a column


def of_objects(found: Sequence[object]) -> Column:
    """Return a column of Python values. None, too long values, and anything but numbers, bools and texts are missing.

    Values of several types become integers, floats or, if neither holds all of them exactly, texts;
    `types` then says what they were.
    """
    storable = [_kept(value) for value in found]
    types = np.array([_TYPES[type(value)] for value in storable], np.uint8)
    missing = types == 0
    whole: list[Any] = [0 if value is None else value for value in storable]
    present_types = set(np.unique(types).tolist()) - {0}
    if present_types == {BOOL}:
        return numbers("bool", np.array(whole, np.bool_), missing)
    mixed = types if len(present_types) > 1 else None
    if present_types <= {BOOL, INT}:
        low, high = (min(whole), max(whole)) if whole else (0, 0)
        if low >= -(1 << 63) and high < 1 << 63:
            return replace(numbers("int", np.array(whole, np.int64), missing), types=mixed)
        if low >= 0 and high < 1 << 64:
            return replace(numbers("uint", np.array(whole, np.uint64), missing), types=mixed)
    elif TEXT not in present_types and all(
        type(value) is float or _is_float(value) for value in whole
    ):
        return replace(numbers("float", np.array(whole, np.float64), missing), types=mixed)
    stored = [b"" if value is None else as_text(value) or b"" for value in storable]
    texts = of_texts(*joined(stored), missing)
    return replace(texts, types=None if present_types == {TEXT} else types)


def _kept(value: object) -> bool | int | float | str | None:
    """Return a value as a column keeps it; None if it does not."""
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and -_LARGEST < value < _LARGEST:
        return int(value)
    text = as_text(value) if isinstance(value, str) else None
    if text is None or len(text) > LONGEST_TEXT:
        return None
    return str(value)


def _is_float(value: int) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


def reader_of(
    column: FieldExtents, columns: Sequence[ColumnOf]
) -> Callable[[bytes], Sequence[Any] | None]:
    """Return the function that makes the values of some columns of a field from stored bytes. None: damaged."""
    [reading] = {
        "decoded" if requested.reading in ("value", "member", "length") else requested.reading
        for requested in columns
    }
    codec = get_codec(column.codec)
    if reading in ("clip", "sound"):
        from bushel.codecs.video import pyav

        pyav(column.codec)

    def read(data: bytes) -> Sequence[Any] | None:
        try:
            if reading == "clip":
                from bushel.codecs.headers import clip_header

                if (header := clip_header(column.codec, data)) is None:
                    return None
                return [getattr(header, requested.part) for requested in columns]
            if reading == "sound":
                assert codec.ranged is not None
                return [codec.ranged.count(data)] * len(columns)
            if reading == "array":
                return _of_stored_array(data, codec, columns)
            value = codec.decode(data)
            return [_of_value(value, requested) for requested in columns]
        except BushelError:
            return None

    return read


def _of_stored_array(data: bytes, codec: Codec, columns: Sequence[ColumnOf]) -> list[Any] | None:
    array: Any = codec.layout(data) if callable(codec.layout) else None
    if not isinstance(array, ArrayLayout):
        array = codec.decode(data)
    # a label of one number in an image record, which may also be several
    if not hasattr(array, "shape"):
        return None
    return [of_array(array.shape, array.dtype, requested.part) for requested in columns]


def of_array(shape: tuple[int, ...], dtype: np.dtype[Any], part: str) -> Any:
    """Return the number of axes, the dtype or the length of an axis of an array; None for an axis that it lacks."""
    if part == "ndim":
        return len(shape)
    if part == "dtype":
        return dtype.name
    axis = 0 if part == "length" else int(part.removeprefix("shape."))
    if axis < len(shape):
        return shape[axis]
    return None


def _of_value(value: Any, requested: ColumnOf) -> Any:
    if requested.reading == "length":
        return len(value)
    names: Iterable[str] = requested.part.split(".") if requested.part else ()
    for name in names:
        if isinstance(value, Mapping):
            # msgpack allows numbers as keys
            value = value.get(name, value.get(int(name)) if name.isdecimal() else None)
        elif isinstance(value, list) and name == "length":
            value = len(value)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    if isinstance(value, np.generic):
        if value.dtype.kind in "mM" and not requested.part:
            value = value.view(np.int64)  # a column of times has their counts
        return value.item()
    return value
