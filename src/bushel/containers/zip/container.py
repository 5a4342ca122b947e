"""Zip archives: members that share directory and name up to the first dot are one sample.

A member that is stored is an extent of the file; one that is compressed by deflate or zstd is a
block. The directory of the archive has the CRC-32 of each value. docs/format-zip.md has the rules.
"""

from __future__ import annotations

import numpy as np

from bushel._index.table import MISSING, FieldExtents, Keys, Shard, ShardIndex, stamps
from bushel._runtime.arrays import I64
from bushel.containers.base import Container, ReadOptions
from bushel.containers.growing import GrowingArrays
from bushel.containers.plain_table import file_shards
from bushel.containers.tar.names import Naming, Place, extension_of, field_name
from bushel.containers.zip.members import FILTERS, STEP, Members, members_of
from bushel.errors import FormatError
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath, Blocks, File, open_file


class _Zip(Container):
    name = "zip"
    suffixes = (".zip",)
    holds_files = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of a `.zip` file, or a shard for each `.zip` file of a folder, sorted by name."""
        return file_shards(path, lambda name: name.endswith(self.suffixes))

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one archive, from its directory and the headers of its members."""
        file = open_file(shard.path(0))
        return tabulate(shard, file, members_of(file), options.spec)


CONTAINER = _Zip()


_MOST_CELLS = 1 << 24
_CELLS_PER_MEMBER = 64


def tabulate(shard: Shard, file: File, members: Members, spec: Spec | None) -> ShardIndex:
    """Return the table of an archive.

    Raises:
        FormatError: A sample has two members with the same extension, or the names have too many
            different extensions for a table.
        OSError: The temporary file cannot be written.
    """
    naming = Naming(spec)
    places = [naming(field_name(extension)) for extension in members.extensions]
    fields = _fields_of(places, spec, len(members.key_offsets) - 1, len(members.sample), file)
    blocks = _blocks_of(members) if members.filter.any() else None
    table = _Table(file, members, places, fields, members.data if blocks is None else blocks.start)
    table.fill()
    extents = {name: table.extents(name, number=0 if blocks is None else 1) for name in fields}
    keys = Keys.build(members.keys, members.key_offsets)
    table_of_archive = ShardIndex(
        table.samples,
        stamps(shard, [file]),
        extents,
        "zip",
        keys,
        blocks=() if blocks is None else (blocks,),
    )
    return table_of_archive.check(file.path)


def _fields_of(
    places: list[Place], spec: Spec | None, samples: int, members: int, file: File
) -> dict[str, tuple[Field, str]]:
    """Return the fields, each with the codec of the stored bytes: of the spec, then in order of first appearance."""
    fields = {name: (field, extension_of(field)[1]) for name, field in (spec or {}).items()}
    for place in places:
        fields.setdefault(place.field.name, (place.field, place.codec))
    if any(place.field.name == KEY for place in places):
        raise FormatError(
            f"a member has the extension {KEY!r}, which is reserved for the key of a sample",
            file=file.path,
        )
    if samples * len(fields) > max(_MOST_CELLS, _CELLS_PER_MEMBER * members):
        raise FormatError(
            f"{len(fields)} different extensions in {samples} samples: the keys probably contain"
            " dots, but a key ends"
            " at its first dot",
            file=file.path,
            hint="rename the members, or declare sequences with spec=",
        )
    return fields


def _blocks_of(members: Members) -> Blocks:
    """Return a block for each member, in the order of their data."""
    arrays, size = GrowingArrays(), 0
    arrays.append("start", np.zeros(1, np.int64))
    for first in range(0, len(members.size), STEP):
        ends = size + np.cumsum(members.size[first : first + STEP])
        size = int(ends[-1])
        arrays.append("start", ends)
        arrays.append("file", np.zeros(len(ends), np.int32))
    start, file = arrays.finish().values()
    return Blocks(start, file, members.data, members.stored, members.filter, FILTERS)


