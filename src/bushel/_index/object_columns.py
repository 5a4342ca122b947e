"""Columns made of Python values, such as the members of JSON values. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from bushel._index.columns import (
    BOOL,
    FLOAT,
    INT,
    LONGEST_TEXT,
    TEXT,
    Column,
    as_text,
    numbers,
    of_texts,
)
from bushel._runtime.arrays import joined

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
    return replace(_as_texts(storable, missing), types=None if present_types == {TEXT} else types)


def _kept(value: object) -> bool | int | float | str | None:
    """Return a value as a column keeps it; None if it does not."""
    if not isinstance(value, bool | int | float | str):
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST < value < _LARGEST else None
    text = as_text(value)
    if text is None or len(text) > LONGEST_TEXT:
        return None
    return str(value)


def _is_float(value: int) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


def _as_texts(objects: Sequence[Any], missing: npt.NDArray[np.bool_]) -> Column:
    stored = [b"" if value is None else as_text(value) or b"" for value in objects]
    return of_texts(*joined(stored), missing)
