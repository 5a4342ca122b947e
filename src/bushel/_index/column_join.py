"""Columns of several shards as one array, without loss. Pure: no I/O.

Which dtype the array has depends on the values of the samples, and not on how they are divided into
shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bushel._runtime.arrays import Array

from .columns import BOOL, FLOAT, INT, TEXT, Part, Piece, as_text, objects_of

_TIME = 16
_TYPE_OF = {"b": BOOL, "i": INT, "u": INT, "f": FLOAT, "O": TEXT, "M": _TIME, "m": _TIME}
"""The type of the values of a piece without `types`, by the kind of its dtype."""

_EXACT = 1 << 53  # integers up to this one are floats
_WHOLE = (np.int64, np.uint64)
_DTYPES: Mapping[int, tuple[type[np.generic], ...]] = {
    BOOL: (np.bool_,),
    INT: _WHOLE,
    BOOL | INT: _WHOLE,
    **dict.fromkeys((FLOAT, FLOAT | INT, FLOAT | BOOL, FLOAT | INT | BOOL), (np.float64,)),
}
"""The dtypes that may hold numbers of some types, in the order of preference."""


def join_pieces(pieces: Sequence[Piece]) -> Part:
    """Return the values of several shards as one array.

    The array is of bool, int64, uint64 or float64: the first of these that holds every value
    exactly. If none does, it holds Python's integers and floats. If one of the values is a text,
    all are: numbers as Python prints them, `true` and `false`. A piece without any value does not
    count.

    Raises:
        ValueError: The types of a piece contradict its values.
    """
    types = list(map(_types, pieces))
    every = int(np.bitwise_or.reduce(types))
    arrays: Sequence[Array]
    if len({piece.values.dtype for piece in pieces}) == 1 and all(
        piece.types is None for piece in pieces
    ):
        arrays = [piece.values for piece in pieces]
    elif not every:
        arrays = [_nothing(piece, pieces[0].values.dtype) for piece in pieces]
    elif every & _TIME:
        arrays = _times(pieces, types)
    elif every & TEXT:
        arrays = [
            _texts(piece, type_of_piece) for piece, type_of_piece in zip(pieces, types, strict=True)
        ]
    else:
        arrays = _numbers(pieces, types, every)
    joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    if all(piece.missing is None for piece in pieces):
        return joined, None
    masks = [
        np.zeros(len(piece.values), np.bool_) if piece.missing is None else piece.missing
        for piece in pieces
    ]
    return joined, masks[0] if len(masks) == 1 else np.concatenate(masks)


def _types(piece: Piece) -> int:
    """Return the types of the values of a piece, joined by `|`; 0 if all of them are missing."""
    present = None if piece.missing is None else ~piece.missing
    if not len(piece.values) or (present is not None and not present.any()):
        return 0
    if piece.types is None:
        return _TYPE_OF[piece.values.dtype.kind]
    present_types = piece.types if present is None else piece.types[present]
    if not np.isin(present_types, (BOOL, INT, FLOAT, TEXT)).all():
        raise ValueError("its values have unknown types")
    return int(np.bitwise_or.reduce(present_types))


def _nothing(piece: Piece, dtype: np.dtype[Any]) -> Array:
    count = len(piece.values)
    if dtype.kind == "O":
        return objects_of([""] * count)
    return np.zeros(count, dtype)


def _texts(piece: Piece, kind: int) -> Array:
    """Return the values of a piece as texts; missing ones are empty."""
    if piece.values.dtype.kind == "O" or not kind:
        if kind:
            return piece.values
        return _nothing(piece, np.dtype(np.object_))
    return objects_of(
        ["" if value is None else (as_text(value) or b"").decode() for value in piece.plain()]
    )


def _times(pieces: Sequence[Piece], types: Sequence[int]) -> list[Array]:
    """Return pieces of times with the finest of their units.

    Raises:
        ValueError: Other pieces have other values, or the unit does not hold all times.
    """
    if any(type_of_piece not in (0, _TIME) for type_of_piece in types):
        raise ValueError(
            "it has times in some files, and other values in others: declare one type with spec="
        )
    dtypes = [
        piece.values.dtype
        for piece, type_of_piece in zip(pieces, types, strict=True)
        if type_of_piece
    ]
    if len({dtype.kind for dtype in dtypes}) > 1:
        raise ValueError("it has times in some files, and durations in others")
    dtype = np.result_type(*dtypes)
    arrays = []
    for piece, types_of_piece in zip(pieces, types, strict=True):
        array = np.zeros(len(piece.values), dtype)
        if types_of_piece:
            array = piece.values.astype(dtype)
            if (array.astype(piece.values.dtype) != piece.values).any():
                raise ValueError(f"some of its times are outside the range of {dtype}")
        arrays.append(array)
    return arrays


def _numbers(pieces: Sequence[Piece], types: Sequence[int], every: int) -> list[Array]:
    """Return pieces of numbers and truth values as arrays of the first dtype that holds all of them exactly."""
    for dtype in map(np.dtype, _DTYPES[every]):
        cast_arrays = [
            _cast(piece, dtype) if type_of_piece else _nothing(piece, dtype)
            for piece, type_of_piece in zip(pieces, types, strict=True)
        ]
        exact = [array for array in cast_arrays if array is not None]
        if len(exact) == len(cast_arrays):
            return exact
    return [
        objects_of([0 if value is None else value for value in piece.plain()]) for piece in pieces
    ]


def _cast(piece: Piece, dtype: np.dtype[Any]) -> Array | None:
    """Return numbers as an array of another dtype; None if it does not hold them exactly."""
    array = piece.values
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "O":
        array = objects_of([0 if value is None else value for value in piece.plain()])
    try:
        with np.errstate(all="ignore"):
            cast: Array = array.astype(dtype)
    except (OverflowError, ValueError):
        # Python's integers beyond the dtype; no number, as an integer
        return None
    if array.dtype.kind in "iu" and int(array.min()) >= -_EXACT and int(array.max()) <= _EXACT:
        if dtype.kind != "u" or int(array.min()) >= 0:
            return cast
        return None
    # Python compares integers with floats exactly
    pairs = zip(array.tolist(), cast.tolist(), strict=True)
    if all(before == after or (before != before and after != after) for before, after in pairs):
        return cast
    return None