class _Table:
    """The extents of the fields, which are filled in member by member.

    Args:
        file: The archive, for errors.
        members: Its members.
        places: The place of each extension.
        fields: The fields by name, each with the codec of the stored bytes.
        offset: Where the value of each member is: in the file, or in the block file.
    """

    def __init__(
        self,
        file: File,
        members: Members,
        places: list[Place],
        fields: dict[str, tuple[Field, str]],
        offset: I64,
    ) -> None:
        self.samples = len(members.key_offsets) - 1
        self._file, self._members, self._fields, self._offset = file, members, fields, offset
        self._numbers = {name: number for number, name in enumerate(fields)}
        small = np.int16 if len(fields) < 1 << 15 else np.int64  # which is sorted faster
        self._field_of = np.array([self._numbers[place.field.name] for place in places], small)
        self._element_of = np.array([place.number or 0 for place in places], np.int64)
        self._sequences = {
            self._numbers[name]: list[I64]()
            for name, (field, _) in fields.items()
            if field.sequence
        }  # the members of each
        arrays = GrowingArrays()
        empty = {part: np.full(STEP, missing) for part, missing in _PARTS.items()}
        for number in set(self._numbers.values()) - self._sequences.keys():
            for first in range(0, max(self.samples, 1), STEP):
                arrays.share = min(first + STEP, self.samples) / max(self.samples, 1)
                for part, rows in empty.items():
                    arrays.append(f"{part} {number}", rows[: self.samples - first])
        self._arrays = arrays.finish()

    def fill(self) -> None:
        """Fill in all members.

        Raises:
            FormatError: A sample has two members for one field.
        """
        members = self._members
        for first in range(0, len(members.sample), STEP):
            rows = np.flatnonzero(members.sample[first : first + STEP] >= 0) + first
            field = self._field_of[members.extension[rows]]
            rows = rows[np.argsort(field, kind="stable")]
            counts = np.bincount(field, minlength=len(self._fields))
            ends = np.cumsum(counts)
            for number in np.flatnonzero(counts).tolist():
                rows_of_field = rows[ends[number] - counts[number] : ends[number]]
                if number in self._sequences:
                    self._sequences[number].append(rows_of_field)
                else:
                    self._put(number, rows_of_field)

    def _put(self, number: int, rows: I64) -> None:
        """Fill in members of one field that is not a sequence."""
        members, sample = self._members, self._members.sample[rows]
        offset, length, crc32 = (self._arrays[f"{part} {number}"] for part in _PARTS)
        ordered = None
        if (sample[1:] <= sample[:-1]).any():
            ordered = np.argsort(sample, kind="stable")
        if ordered is not None and (same := np.flatnonzero(np.diff(sample[ordered]) == 0)).size:
            raise self._twice(int(rows[ordered[same[0] + 1]]), number)
        if (length[sample] != MISSING).any():
            raise self._twice(int(rows[(length[sample] != MISSING).argmax()]), number)
        offset[sample], length[sample] = self._offset[rows], members.size[rows]
        crc32[sample] = np.where(members.size[rows] > 0, members.crc32[rows], 0)

    def _twice(self, member: int, number: int) -> FormatError:
        name, field = self._members.name(member), list(self._fields)[number]
        return FormatError(
            f"{name!r}: its sample already has a member for the field {field!r}",
            file=self._file.path,
            offset=int(self._members.header[member]),
            hint="run `bushel verify` on it",
        )

    def extents(self, name: str, number: int) -> FieldExtents:
        """Return the extents of a field, in the file of this number.

        Raises:
            FormatError: A sample has two members for one element.
        """
        (field, codec), number_of_field = self._fields[name], self._numbers[name]
        if number_of_field not in self._sequences:
            offset, length, crc32 = (self._arrays[f"{part} {number_of_field}"] for part in _PARTS)
            return FieldExtents(field, codec, number, offset, length, crc32)
        members = self._members
        rows = np.concatenate([np.zeros(0, np.int64), *self._sequences[number_of_field]])
        sample, element = members.sample[rows], self._element_of[members.extension[rows]]
        order = np.lexsort((element, sample))
        rows, sample, element = rows[order], sample[order], element[order]
        twice = np.flatnonzero((sample[1:] == sample[:-1]) & (element[1:] == element[:-1]))
        if len(twice):
            raise self._twice(int(rows[twice[0] + 1]), number_of_field)
        starts = np.searchsorted(sample, np.arange(self.samples + 1))
        crc32 = np.where(members.size[rows] > 0, members.crc32[rows], 0).astype(np.uint32)
        return FieldExtents(
            field, codec, number, self._offset[rows], members.size[rows], crc32, starts=starts
        )


_PARTS = {"offset": np.int64(0), "length": np.int64(MISSING), "crc32": np.uint32(0)}
"""The arrays of a field, with what they have for a sample that lacks it."""
