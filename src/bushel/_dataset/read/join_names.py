"""The names by which samples are joined: their keys, or the values of a field or column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from bushel._index.columns import Column
from bushel._index.elements import Group
from bushel._index.table import MISSING
from bushel._runtime.arrays import (
    I64,
    NO_NUMBERS,
    U8,
    U64,
    Array,
    Bools,
    joined,
    offsets_of,
    ranges,
)
from bushel.codecs import get_codec
from bushel.codecs.extensions import FILE_SUFFIXES
from bushel.kernels import decode_keys, hash_keys
from bushel.spec import KEY

from .columns import part_of
from .known_values import exact_kind
from .reader import Reader
from .selection import Selection

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


@dataclass(frozen=True)
class Names:
    """The names of the samples of a dataset or view. A sample that a view has several times counts once."""

    reader: Reader  # the reader of the dataset, whose samples are not windows
    selection: Selection  # the samples and fields of the view
    on: str  # the field or column whose values are the names; `__key__` for the keys

    @cached_property
    def samples(self) -> I64:
        """int64[n]: the positions of the samples in the whole dataset, ascending."""
        positions = self.selection.every
        if (positions[1:] > positions[:-1]).all():
            return positions
        return np.unique(positions)

    @property
    def has_list(self) -> Bools | None:
        """bool[samples]: which samples have a list of names, which may be empty; None if the field holds no lists."""
        return self._texts.has_list

    @property
    def owners(self) -> I64:
        """int64[names]: the place in `samples` of the sample of each name."""
        return self._texts.owners

    def hashes(self, form: Form = "whole") -> U64:
        """Return the hash of each name in a form."""
        return hashes_of(self._texts.text, self._texts.offsets, form)

    def take(self, numbers: I64) -> list[str]:
        """Return some of the names, given their numbers."""
        return decode_keys(self._texts.text, self._texts.offsets, numbers)

    @cached_property
    def _texts(self) -> _Texts:
        field = self.selection.fields.get(self.on)
        if field is not None and (field.sequence or field.codec == "json"):
            return self._in_lists(sequence=field.sequence)
        pieces = [(NO_NUMBERS, np.zeros(0, np.uint8), NO_NUMBERS)]
        for places, (text, offsets) in self._pieces():
            pieces.append((places, text, np.diff(offsets)))
        owners, text, lengths = map(np.concatenate, zip(*pieces, strict=True))
        return _Texts(text, offsets_of(lengths), owners)

    def _in_lists(self, *, sequence: bool) -> _Texts:
        """Return the names in the values of a field: each is a name or a list of them.

        Raises:
            TypeError: A value is something else.
        """
        values: list[Any] = []
        for first in range(0, len(self.samples), _AT_ONCE):
            positions = self.samples[first : first + _AT_ONCE]
            samples = self.reader.read(positions, {self.on: None}, decode=True)
            values += [sample.get(self.on) for sample in samples]
        has_list = None
        if sequence or any(isinstance(value, list) for value in values):
            has_list = np.array([value is not None for value in values], np.bool_)
        names, owners = list[str](), list[int]()
        for place, value in enumerate(values):
            if value is not None:
                names += _names(value if isinstance(value, list) else [value], self.on)
                owners += [place] * (len(names) - len(owners))
        return _Texts(*text_of(names), np.array(owners, np.int64), has_list)

    def _pieces(self) -> Iterator[tuple[I64, tuple[U8, I64]]]:
        """Yield places in `samples` with the names there, until all that have a name were given."""
        reader, samples = self.reader, self.samples
        if self.on in reader.fields:
            for group in reader.groups(samples, [self.on]):
                yield from self._of_field(group)
        elif self.on != KEY:
            values, missing = part_of(reader, samples, self.on)
            places = np.arange(len(values))
            if missing is not None:
                places = np.flatnonzero(~missing)
            yield places, text_of(_names(values[places].tolist(), self.on))
        else:
            for group in reader.groups(samples, []):
                places, keys = group.places_in(len(samples)), group.index.keys
                if keys is None:
                    yield places, _text_of_numbers(samples[places])
                else:
                    yield places, _rows_of(keys.text, keys.offsets, group.rows)

    def _of_field(self, group: Group) -> Iterator[tuple[I64, tuple[U8, I64]]]:
        """Yield the names of one shard: by the column of its table, or else by the stored values."""
        if (extents := group.index.fields.get(self.on)) is None:
            return
        present = np.flatnonzero(extents.length[group.rows] != MISSING)
        places, rows = group.places_in(len(self.samples))[present], group.rows[present]
        kind, column = exact_kind(group.index, self.on), group.index.columns.get(self.on)
        if column is not None and kind not in (None, "float") and not _lacks(column, rows):
            yield places, _of_column(column, rows)
            return
        for first in range(0, len(places), _AT_ONCE):
            some = places[first : first + _AT_ONCE]
            text, offsets = self.reader.gather(self.samples[some], self.on)
            if extents.codec != "utf8":
                decode, ends = get_codec(extents.codec).decode, offsets.tolist()
                values = [decode(text[a:b].tobytes()) for a, b in zip(ends, ends[1:], strict=False)]
                text, offsets = text_of(_names(values, self.on))
            yield some, (text, offsets)


class _Texts(NamedTuple):
    """Names, one after another: see the properties of `Names`."""

    text: U8
    offsets: I64
    owners: I64
    has_list: Bools | None = None


def _rows_of(text: U8, offsets: I64, rows: I64) -> tuple[U8, I64]:
    """Return some of many texts, and the offsets of these."""
    sizes = offsets[rows + 1] - offsets[rows]
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return text[offsets[rows[0]] : offsets[rows[-1] + 1]], offsets_of(sizes)
    parts = [text[:0]]
    for first in range(0, len(rows), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        parts.append(text[ranges(offsets[rows[some]], sizes[some])])
    return np.concatenate(parts), offsets_of(sizes)


def _of_column(column: Column, rows: I64) -> tuple[U8, I64]:
    if column.text is None or column.offsets is None:
        return _text_of_numbers(column.piece(rows).values)
    if column.codes is not None:
        rows = column.codes[rows].astype(np.int64)
    return _rows_of(column.text, column.offsets, rows)


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
