"""The names by which samples are joined: their keys, or the values of a field or column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bushel._index.column_names import known_column_of
from bushel._index.columns import Column
from bushel._index.elements import Group
from bushel._index.table import MISSING
from bushel._runtime.arrays import I64, U8, U64, Array, Bools, joined, offsets_of
from bushel.codecs import get_codec
from bushel.codecs.extensions import FILE_SUFFIXES
from bushel.kernels import decode_keys, hash_keys
from bushel.spec import KEY

from .columns import column_names, part_of
from .known_values import exact_kind
from .reader import Reader
from .selection import Selection

_TYPES = frozenset(("utf8", "int", "uint", "i64", "u64", "cls", "csv-text", "json"))
_AT_ONCE = 1 << 16

Form = Literal["whole", "path", "stem"]
"""A name as it is; without a leading `./`; or without that and without the suffix of its file, such as `.jpg`."""


def in_form(names: list[str], form: Form) -> list[str]:
    """Return names in a form. What follows the last dot is a suffix only if files have such suffixes."""
    if form == "whole":
        return names
    paths = [name.removeprefix("./") for name in names]
    return paths if form == "path" else [_stem(path) for path in paths]


def _stem(path: str) -> str:
    before, dot, suffix = path.rpartition(".")
    is_file = dot and suffix.lower() in FILE_SUFFIXES and before.rpartition("/")[2]
    return before if is_file else path


def text_of(names: Iterable[str]) -> tuple[U8, I64]:
    """Return names as text and offsets."""
    return joined([name.encode("utf-8", "surrogatepass") for name in names])


def hashes_of(text: U8, offsets: I64, form: Form) -> U64:
    """Return uint64[names], the hashes of names in a form.

    Args:
        text: uint8[bytes], the names in UTF-8, one after another.
        offsets: int64[names + 1], where each of them begins.
        form: The form.
    """
    if form == "whole":
        return hash_keys(text, offsets)
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for first in range(0, len(hashes), _AT_ONCE):
        rows = np.arange(first, min(first + _AT_ONCE, len(hashes)))
        names = in_form(decode_keys(text, offsets, rows), form)
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        hashes[first : first + _AT_ONCE] = hash_keys(*joined(encoded))
    return hashes


def can_name(reader: Reader, selection: Selection, name: str) -> bool:
    """Return whether a field or column of a view may hold texts or whole numbers that name samples, or lists."""
    field = selection.fields.get(name)
    if field is not None:
        return field.codec in _TYPES
    meant = known_column_of(name, reader.fields)
    return meant is not None and name in column_names(reader)


@dataclass(frozen=True)
class Names:
    """The names of the samples of a dataset or view. A sample that a view has several times counts once."""

    reader: Reader  # the reader of the dataset, whose samples are not windows
    selection: Selection  # the samples and fields of the view
    on: str  # the field or column whose values are the names; `__key__` for the keys

    @property
    def positions(self) -> I64:
        """int64[n]: the position of each sample of the view in the whole dataset."""
        return self.selection.every

    @cached_property
    def samples(self) -> I64:
        """int64[n]: the positions of the samples in the whole dataset, ascending."""
        positions = self.positions
        if (positions[1:] > positions[:-1]).all():
            return positions
        return np.unique(positions)

    def has_lists(self) -> bool:
        """Return whether the field holds lists of names: as a sequence, or in some JSON value."""
        field = self.selection.fields.get(self.on)
        if field is None or field.sequence:
            return field is not None
        return field.codec == "json" and any(
            isinstance(value, list) for value in self._values(self.positions)
        )

    def lists(self) -> Iterator[list[str] | None]:
        """Yield the names that each of `samples` lists; None if it has no list.

        A value that is one text or whole number is a list of one.

        Raises:
            TypeError: A value is something else.
        """
        for value in self._values(self.samples):
            if isinstance(value, list) or value is None:
                names_there = value
            else:
                names_there = [value]
            yield None if names_there is None else list(_names(names_there, self.on))

    def _values(self, positions: I64) -> Iterator[Any]:
        for first in range(0, len(positions), _AT_ONCE):
            for sample in self.reader.read(
                positions[first : first + _AT_ONCE], {self.on: None}, decode=True
            ):
                yield sample.get(self.on)

    def hashes(self, form: Form = "whole") -> tuple[U64, Bools]:
        """Return the hash of the name of each sample in a form, and whether it has a name."""
        name_hashes = np.zeros(len(self.samples), np.uint64)
        has_name = np.zeros(len(self.samples), np.bool_)
        for places, (text, offsets, numbers) in self._texts_at(self.samples):
            hashes = hashes_of(text, offsets, form)
            name_hashes[places] = hashes if numbers is None else hashes[numbers]
            has_name[places] = True
        return name_hashes, has_name

    def take(self, places: I64) -> list[str]:
        """Return the names of some samples, given their places in `samples`. All of them have one."""
        positions = self.samples[places]
        if self.on == KEY:
            return self.reader.keys(positions)
        names = [""] * len(positions)
        for places_there, (text, offsets, numbers) in self._texts_at(positions):
            rows = np.arange(len(offsets) - 1) if numbers is None else numbers
            for place, name in zip(
                places_there.tolist(), decode_keys(text, offsets, rows), strict=True
            ):
                names[place] = name
        return names

    def has_name(self, places: I64) -> Bools:
        """Return which samples have a name, given their places in `samples`."""
        has_name = np.zeros(len(places), np.bool_)
        for places_there, _ in self._texts_at(self.samples[places]):
            has_name[places_there] = True
        return has_name

    def _texts_at(self, positions: I64) -> Iterator[tuple[I64, _Texts]]:
        """Yield places in `positions` with the names there, until all that have a name were given."""
        reader = self.reader
        if self.on == KEY:
            for group in reader.groups(positions, []):
                places = group.places_in(len(positions))
                yield places, _keys(group, positions[places])
        elif self.on not in reader.fields:
            values, missing = part_of(reader, positions, self.on)
            if missing is None:
                places = np.arange(len(values))
            else:
                places = np.flatnonzero(~missing)
            yield places, (*text_of(_names(values[places].tolist(), self.on)), None)
        else:
            for group in reader.groups(positions, [self.on]):
                yield from self._of_field(group, positions)

    def _of_field(self, group: Group, positions: I64) -> Iterator[tuple[I64, _Texts]]:
        """Yield the names of one shard: by the column of its table, or else by the stored values."""
        if (extents := group.index.fields.get(self.on)) is None:
            return
        present = np.flatnonzero(extents.length[group.rows] != MISSING)
        places, rows = group.places_in(len(positions))[present], group.rows[present]
        kind, column = exact_kind(group.index, self.on), group.index.columns.get(self.on)
        if column is not None and kind not in (None, "float") and not _lacks(column, rows):
            yield places, _of_column(column, rows)
            return
        for first in range(0, len(places), _AT_ONCE):
            some = places[first : first + _AT_ONCE]
            text, offsets = self.reader.gather(positions[some], self.on)
            if extents.codec != "utf8":
                decode, ends = get_codec(extents.codec).decode, offsets.tolist()
                values = [decode(text[a:b].tobytes()) for a, b in zip(ends, ends[1:], strict=False)]
                text, offsets = text_of(_names(values, self.on))
            yield some, (text, offsets, None)


_Texts = tuple[U8, I64, I64 | None]
"""Names as text and offsets, and the number of each sample's own among them; None if they are in order."""


