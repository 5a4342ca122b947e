"""The values of one field in lines of JSON or CSV: their extents, the type that fits all of them, and their column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bushel._index.columns import Column
from bushel._index.table import MISSING, FieldExtents
from bushel.containers.growing import GrowingArrays
from bushel.errors import SpecError
from bushel.spec import Field

Scanned: TypeAlias = tuple[
    int,
    npt.NDArray[np.int64],
    npt.NDArray[np.int64],
    npt.NDArray[np.uint8],
    npt.NDArray[np.int64],
    int,
    int,
    int,
]
"""The result of `LineScanner.values`: the first sample; offset, length, kind and number of each value; the kinds, and
the least and the greatest integer."""

_STEP = 1 << 16
"""Rows that are handled at a time, so that large tables need little memory, and it stays in the processor's cache."""

_EXACT = 1 << 53
"""Integers up to this are floats exactly."""


class Kind(IntEnum):
    """The kinds of values that `LineScanner` finds."""

    NONE = 0
    NULL = 1
    BARE = 2
    QUOTED = 3
    ESCAPED = 4
    FALSE = 5
    TRUE = 6
    INTEGER = 7
    UNSIGNED = 8
    LARGE = 9
    REAL = 10
    NESTED = 11


_ABSENT = 1 << Kind.NONE | 1 << Kind.NULL
_TEXTS = {Kind.BARE, Kind.QUOTED, Kind.ESCAPED}
_IN_QUOTES = {Kind.QUOTED, Kind.ESCAPED}
_INTEGERS = {Kind.INTEGER, Kind.UNSIGNED, Kind.LARGE}
_NUMBERS = {*_INTEGERS, Kind.REAL}
_DECIMAL = {"int": "cls", "uint": "cls", "i64": "cls", "u64": "cls", "float": "float-text", "f32": "float-text"}
"""Codecs of numbers, and the codecs of the same numbers as text."""


@dataclass(frozen=True, slots=True)
class _Type:
    """How the values of a field are stored.

    Attributes:
        codec: Codec of the field.
        stored: Codec of the stored bytes.
        quotes: Whether the quotes around texts belong to the stored bytes.
    """

    codec: str
    stored: str
    quotes: bool = False


