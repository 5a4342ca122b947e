"""The values of a column: a number, a truth value or a short text for each sample of a shard, or nothing.

docs/columns.md specifies the arrays. `column_scan` makes them; a sidecar keeps them. Nothing here
does I/O, and what comes from a sidecar is checked when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8, U32, Array, Bools, if_any, offsets_of, ranges, selected
from bushel.kernels import number_texts

LONGEST_TEXT = 256
"""The longest text in bytes that a column keeps. A longer one is missing."""

BOOL, INT, FLOAT, TEXT = 1, 2, 4, 8
"""Types of values in `Column.types`; 0 stands for a missing value."""

Kind = Literal["bool", "int", "uint", "float", "text"]
"""The kind of values. `uint` is only used for numbers beyond int64."""

NUMBERS: dict[str, type[np.generic]] = {
    "bool": np.bool_,
    "int": np.int64,
    "uint": np.uint64,
    "float": np.float64,
}
"""The dtype of the values of each kind but text."""

Part = tuple[Array, Bools | None]
"""Values of some samples, and which of them are missing; None if none is. Missing ones hold 0, False or no text."""


class Piece(Struct, frozen=True):
    """The values of some samples of one shard, as the index keeps them."""

    values: Array  # [n], numbers, truth values or texts
    missing: Bools | None = None  # bool[n], or None if every sample has a value
    # uint8[n], the type of each value; None if all are of the type of `values`
    types: U8 | None = None

    def plain(self) -> list[Any]:
        """Return the values as Python objects of their own types; None where they are missing.

        Raises:
            ValueError: Types and values contradict each other.
        """
        objects: list[Any] = self.values.tolist()
        if self.types is not None:
            objects = list(map(_of_type, objects, self.types.tolist()))
        if self.missing is None:
            return objects
        return [
            None if no else value for value, no in zip(objects, self.missing.tolist(), strict=True)
        ]


class Column(Struct, frozen=True):
    """The values of one column in one shard."""

    kind: Kind  # the kind of the values
    # the numbers or truth values, of the dtype in `NUMBERS`; None for texts
    values: Array | None = None
    # bool[samples], or None if every sample has a value
    missing: Bools | None = None
    # uint32[samples], numbers of the texts of a dictionary; None if there is a text for each sample
    codes: U32 | None = None
    # uint8[bytes], the texts in UTF-8, one after another; None for numbers
    text: U8 | None = None
    # int64[texts + 1], where each of them begins; None for numbers
    offsets: I64 | None = None
    # uint8[samples], the type of each value, if they are not all of the type in `kind`; else None
    types: U8 | None = None

    def __len__(self) -> int:
        return len(next(array for array in self._per_sample() if array is not None))

    def _per_sample(self) -> tuple[Array | None, ...]:
        return self.values, self.codes, None if self.offsets is None else self.offsets[1:]

    def piece(self, rows: slice | I64) -> Piece:
        """Return the values of some samples: numbers as they are kept, a view of them for a slice; texts as str.

        Raises:
            ValueError: The arrays contradict each other.
        """
        missing = None
        if self.missing is not None:
            missing = self.missing.view(np.uint8)[rows] != 0
        if self.kind == "bool" and self.values is not None:
            # any other byte could upset NumPy
            return Piece(self.values.view(np.uint8)[rows] != 0, missing)
        values = self._texts(rows) if self.values is None else self.values[rows]
        return Piece(values, missing, selected(self.types, rows))

    def few_texts(self, rows: I64) -> list[str]:
        """Return the texts of some samples. For a few of them this takes less time than `piece`.

        Raises:
            ValueError: The arrays contradict each other.
        """
        assert self.text is not None
        assert self.offsets is not None
        offsets, view, texts = self.offsets, self.text.data, dict[int, str]()
        numbers = (rows if self.codes is None else self.codes[rows]).tolist()
        for number in numbers:
            if number not in texts:
                if number + 1 >= len(offsets):
                    raise ValueError(
                        f"a text has the number {number}, but there are {len(offsets) - 1} texts"
                    )
                first, last = offsets.item(number), offsets.item(number + 1)
                if not 0 <= first <= last <= len(view):
                    raise ValueError("the offsets of its texts are not ascending inside the text")
                texts[number] = str(view[first:last], "utf-8")
        return [texts[number] for number in numbers]

    def _texts(self, rows: slice | I64) -> Array:
        if self.codes is None:
            if isinstance(rows, slice):
                rows = np.arange(self._count)[rows]
            return self._decoded(rows)
        count = self._count
        codes = self.codes[rows]
        if len(codes) and int(codes.max()) >= count:
            raise ValueError(
                f"a text has the number {int(codes.max())}, but there are {count} texts"
            )
        if len(codes) < count:  # of a few samples: only their own texts
            distinct, places = np.unique(codes, return_inverse=True)
            return self._decoded(distinct.astype(np.int64))[places.reshape(-1)]
        return self.dictionary()[codes]

    @property
    def _count(self) -> int:
        """Number of texts."""
        assert self.offsets is not None  # of this kind, as the sidecar was checked
        return len(self.offsets) - 1

    def dictionary(self) -> Array:
        """Return the texts that `codes` numbers, as an array of str."""
        return self._decoded(np.arange(self._count))

    def _decoded(self, numbers: I64) -> Array:
        assert self.text is not None
        assert self.offsets is not None
        out = np.empty(len(numbers), object)
        first, last = self.offsets[numbers], self.offsets[numbers + 1]
        if len(numbers) and (
            int(first.min()) < 0 or (last < first).any() or int(last.max()) > len(self.text)
        ):
            raise ValueError("the offsets of its texts are not ascending inside the text")
        view = self.text.data
        out[:] = [
            str(view[a:b], "utf-8") for a, b in zip(first.tolist(), last.tolist(), strict=True)
        ]
        return out


def numbers(kind: Kind, values: Array, missing: Bools | None = None) -> Column:
    """Return a column of numbers or truth values. The values of missing samples become 0."""
    stored = np.ascontiguousarray(values, NUMBERS[kind])
    if missing is None or not missing.any():
        return Column(kind, stored)
    stored = stored.copy()
    stored[missing] = 0
    return Column(kind, stored, np.ascontiguousarray(missing))


def of_texts(text: U8, offsets: I64, missing: Bools | None) -> Column:
    """Return a column of texts, as numbers of a dictionary if there are at most half as many texts as samples.

    Args:
        text: uint8[bytes], valid UTF-8 that is cut at `offsets`. Missing ones are empty.
        offsets: int64[samples + 1].
        missing: bool[samples], or None.
    """
    missing = if_any(missing)
    if (numbered := number_texts(text, offsets, (len(offsets) - 1) // 2)) is None:
        return Column("text", missing=missing, text=text, offsets=offsets)
    codes, rows = numbered
    lengths = offsets[rows + 1] - offsets[rows]
    joint = text[ranges(offsets[rows], lengths)]
    return Column("text", missing=missing, codes=codes, text=joint, offsets=offsets_of(lengths))


def as_text(value: float | str) -> bytes | None:
    """Return a value of a column among texts, in UTF-8; None for a text with half of a surrogate pair."""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    try:
        return str(value).encode()
    except UnicodeEncodeError:
        return None


def _of_type(value: Any, kind: int) -> Any:
    """Return a stored number, or the text of one, as a value of its type; None for the type 0.

    Raises:
        ValueError: It cannot be of this type.
    """
    try:
        if kind == BOOL:
            if isinstance(value, str):
                return value == "true"
            return bool(value)
        if kind == INT:
            return int(value)
        if kind == FLOAT:
            return float(value)
    except OverflowError as error:  # an infinite integer
        raise ValueError(str(error)) from error
    return None if kind == 0 else value


def objects_of(found: Sequence[object]) -> Array:
    """Return an array of Python objects."""
    out = np.empty(len(found), object)
    out[:] = found
    return out


def drawable(values: Array) -> Array:
    """Return the values of a column for a picture: as floats if no dtype holds the numbers, times as their counts."""
    if values.dtype.kind in "mM":
        return values.astype(np.int64)
    if values.dtype.kind != "O" or not len(values) or isinstance(values[0], str):
        return values
    return values.astype(np.float64)


def sorted_rows(
    values: np.ndarray, missing: Bools | None, rows: I64 | None, *, reverse: bool
) -> I64:
    """Return some rows in the order of their values; all for None. Equal values keep their order, missing come last."""
    chosen_values = values if rows is None else values[rows]
    lost = missing if missing is None or rows is None else missing[rows]
    if chosen_values.dtype.kind in "fO":
        unordered = chosen_values != chosen_values  # not a number
        lost = unordered if lost is None else lost | unordered
    present = None if lost is None or not lost.any() else np.flatnonzero(~lost)
    chosen = chosen_values if present is None else chosen_values[present]
    if reverse:  # of the reversed rows, so that equal values keep their order
        order = np.argsort(chosen[::-1], kind="stable")[::-1]
        np.subtract(len(chosen) - 1, order, out=order)
    else:
        order = np.argsort(chosen, kind="stable")
    if present is not None and lost is not None:
        order = np.concatenate([present[order], np.flatnonzero(lost)])
    if rows is None:
        return order
    return rows[order]


_TIME = 16
_TYPE_OF = {"b": BOOL, "i": INT, "u": INT, "f": FLOAT, "O": TEXT, "M": _TIME, "m": _TIME}
"""The type of the values of a piece without `types`, by the kind of its dtype."""

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
    # the places of those with values; without any, the first one gives the dtype
    filled = [place for place, type_of_piece in enumerate(types) if type_of_piece] or [0]
    chosen = [pieces[place] for place in filled]
    is_same = len({piece.values.dtype for piece in chosen}) == 1
    if not every or (is_same and all(piece.types is None for piece in chosen)):
        arrays = [piece.values for piece in chosen]
    elif every & _TIME:
        arrays = _times(chosen, every)
    elif every & TEXT:
        arrays = list(map(_texts, chosen))
    else:
        arrays = _numbers(chosen, every)
    if len(filled) < len(pieces):
        dtype, array_at = arrays[0].dtype, dict(zip(filled, arrays, strict=True))
        nothing = "" if dtype.kind == "O" and (every & TEXT or not every) else 0
        arrays = [
            array_at[place] if place in array_at else np.full(len(piece.values), nothing, dtype)
            for place, piece in enumerate(pieces)
        ]
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


def _texts(piece: Piece) -> Array:
    """Return the values of a piece as texts; missing ones are empty."""
    if piece.values.dtype.kind == "O":
        return piece.values
    return objects_of(
        ["" if value is None else (as_text(value) or b"").decode() for value in piece.plain()]
    )


def _times(pieces: Sequence[Piece], every: int) -> list[Array]:
    """Return pieces of times with the finest of their units. `every` joins the types of all values.

    Raises:
        ValueError: Other pieces have other values, or the unit does not hold all times.
    """
    if every != _TIME:
        raise ValueError(
            "it has times in some files, and other values in others: declare one type with spec="
        )
    dtypes = [piece.values.dtype for piece in pieces]
    if len({dtype.kind for dtype in dtypes}) > 1:
        raise ValueError("it has times in some files, and durations in others")
    dtype = np.result_type(*dtypes)
    arrays = []
    for piece in pieces:
        array = piece.values.astype(dtype)
        if (array.astype(piece.values.dtype) != piece.values).any():
            raise ValueError(f"some of its times are outside the range of {dtype}")
        arrays.append(array)
    return arrays


def _numbers(pieces: Sequence[Piece], every: int) -> list[Array]:
    """Return pieces of numbers and truth values as arrays of the first dtype that holds all of them exactly."""
    for dtype in map(np.dtype, _DTYPES[every]):
        arrays = [_cast(piece, dtype) for piece in pieces]
        exact = [array for array in arrays if array is not None]
        if len(exact) == len(arrays):
            return exact
    return list(map(_plain_numbers, pieces))


def _plain_numbers(piece: Piece) -> Array:
    """Return the numbers of a piece as Python objects; 0 where they are missing."""
    return objects_of([0 if value is None else value for value in piece.plain()])


def _cast(piece: Piece, dtype: np.dtype[Any]) -> Array | None:
    """Return numbers as an array of another dtype; None if it does not hold them exactly."""
    array = piece.values
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "O":
        array = _plain_numbers(piece)
    from bushel.codecs.arrays import cast_and_kept  # which opening a dataset does not need

    try:
        cast, kept = cast_and_kept(array, dtype)
    except (OverflowError, ValueError):
        # Python's integers beyond the dtype; no number, as an integer
        return None
    if kept.all():
        return cast
    return None
