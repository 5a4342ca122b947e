"""Match the samples of two datasets by equal names, by names of files and keys, or by lists of them.

Names are keys of samples, or the values of a field or column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from msgspec.structs import replace

from bushel._index.block_arrays import JoinedBlocks
from bushel._index.columns import Column
from bushel._index.elements import Group
from bushel._index.identity import table_digest
from bushel._index.key_lookup import LookedUp
from bushel._index.shard import Shard, Strings
from bushel._index.table import MISSING, FieldExtents, ShardIndex
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
from bushel.containers import get_container
from bushel.errors import SpecError, UnsupportedError
from bushel.kernels import crc32, hash_keys
from bushel.spec import KEY, Field
from bushel.storage import AnyPath

from .columns import part_of
from .known_values import exact_kind
from .reader import Reader
from .selection import Selection
from .shards import OpenShard, labels_of

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


_FORMS: tuple[tuple[Form, Form], ...] = (
    ("whole", "whole"),
    ("path", "path"),
    ("stem", "path"),
    ("path", "stem"),
)
"""The forms in which names are compared, one after another: those without a match in the forms before."""


class _Shards(Shard, frozen=True):
    """The files of several shards, as if one shard had them all."""

    # the shard of each file, and the number of the file there
    owners: tuple[tuple[Shard, int], ...] = ()

    def path(self, number: int) -> AnyPath:
        """Return the path of one of the files."""
        shard, number_there = self.owners[number]
        return shard.path(number_there)


def lists_of_values(
    other: Names, fields: Mapping[str, str], starts: I64, partners: I64
) -> OpenShard:
    """Return a shard whose samples have lists of the values of other samples.

    Args:
        other: The samples of the dataset that has the values.
        fields: The fields that are wanted of it, with their new names.
        starts: int64[samples + 1], the number of the first match of each sample.
        partners: int64[n], the positions of the matches in the whole dataset, sample by sample.

    Raises:
        SpecError: A field is a sequence itself, or is stored by several codecs.
        UnsupportedError: The dataset is read in sections, as remote Parquet files without an index
            are.
        FormatError: A shard is damaged, and the damage touches a match.
    """
    spec, reader = {name: other.selection.fields[name] for name in fields}, other.reader
    if sequences := [name for name, field in spec.items() if field.sequence]:
        raise SpecError(
            f"field {sequences[0]!r} of the dataset that is joined is a sequence itself, and Bushel"
            " has no lists of sequences: choose other fields of it with ds.select_fields([...])"
        )
    groups = reader.readable(partners, list(fields))
    groups = [group for group in groups if not fields.keys().isdisjoint(group.index.fields)]
    owners = [reader.shards[group.number] for group in groups]
    if any(shard.section is not None for shard in owners):
        raise UnsupportedError(
            "lists of values of remote files need their index: run `bushel index` on them first"
        )
    joined = JoinedBlocks()
    bases = [joined.add(group.index) for group in groups]
    number = len(joined.files)
    fields_of_lists = {
        name: _lists(groups, [base.get(name, 0) for base in bases], field, number, starts)
        for name, field in spec.items()
    }
    sources = owners or list(reader.shards[:1])
    containers = [shard.container for shard in sources]
    container = next(
        (name for name in containers if get_container(name).promises_checksums), containers[0]
    )
    table = ShardIndex(
        len(starts) - 1,
        tuple(joined.files),
        fields_of_lists,
        container,
        labels=labels_of(owners, spec),
        blocks=(joined.blocks(),),
    )
    root = next((shard for shard in sources if not shard.local), sources[0]).shard.root
    name = f"lists-{crc32(partners.tobytes(), crc32(starts.tobytes())):08x}"
    files = tuple((shard.shard, file) for shard in owners for file in range(len(shard.index.files)))
    shard = _Shards(root, name, tuple(stamp.name for stamp in joined.files), owners=files)
    opened = OpenShard.of(container, shard, table.check(name), stored=False, checked=True)
    # where values have no checksums, which values the lists have is known by the name alone
    opened.recorded = f"{name}-{table_digest(table)}"
    return opened


def _lists(
    groups: Sequence[Group], bases: Sequence[int], field: Field, number: int, starts: I64
) -> FieldExtents:
    """Return the extents of the lists of a field."""
    count = int(starts[-1])
    offset, length = np.zeros(count, np.int64), np.full(count, MISSING, np.int64)
    sums = np.zeros(count, np.uint32)
    codecs, summed = set[str](), True
    for group, base in zip(groups, bases, strict=True):
        if (extents := group.index.fields.get(field.name)) is None:
            continue
        places = group.in_batch
        offset[places] = extents.offset[group.rows] + base
        length[places] = extents.length[group.rows]
        codecs.add(extents.codec)
        if extents.crc32 is None:
            summed = False
        else:
            sums[places] = extents.crc32[group.rows]
    if len(codecs) > 1:
        raise SpecError(
            f"field {field.name!r} is stored as {' and as '.join(sorted(codecs))} in the dataset "
            "that is joined: lists need one way, so write it as one dataset with `bushel convert`"
        )
    # a list has a value for each name, or is missing
    short = offsets_of(length == MISSING)
    absent = short[starts[1:]] > short[starts[:-1]]
    counts = np.where(absent, 0, np.diff(starts))
    present = np.repeat(~absent, np.diff(starts))
    return FieldExtents(
        replace(field, sequence=True),
        codecs.pop() if codecs else field.codec,
        number,
        offset[present],
        length[present],
        sums[present] if summed else None,
        starts=offsets_of(counts),
        absent=absent if absent.any() else None,
    )


def match(first: Names, other: Names) -> I64:
    """Return the match of each name of a dataset in another one.

    Names match if they are equal. Where values of a field name keys, a value that
    equals no key may be the name of a file whose key lacks its last suffix, or the key of a file's
    name: `a.jpg` and `a`. Two names that both have suffixes never match, and `a.b` is not
    the name of a file.

    Args:
        first: The names in one dataset. If they are keys, and the other's are, too, no two samples
            may have the same.
        other: The names in the other one, one of each sample. No two samples may have the same.

    Returns:
        int64[n]: for each name of `first` the place of its match in `other.samples`, -1 for none.

    Raises:
        ValueError: Two samples have the same name, or a name may mean two keys; the message names
            them, and both positions.
    """
    of_keys = KEY in (first.on, other.on) and first.on != other.on
    matched = np.full(len(first.owners), -1, np.int64)
    for form, other_form in _FORMS if of_keys else _FORMS[:1]:
        table = LookedUp.of(other.hashes(other_form))
        lone = np.flatnonzero(matched < 0)
        lone_hashes = first.hashes(form)[lone]
        lookups = LookedUp.of(lone_hashes)
        if form == "whole":
            _refuse_repeated(other, table)
            if first.on == other.on == KEY:
                _refuse_repeated(first, lookups)
        # hashes are looked up in order, so that neighbours are found in neighbouring memory
        partners = table.find(lookups)
        repeated = table.hashes[1:][table.hashes[1:] == table.hashes[:-1]]
        doubtful = np.isin(lone_hashes, repeated) if len(repeated) else np.False_
        wrong = partners < 0
        for places in in_parts(np.flatnonzero(~wrong)):
            names = in_form(first.take(lone[places]), form)
            of_other = in_form(other.take(partners[places]), other_form)
            if names != of_other:
                wrong[places] = [name != same for name, same in zip(names, of_other, strict=True)]
        for place in np.flatnonzero((partners >= 0) & (wrong | doubtful)).tolist():
            [name] = first.take(lone[place : place + 1])
            same = [
                candidate
                for candidate in table.places(lone_hashes[place])
                if in_form(other.take(np.array([candidate])), other_form) == in_form([name], form)
            ]
            if len(same) > 1:
                numbers = np.array(same[:2])
                two = " and ".join(map(repr, other.take(numbers)))
                raise ValueError(
                    f"{name!r} may name two samples, {two}, at positions "
                    f"{_positions(other, numbers)}: write names in full"
                )
            partners[place] = same[0] if same else -1
        matched[lone] = partners
        if (matched >= 0).all():
            break
    # a name without a match has the last one, -1
    return np.append(other.owners, -1)[matched]


def _refuse_repeated(names: Names, table: LookedUp) -> None:
    for first, second in zip(*map(in_parts, table.repeated()), strict=True):
        pairs = zip(names.take(first), names.take(second), strict=True)
        for place, (name, same) in enumerate(pairs):
            if name != same:  # two names have one hash
                continue
            where = _positions(names, np.array([first[place], second[place]]))
            what, advice = "the key", "Choose samples with ds[...] or ds.where(...)"
            if names.on != KEY:
                what = f"{names.on} =="
                advice = (
                    "Give this dataset first, and each of its samples gets the match that it names"
                )
            raise ValueError(
                f"two samples have {what} {name!r}, at positions {where}: "
                f"a join needs one match for each sample. {advice}"
            )


def _positions(names: Names, numbers: I64) -> str:
    """Return the positions of the samples of two names in their dataset or view, in words."""
    every, samples = names.selection.every, names.samples[names.owners[numbers]].tolist()
    positions = [int(np.flatnonzero(every == sample)[0]) for sample in samples]
    return " and ".join(map(str, sorted(positions)))