class LineField:
    """One field, whose values are added chunk by chunk.

    Args:
        name: Its name.
        number: Its number, which distinguishes its arrays from the arrays of other fields.
        arrays: Takes its arrays.
        cells: Whether the values are cells of CSV, not of JSON.
    """

    def __init__(self, name: str, number: int, arrays: GrowingArrays, *, cells: bool) -> None:
        self.name, self._number, self._arrays, self._cells = name, number, arrays, cells
        self._bits = 0  # a bit for each kind that occurs
        self._negative = self._inexact = self._numbered = self._missing = False
        self._rows = 0
        self._unquoted: int | None = None

    def add(self, before: int, values: Scanned) -> bool:
        """Add the values of a chunk, and return whether the extents of texts must include their quotes from now on.

        Args:
            before: Number of samples before the chunk.
            values: The values of the samples of the chunk, from the first one on that has the field.
        """
        first, offset, length, kind, number, kinds, least, most = values
        if not len(offset):
            return False
        self._pad(before + first)
        self._bits |= kinds
        self._missing |= bool(kinds & _ABSENT)
        self._negative |= least < 0
        self._inexact |= most > _EXACT or least < -_EXACT
        if len(number) and not self._numbered:
            self._numbered = True
            self._arrays.append_zeros(f"{self._number}.number", np.int64, self._rows)
        for part, array in (("offset", offset), ("length", length), ("kind", kind)):
            self._arrays.append(f"{self._number}.{part}", array)
        if self._numbered and len(number):
            self._arrays.append(f"{self._number}.number", number)
        elif self._numbered:
            self._arrays.append_zeros(f"{self._number}.number", np.int64, len(offset))
        self._rows += len(offset)
        if self._unquoted is not None or not self._bits >> Kind.ESCAPED & 1:
            return False
        self._unquoted = self._rows  # every type of texts with escapes has the quotes
        return True

    def finish(self, samples: int) -> None:
        """Mark these samples as the last ones."""
        self._pad(samples)

    def _pad(self, samples: int) -> None:
        missing = samples - self._rows
        self._missing |= missing > 0
        for start in range(0, missing, _STEP):
            self._arrays.append(f"{self._number}.length", np.full(min(_STEP, missing - start), MISSING, np.int64))
        zeros = (("offset", np.int64), ("kind", np.uint8), ("number", np.int64))
        for part, dtype in zeros if self._numbered else zeros[:2]:
            self._arrays.append_zeros(f"{self._number}.{part}", dtype, missing)
        self._rows = samples

    def table(
        self, found: Mapping[str, npt.NDArray[Any]], declared: Field | None, file: int
    ) -> tuple[FieldExtents, Column | None]:
        """Return the extents, and the column if the values are numbers or truth values.

        Args:
            found: The arrays of all fields, which are changed.
            declared: The field as the user declares it, or None.
            file: Number of the file.

        Raises:
            SpecError: The values cannot be of the declared type.
        """
        offset, length, kind = (
            found.get(f"{self._number}.{part}", np.empty(0, dtype))
            for part, dtype in (("offset", np.int64), ("length", np.int64), ("kind", np.uint8))
        )
        natural = self._natural()
        own = natural if declared is None else self._declared(declared, natural)
        if own.quotes:
            for part in _parts(len(offset) if self._unquoted is None else self._unquoted):
                quoted = (kind[part] == Kind.QUOTED) | (kind[part] == Kind.ESCAPED)
                offset[part] -= quoted
                length[part] += 2 * quoted
        field = declared or Field(self.name, own.codec)
        column = self._column(found, kind, own.stored) if self._numbered else None
        return FieldExtents(field, own.stored, file, offset, length), column

    @property
    def _kinds(self) -> set[Kind]:
        """The kinds of the values that are there."""
        return {each for each in Kind if each > Kind.NULL and self._bits >> each & 1}

    def _natural(self) -> _Type:
        """Return the type that fits all values without changing one."""
        kinds = self._kinds
        if not kinds:
            return _Type("utf8", "utf8") if self._cells else _Type("json", "json")
        if kinds <= _INTEGERS:
            return _Type("int", "cls")
        if kinds == {Kind.REAL} or (kinds == {Kind.REAL, Kind.INTEGER} and not self._inexact):
            return _Type("float", "float-text")
        if kinds <= _TEXTS or self._cells:
            escaped = Kind.ESCAPED in kinds
            return _Type("utf8", ("csv-text" if self._cells else "json") if escaped else "utf8", escaped)
        return _Type("json", "json", not kinds.isdisjoint(_IN_QUOTES))

    def _declared(self, field: Field, natural: _Type) -> _Type:
        kinds = self._kinds
        codec = field.codec
        if field.sequence:
            raise SpecError(f"field {self.name!r} has one value in each line, so its type cannot be {field.type!r}")
        if codec == natural.codec:
            return natural
        if codec == "json" and not self._cells:
            return _Type("json", "json", not kinds.isdisjoint(_IN_QUOTES))
        if codec.startswith("array") and kinds == {Kind.NESTED}:
            return _Type(codec, f"json-{codec}")
        if Kind.ESCAPED in kinds:
            raise SpecError(
                f"field {self.name!r}: some of its texts have escapes, so they can be read as utf8, not as {codec}"
            )
        if codec in _DECIMAL or kinds <= _TEXTS or self._cells or codec == "utf8":
            return _Type(codec, _DECIMAL.get(codec, codec))
        raise SpecError(f"field {self.name!r}: its values are of type {natural.codec}, and cannot be read as {codec}")

    def _column(self, found: Mapping[str, npt.NDArray[Any]], kind: npt.NDArray[np.uint8], stored: str) -> Column | None:
        kinds = self._kinds
        number = found[f"{self._number}.number"]
        some = _truths(kind, lambda part: part <= Kind.NULL) if self._missing else None
        if kinds <= {Kind.FALSE, Kind.TRUE}:
            return Column("bool", _truths(number, lambda part: part != 0), some)
        if stored == "cls" and kinds == {Kind.INTEGER}:
            return Column("int", number, some)
        if stored == "cls" and kinds <= {Kind.INTEGER, Kind.UNSIGNED} and not self._negative:
            return Column("uint", number.view(np.uint64), some)
        if stored == "float-text" and kinds <= {Kind.INTEGER, Kind.REAL} and not self._inexact:
            for part in _parts(len(kind)):
                whole = kind[part] == Kind.INTEGER
                if whole.any():
                    number[part][whole] = number[part][whole].astype(np.float64).view(np.int64)
            return Column("float", number.view(np.float64), some)
        return None


def _truths(array: npt.NDArray[Any], of: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    """Return the truth value of each element of an array; of a large one, they are in a temporary file, too."""
    truths = GrowingArrays()
    for part in _parts(len(array)):
        truths.append("", of(array[part]))
        truths.share = part.stop / len(array)
    return truths.finish()[""]


def _parts(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _STEP):
        yield slice(start, min(start + _STEP, rows))