def _keys(group: Group, positions: I64) -> _Texts:
    keys, rows = group.index.keys, group.rows
    if keys is None:
        return (*_text_of_numbers(positions), None)
    if not len(rows):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64), None
    low, high = int(rows.min()), int(rows.max())
    return keys.text, keys.offsets[low : high + 2], rows - low


def _of_column(column: Column, rows: I64) -> _Texts:
    if column.text is not None and column.offsets is not None:
        return (
            column.text,
            column.offsets,
            rows if column.codes is None else column.codes[rows].astype(np.int64),
        )
    return (*_text_of_numbers(column.piece(rows).values), None)


def _lacks(column: Column, rows: I64) -> bool:
    """Return whether the column of a field lacks values that the field has, such as long texts."""
    return column.missing is not None and bool(column.missing.view(np.uint8)[rows].any())


def _text_of_numbers(values: Array) -> tuple[U8, I64]:
    """Return whole numbers as Python writes them, as text and offsets."""
    fixed = np.ascontiguousarray(values.astype("S21")).view(np.uint8).reshape(len(values), 21)
    used = fixed != 0
    offsets = offsets_of(used.sum(axis=1))
    return fixed[used], offsets


def _names(values: Iterable[Any], on: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(
                f"field {on!r} holds {value!r}: names of samples are texts or whole numbers"
            )
        yield str(value)
