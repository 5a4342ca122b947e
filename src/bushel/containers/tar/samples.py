"""Grouping the members of an archive into samples. Pure, and column by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain, compress
from operator import ne
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from bushel._index.table import MISSING, FieldExtents, FileStamp, Keys, ShardIndex
from bushel._runtime.arrays import I64, U8, joined
from bushel._runtime.structs import Struct
from bushel.containers.tar.names import Naming, Place, extension_of, field_name, split_names
from bushel.errors import FormatError
from bushel.spec import KEY, Spec

if TYPE_CHECKING:
    from bushel.storage import Blocks

Repeated = Callable[[FormatError, int], None]

_CHUNK = 1 << 18
_MOST_CELLS = 1 << 24
_CELLS_PER_MEMBER = 64


class Members(Struct, frozen=True):
    """The regular files of an archive, in order."""

    names: U8  # uint8[total], the concatenated names
    name_offsets: I64  # int64[members + 1] into `names`
    offset: I64  # int64[members], offset of each member's data
    size: I64  # int64[members], size of its data in bytes
    header: I64  # int64[members], offset of its header

    def name(self, member: int) -> str:
        """Return the name of one member."""
        first, last = self.name_offsets[member], self.name_offsets[member + 1]
        return self.names[first:last].tobytes().decode("utf-8", "surrogateescape")


class Table(Struct, frozen=True):
    """The samples of an archive.

    Attributes:
        samples: Number of samples.
        keys: Their keys. Duplicates occur where the members of a sample are not adjacent.
        columns: By field, in order of first appearance.
    """

    samples: int
    keys: Keys
    columns: dict[str, FieldExtents]

    def index(self, files: tuple[FileStamp, ...], blocks: tuple[Blocks, ...] = ()) -> ShardIndex:
        """Return the table of a shard of one file, or of the one block file in it."""
        fields = self.columns
        if blocks:
            fields = {name: replace(own, file=len(files)) for name, own in fields.items()}
        return ShardIndex(self.samples, files, fields, "tar", self.keys, blocks=blocks)


class _Groups(Struct, frozen=True):
    member: I64  # numbers of the members that belong to a sample
    sample: I64  # number of the sample of each
    extension: I64  # extension of each, a number into `extensions`
    extensions: list[str]
    keys: list[bytes]  # one per sample


def tabulate(
    members: Members, spec: Spec | None, path: str, repeated: Callable[[FormatError, int], None] | None = None
) -> Table:
    """Group adjacent members with the same key into samples.

    Args:
        members: The files of the archive.
        spec: Fields that the user declared, or None.
        path: The archive's path for error messages.
        repeated: Called for a field that a sample has twice, with the error and the number of the sample. By default,
            the error is raised. With it, samples of the same key that share no field are joined, too.

    Raises:
        FormatError: A sample has two members with the same extension, or the names have too many different
            extensions for a table.
    """
    groups = _group(members)
    if repeated is not None:
        groups = _joined(groups)
    naming = Naming(spec)
    places = [naming(extension) for extension in groups.extensions]
    if any(place.field.name == KEY for place in places):
        raise FormatError(f"a member has the extension {KEY!r}, which is reserved for the key of a sample", file=path)
    fields = dict.fromkeys(spec or ()) | dict.fromkeys(place.field.name for place in places)
    samples = len(groups.keys)
    if samples * len(fields) > max(_MOST_CELLS, _CELLS_PER_MEMBER * len(groups.member)):
        raise FormatError(
            f"{len(fields)} different extensions in {samples} samples: the keys probably contain dots, but a key ends"
            " at its first dot",
            file=path,
            hint="rename the members, or declare sequences with spec=",
        )
    return Table(
        samples,
        Keys.build(*joined(groups.keys)),
        dict(_columns(members, groups, places, list(fields), spec, path, repeated)),
    )


def _group(members: Members) -> _Groups:
    rows, dots = split_names(members.names, members.name_offsets)
    numbers: defaultdict[bytes, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    keys: list[bytes] = []
    extension = np.zeros(len(rows), np.int64)
    begins = np.zeros(len(rows), np.bool_)
    previous = b""  # a key is never empty
    for first in range(0, len(rows), _CHUNK):  # in chunks, as a million names as objects take 100 MB
        part = slice(first, first + _CHUNK)
        start, end = members.name_offsets[rows[part]], members.name_offsets[rows[part] + 1]
        base = int(start[0])
        text = members.names[base : int(end[-1])].tobytes()
        starts, middles, ends = (start - base).tolist(), (dots[part] - base).tolist(), (end - base).tolist()
        own = [text[a:b] for a, b in zip(starts, middles, strict=True)]
        begins[part] = np.fromiter(map(ne, own, chain((previous,), own)), np.bool_, len(own))
        keys += compress(own, begins[part])
        previous = own[-1]
        endings = (text[a + 1 : b] for a, b in zip(middles, ends, strict=True))
        extension[part] = np.fromiter(map(numbers.__getitem__, endings), np.int64, len(own))
    return _Groups(rows, np.cumsum(begins) - 1, extension, [field_name(each) for each in numbers], keys)


def _joined(groups: _Groups) -> _Groups:
    """Join groups of the same key that share no extension: a sample whose members are not adjacent."""
    numbers = {key: number for number, key in reversed(list(enumerate(groups.keys)))}
    if len(numbers) == len(groups.keys):
        return groups
    first = np.array([numbers[key] for key in groups.keys], np.int64)  # the first group of the same key
    pairs = np.stack([first[groups.sample], groups.extension], 1)
    unique, counts = np.unique(pairs, axis=0, return_counts=True)
    shared = np.isin(first, unique[counts > 1, 0])
    own = np.arange(len(first))
    target = np.where(shared, own, first)
    kept = np.flatnonzero(target == own)
    renumbered = np.searchsorted(kept, target)
    return replace(groups, sample=renumbered[groups.sample], keys=[groups.keys[number] for number in kept.tolist()])


def _columns(
    members: Members,
    groups: _Groups,
    places: list[Place],
    names: list[str],
    spec: Spec | None,
    path: str,
    repeated: Repeated | None,
) -> Iterable[tuple[str, FieldExtents]]:
    known = {place.field.name: (place.field, place.codec) for place in places}
    known |= {name: (field, extension_of(field)[1]) for name, field in (spec or {}).items()}
    number = {name: at for at, name in enumerate(names)}
    field_of = np.array([number[place.field.name] for place in places], np.int64)
    element_of = np.array([place.number or 0 for place in places], np.int64)
    field = field_of[groups.extension]
    element = element_of[groups.extension]
    order = np.lexsort((element, groups.sample, field))
    borders = np.searchsorted(field[order], np.arange(len(names) + 1))
    for at, name in enumerate(names):
        rows = order[borders[at] : borders[at + 1]]
        sample, member = groups.sample[rows], groups.member[rows]
        twice = np.flatnonzero((sample[1:] == sample[:-1]) & (element[rows[1:]] == element[rows[:-1]]))
        for row in twice.tolist():
            error = _duplicate(members, int(member[row + 1]), name, path)
            if repeated is None:
                raise error
            repeated(error, int(sample[row]))
        declared, codec = known[name]
        if declared.sequence:
            starts = np.searchsorted(sample, np.arange(len(groups.keys) + 1))
            yield name, FieldExtents(declared, codec, 0, members.offset[member], members.size[member], starts=starts)
            continue
        offset, length = np.zeros(len(groups.keys), np.int64), np.full(len(groups.keys), MISSING, np.int64)
        offset[sample], length[sample] = members.offset[member], members.size[member]
        yield name, FieldExtents(declared, codec, 0, offset, length)


def _duplicate(members: Members, member: int, field: str, path: str) -> FormatError:
    return FormatError(
        f"{members.name(member)!r}: its sample already has a member for the field {field!r}",
        file=path,
        offset=int(members.header[member]),
        hint="run `bushel verify` on it",
    )
