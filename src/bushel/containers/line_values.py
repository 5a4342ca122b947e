"""The values of one field in lines of JSON or CSV: their extents, the type that fits all of them, and their column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._index.columns import Column
from bushel._index.line_arrays import LineArray, Lines
from bushel._index.table import FieldExtents
from bushel._recognise.types import Stored, resolve
from bushel._runtime.arrays import Bools, GrowingArrays
from bushel.errors import SpecError
from bushel.kernels import ExampleScanner, LineScanner
from bushel.spec import Field
from bushel.storage import File

_STEP = 1 << 16
"""Rows that are handled at a time, so that large tables need little memory, and it stays in the processor's cache."""


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


_COLUMNS = {Kind.FALSE, Kind.TRUE, Kind.INTEGER, Kind.UNSIGNED, Kind.REAL}
_ABSENT = 1 << Kind.NONE | 1 << Kind.NULL
_TEXTS = {Kind.BARE, Kind.QUOTED, Kind.ESCAPED}
_IN_QUOTES = {Kind.QUOTED, Kind.ESCAPED}
_INTEGERS = {Kind.INTEGER, Kind.UNSIGNED, Kind.LARGE}


class _Type(Struct, frozen=True):
    """How the values of a field are stored.

    Attributes:
        codec: Codec of the field.
        stored: Codec of the stored bytes.
        quotes: Whether the quotes around texts belong to the stored bytes.
    """

    codec: str
    stored: str
    quotes: bool = False


