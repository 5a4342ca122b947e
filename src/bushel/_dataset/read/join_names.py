"""The names by which samples are joined: their keys, or the values of a field or column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from bushel._index.columns import Column
from bushel._index.elements import Group
from bushel._index.shard import Strings
from bushel._index.table import MISSING
from bushel._runtime.arrays import (
    I64,
    NO_NUMBERS,
    U64,
    Array,
    Bools,
    chunks,
    joined,
    offsets_of,
)
from bushel.codecs.extensions import FILE_SUFFIXES
from bushel.kernels import hash_keys
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


def in_parts(places: I64) -> list[I64]:
    """Return places in parts, so that few names are in memory as objects."""
    return [places[first : first + _AT_ONCE] for first in range(0, len(places), _AT_ONCE)]


def strings_of(names: Iterable[str]) -> Strings:
    """Return names in one array."""
    return Strings(*joined([name.encode("utf-8", "surrogatepass") for name in names]))


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
        names = self._texts.names
        if form == "whole":
            return hash_keys(names.text, names.offsets)
        hashes = np.empty(len(names), np.uint64)
        for some in chunks(range(len(names)), _AT_ONCE):
            in_this_form = Strings.of(in_form(names.take(np.array(some)), form))
            hashes[some.start : some.stop] = hash_keys(in_this_form.text, in_this_form.offsets)
        return hashes

    def take(self, numbers: I64) -> list[str]:
        """Return some of the names, given their numbers."""
        return self._texts.names.take(numbers)

    @cached_property
    def _texts(self) -> _Texts:
        field = self.selection.fields.get(self.on)
        if field is not None and (field.sequence or field.codec == "json"):
            return self._in_lists(sequence=field.sequence)
        pieces = [(NO_NUMBERS, strings_of([])), *self._pieces()]
        places, names = zip(*pieces, strict=True)
        return _Texts(Strings.join(names), np.concatenate(places))

    def _in_lists(self, *, sequence: bool) -> _Texts:
        """Return the names in the values of a field: each is a name or a list of them.

        Raises:
            TypeError: A value is something else.
        """
        values: list[Any] = []
        for positions in in_parts(self.samples):
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
        return _Texts(strings_of(names), np.array(owners, np.int64), has_list)

    def _pieces(self) -> Iterator[tuple[I64, Strings]]:
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
            yield places, strings_of(_names(values[places].tolist(), self.on))
        else:
            for group in reader.groups(samples, []):
                places, keys = group.places_in(len(samples)), group.index.keys
                if keys is None:
                    yield places, _of_numbers(samples[places])
                else:
                    yield places, keys.chosen(group.rows)

    def _of_field(self, group: Group) -> Iterator[tuple[I64, Strings]]:
        """Yield the names of one shard: by the column of its table, or else by the stored values."""
        if (extents := group.index.fields.get(self.on)) is None:
            return
        present = np.flatnonzero(extents.length[group.rows] != MISSING)
        places, rows = group.places_in(len(self.samples))[present], group.rows[present]
        kind, column = exact_kind(group.index, self.on), group.index.columns.get(self.on)
        if column is not None and kind not in (None, "float"):
            missing = column.missing  # in the column, but not in the field, as long texts are
            if missing is None or not missing.view(np.uint8)[rows].any():
                yield places, _of_column(column, rows)
                return
        for some in in_parts(places):
            if extents.codec == "utf8":
                texts, offsets, _ = self.reader.gather(self.samples[some], self.on)
                yield some, Strings(texts, offsets)
                continue
            samples = self.reader.read(self.samples[some], {self.on: None}, decode=True)
            values = [sample[self.on] for sample in samples]
            yield some, strings_of(_names(values, self.on))


class _Texts(NamedTuple):
    """The names of samples: see the properties of `Names`."""

    names: Strings
    owners: I64
    has_list: Bools | None = None


def _of_column(column: Column, rows: I64) -> Strings:
    if column.text is None or column.offsets is None:
        return _of_numbers(column.piece(rows).values)
    if column.codes is not None:
        rows = column.codes[rows].astype(np.int64)
    return Strings(column.text, column.offsets).chosen(rows)


def _of_numbers(values: Array) -> Strings:
    """Return whole numbers as Python writes them."""
    fixed = np.ascontiguousarray(values.astype("S21")).view(np.uint8).reshape(len(values), 21)
    used = fixed != 0
    return Strings(fixed[used], offsets_of(used.sum(axis=1)))


def _names(values: Iterable[Any], on: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(
                f"field {on!r} holds {value!r}: names of samples are texts or whole numbers"
            )
        yield str(value)