class GrowingLines(GrowingArrays):
    """The blocks of lines (docs/index.md) of a file that is scanned, one after another.

    Attributes:
        samples: Number of samples so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.samples = self._held = 0

    def take(self, scanner: ExampleScanner | LineScanner, share: float) -> None:
        """Add the samples that a scanner has, after which this share of the file is read."""
        if rows := scanner.rows:
            block = scanner.take()
            self.extend({"data": block, **self._begin}, share)
            self.samples, self._held = self.samples + rows, self._held + len(block)

    @property
    def _begin(self) -> dict[str, np.ndarray]:
        """Where the next block begins, and its first sample."""
        return {"at": np.array([self._held]), "first": np.array([self.samples])}

    def lines(self, path: str) -> Lines:
        """Return the blocks of the file with this path. No sample is added afterwards."""
        self.extend(self._begin, 1)
        arrays = self.finish()
        data = arrays.get("data", np.empty(0, np.uint8))
        return Lines(data, arrays["at"], arrays["first"], path)


class LineField:
    """One field of a file that was scanned.

    Args:
        name: Its name.
        file: The file.
        number: Its number.
        facts: The result of `LineScanner.facts`; None for a file without samples.
        cells: Whether the values are cells of CSV, not of JSON.
    """

    def __init__(
        self,
        name: str,
        file: File,
        number: int,
        facts: tuple[int, bool, bool] | None,
        *,
        cells: bool,
    ) -> None:
        self.name, self._file, self._number, self._cells = name, file, number, cells
        self._bits, self._negative, self._inexact = facts or (0, False, False)

    def table(
        self, lines: Lines, declared: Field | None, file: int, *, checked: bool
    ) -> tuple[FieldExtents, Column | None]:
        """Return the extents, and the column if the values are numbers or truth values.

        Args:
            lines: The values of all fields.
            declared: The field as the user declares it, or None.
            file: Number of the file.
            checked: Whether each value has to be of the declared type.

        Raises:
            SpecError: The values cannot be of the declared type.
        """
        natural = self._natural()
        value_type = natural
        if declared is not None:
            value_type = self._declared(declared, natural, lines if checked else None)
        extents = lines.extents(self._number, quotes=value_type.quotes)
        fields = FieldExtents(
            declared or Field(self.name, value_type.codec), value_type.stored, file, *extents
        )
        return fields, self._column(lines, value_type.stored)

    @property
    def occurs(self) -> bool:
        """Whether any line has the name, with a value or null; columns of CSV are in every line."""
        return self._cells or self._bits > 1 << Kind.NONE

    @property
    def _kinds(self) -> set[Kind]:
        """The kinds of the values that are there."""
        return {kind for kind in Kind if kind > Kind.NULL and self._bits >> kind & 1}

    def _natural(self) -> _Type:
        """Return the type that fits all values without changing one."""
        kinds = self._kinds
        if not kinds:
            if self._cells:
                return _Type("utf8", "utf8")
            return _Type("json", "json")
        if kinds <= _INTEGERS:
            return _Type("int", "cls")
        if kinds == {Kind.REAL} or (kinds == {Kind.REAL, Kind.INTEGER} and not self._inexact):
            return _Type("float", "float-text")
        if kinds <= _TEXTS or self._cells:
            if Kind.ESCAPED in kinds:
                return _Type("utf8", "csv-text" if self._cells else "json", quotes=True)
            return _Type("utf8", "utf8")
        return _Type("json", "json", not kinds.isdisjoint(_IN_QUOTES))

    def _declared(self, field: Field, natural: _Type, lines: Lines | None) -> _Type:
        kinds = self._kinds
        codec = field.codec
        if field.sequence:
            raise SpecError(
                f"field {self.name!r} has one value in each "
                f"line, so its type cannot be {field.type!r}"
            )
        if codec == natural.codec:
            return natural
        if not kinds:
            return _Type(codec, codec)
        if codec == "json" and not self._cells:
            return _Type("json", "json", not kinds.isdisjoint(_IN_QUOTES))
        if codec == "utf8" and Kind.ESCAPED not in kinds:
            return _Type(codec, codec)
        stored = Stored(Field(self.name, natural.codec), natural.stored, self._file.path)
        if lines is not None:
            stored = stored._replace(
                numbers=self._numbers(lines, natural),
                values=partial(self._values, lines, quotes=natural.quotes),
                words=self._line,
            )
        return _Type(codec, resolve(stored, field, codec), natural.quotes)

    def _numbers(self, lines: Lines, natural: _Type) -> np.ndarray | None:
        """Return the numbers that are there; None for other values."""
        column = self._column(lines, natural.stored)
        if column is None:
            return None
        numbers = np.asarray(column.values)
        if column.missing is None:
            return numbers
        return numbers[~column.missing]

    def _values(self, lines: Lines, *, quotes: bool) -> Iterator[tuple[int, bytes]]:
        """Yield where each value begins in the file, and its bytes."""
        offsets, lengths = lines.extents(self._number, quotes=quotes)
        for part in _parts(len(offsets)):
            pairs = zip(offsets[part].tolist(), lengths[part].tolist(), strict=True)
            for offset, length in pairs:
                if length >= 0:
                    yield offset, self._file.read(offset, length)

    def _line(self, offset: int) -> str:
        """Return the number of the line in which a value is, in words."""
        starts = range(0, offset, _STEP)
        parts = (self._file.read(start, min(_STEP, offset - start)) for start in starts)
        line = 1 + sum(part.count(b"\n") for part in parts)
        return f"the value in line {line}"

    def _column(self, lines: Lines, stored: str) -> Column | None:
        kinds, number = self._kinds, lines.numbers(self._number, "int")
        if not kinds or not kinds <= _COLUMNS:
            return None
        if kinds <= {Kind.FALSE, Kind.TRUE} and stored in ("json", "as(bool,json)"):
            return Column("bool", _truths(number, lambda part: part != 0), self._missing(lines))
        if stored == "cls" and kinds == {Kind.INTEGER}:
            return Column("int", number, self._missing(lines))
        if stored == "cls" and kinds <= {Kind.INTEGER, Kind.UNSIGNED} and not self._negative:
            return Column("uint", number.view(np.uint64), self._missing(lines))
        if stored == "float-text" and kinds <= {Kind.INTEGER, Kind.REAL} and not self._inexact:
            return Column("float", lines.numbers(self._number, "float"), self._missing(lines))
        return None

    def _missing(self, lines: Lines) -> Bools | None:
        return missing_values(lines, self._number, self._bits)


def missing_values(lines: Lines, number: int, kinds: int) -> Bools | None:
    """Return which samples lack a field, given its number and a bit for each kind of value; None if all have it."""
    if not kinds & _ABSENT:
        return None
    return _truths(LineArray(lines, number, "kind", quotes=False), lambda part: part <= Kind.NULL)


def _truths(array: Any, of: Callable[[np.ndarray], Bools]) -> Bools:
    """Return the truth value of each element of an array; of a large one, they are in a temporary file, too."""
    truths = GrowingArrays()
    for part in _parts(len(array)):
        truths.append("", of(array[part]))
        truths.share = part.stop / len(array)
    return truths.finish()[""]


def _parts(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _STEP):
        yield slice(start, min(start + _STEP, rows))
