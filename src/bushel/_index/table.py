"""The table of a shard: where the bytes of every field of every sample are.

Every container is turned into the same table, so everything above it (dataset, loader, verify,
convert) works with all of them: containers build a `ShardIndex` for each shard, `sidecar` stores
it, and `Dataset` reads through it. A table does no I/O; `opener` opens the files that one describes.

The table consists of NumPy arrays that may be views of a mapped file. A field takes 20 bytes per
sample (offset, length, CRC-32), 12 in a file if its lengths are equal; keys take 20 bytes per sample
in addition to their text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from bushel import kernels
from bushel._runtime.arrays import I32, I64, U8, U32, Bools, offsets_of, ranges, selected
from bushel._runtime.public import public
from bushel.errors import FormatError
from bushel.spec import Field, Spec
from bushel.storage import File, open_file

from .names import Labels, labels_of_fields
from .shard import MANY_FILES, FileStamp, Keys, Place, Shard, sizes_of

if TYPE_CHECKING:
    from bushel.storage.block_file import BlockFile
    from bushel.storage.blocks import Blocks

    from .clip_frames import ClipFrames, SeekTables, Segments
    from .columns import Column

MISSING = -1
"""Stored length of a field that a sample lacks."""

# rows that are checked together, so that checking a large table takes little memory
_CHECKED_AT_ONCE = 1 << 20


@public("bushel.containers")
class FieldExtents(Struct, frozen=True):
    """The extents of one field in one shard.

    A plain field has one row per sample. A sequence field has one row per element, and sample `i`
    owns the rows `starts[i]` to `starts[i + 1]`.

    Attributes:
        field: The field in the spec.
        codec: Codec of the *stored* bytes. A tar stores `int` as decimal text, not as `field.codec`.
        file: Number of the file in `ShardIndex.files`; the numbers that follow count
            `ShardIndex.blocks`.
        offset: int64[rows], bytes from the start of the file.
        length: int64[rows], bytes; `MISSING` if the sample lacks the field.
        crc32: uint32[rows], CRC-32 of the field's bytes as in zlib, or None if unknown.
        starts: int64[samples + 1] for a sequence field, else None.
        absent: bool[samples] for a sequence field that some samples lack, else None.
        segments: The segments of tiled JPEGs, or None if unknown.
        frames: The packets of clips, or None if unknown.
        seek: The seek tables of plain JPEGs, or None if unknown.
    """

    field: Field
    codec: str
    file: int
    offset: I64
    length: I64
    crc32: U32 | None = None
    starts: I64 | None = None
    absent: Bools | None = None
    segments: Segments | None = None
    frames: ClipFrames | None = None
    seek: SeekTables | None = None

    @property
    def plain(self) -> bool:
        """Whether each sample has one value."""
        return self.starts is None

    @property
    def checksums(self) -> U32:
        """uint32[rows], the checksums; 0 where none are known."""
        if self.crc32 is None:
            return np.zeros(self.rows, np.uint32)
        return self.crc32

    @property
    def rows(self) -> int:
        """Number of extents."""
        return len(self.offset)

    @property
    def present(self) -> Bools:
        """bool[rows], whether there is a value."""
        present: Bools = self.length != MISSING
        return present

    @property
    def lacks_all(self) -> bool:
        """Whether all values are missing. Where the first one is there, no others are looked at."""
        return not (self.length[:1] != MISSING).any() and not self.present.any()

    @property
    def nbytes(self) -> int:
        """Number of stored bytes of all values."""
        return int(np.maximum(self.length, 0).sum())

    @property
    def empty_and_absent(self) -> tuple[Bools, Bools]:
        """The samples with an empty sequence, and those without one: two arrays bool[samples] of a sequence field."""
        starts = np.zeros(1, np.int64) if self.starts is None else self.starts
        if self.absent is None:
            absent = np.zeros(len(starts) - 1, np.bool_)
        else:
            absent = self.absent
        return (np.diff(starts) == 0) & ~absent, absent

    @property
    def empties_before(self) -> I64:
        """int64[rows], the number of an empty value among those at its offset; more than all have for other values."""
        empties = np.flatnonzero(self.length == 0)
        in_order = empties[np.argsort(self.offset[empties], kind="stable")]
        offsets = self.offset[in_order]
        numbers = np.full(self.rows, self.rows)
        numbers[in_order] = np.arange(len(offsets)) - np.searchsorted(offsets, offsets)
        return numbers

    def sample_of(self, row: int) -> int:
        """Return the number of the sample that has a row."""
        if self.starts is None:
            return row
        return int(np.searchsorted(self.starts, row, side="right")) - 1

    def rows_of(self, samples: I64) -> tuple[I64, I64]:
        """Return the rows of the elements of these samples, one after another.

        Returns:
            rows: int64[total].
            counts: int64[len(samples)], number of elements of each sample.
        """
        if self.starts is None:
            return samples, np.ones(len(samples), np.int64)
        first = self.starts[samples]
        counts = self.starts[samples + 1] - first
        return ranges(first, counts), counts

    def take(self, samples: I64) -> FieldExtents:
        """Return the column of these samples, with its extents and checksums alone."""
        rows, counts = self.rows_of(samples)
        crc32 = selected(self.crc32, rows)
        starts = None if self.starts is None else offsets_of(counts)
        absent = selected(self.absent, samples)
        places = self.offset[rows], self.length[rows]
        return FieldExtents(self.field, self.codec, self.file, *places, crc32, starts, absent)


@public("bushel.containers")
class ShardIndex(Struct, frozen=True):
    """The table of one shard.

    Attributes:
        samples: Number of samples.
        files: The files of the shard. Extents refer to them by number.
        fields: The extents of each field, in the spec's order.
        container: Name of the container.
        keys: The keys, or None if a sample's key is its position in the dataset.
        labels: Field to the names of its classes.
        columns: Name of a column to the value of each sample, of those that are known
            (docs/columns.md).
        blocks: The block files of the shard. Extents refer to them by numbers that follow the
            numbers of the files.
        digest: The digest in the sidecar from which the table comes (`table_digest`), else empty.
    """

    samples: int
    files: Sequence[FileStamp]
    fields: Mapping[str, FieldExtents]
    container: str
    keys: Keys | None = None
    labels: Labels = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=dict)
    blocks: tuple[Blocks, ...] = ()
    digest: str = ""

    @property
    def has_checksums(self) -> bool:
        """Whether the CRC-32 of any field is known."""
        return any(column.crc32 is not None for column in self.fields.values())

    @property
    def nbytes(self) -> int:
        """Number of stored bytes of all values."""
        return sum(column.nbytes for column in self.fields.values())

    @property
    def has_all_checksums(self) -> bool:
        """Whether the CRC-32 of every field is known."""
        return all(column.crc32 is not None for column in self.fields.values())

    @property
    def spec(self) -> Spec:
        """The fields by their names."""
        return {name: column.field for name, column in self.fields.items()}

    @property
    def next_file(self) -> int:
        """The number of the block file that is added next."""
        return len(self.files) + len(self.blocks)

    def with_field(self, extents: FieldExtents, data: U8, column: Column | None) -> ShardIndex:
        """Return a table with one more field, whose values are in the table itself: in `data`, file `next_file`."""
        from bushel.storage.blocks import Blocks

        name, columns = extents.field.name, dict(self.columns)
        if column is not None:
            columns[name] = column
        return replace(
            self,
            fields={**self.fields, name: extents},
            columns=columns,
            blocks=(*self.blocks, Blocks.in_table(data)),
        )

    def blocks_of(self, file: int) -> Blocks | None:
        """Return the blocks of a file, given its number; None if it is a real file."""
        if file < len(self.files):
            return None
        return self.blocks[file - len(self.files)]

    @property
    def compressed(self) -> bool:
        """Whether bytes of any block have to be expanded."""
        return any(
            not block_file.is_stored(np.arange(len(block_file))).all() for block_file in self.blocks
        )

    def size_of(self, file: int) -> int:
        """Return the size in bytes of a file or block file, given its number."""
        blocks = self.blocks_of(file)
        return self.files[file].size if blocks is None else blocks.size

    def has_many_files(self, shard: Shard) -> bool:
        """Return whether the shard has very many local files. Small ones do not stay open then."""
        return len(self.files) > MANY_FILES and isinstance(shard.root, Path)

    def closes(self, file: int, shard: Shard) -> bool:
        """Return whether a file is opened for each read: it is one of very many, with values in its blocks alone."""
        return self.has_many_files(shard) and all(
            extents.file != file for extents in self.fields.values()
        )

    def place(self, file: int, offset: int, empty: int | None = None) -> Place:
        """Return where a byte is stored, given the number of a file or block file and an offset in it.

        `empty` is the number of an empty value among those at the offset.
        """
        blocks = self.blocks_of(file)
        if blocks is None:
            return Place(file, offset)
        place = blocks.place(offset, empty)
        if place is None:
            return Place(None, offset)
        return Place(*place)

    def in_one_piece(self, extents: FieldExtents) -> tuple[I32, I64]:
        """Return where the values of a field are that are uncompressed in one piece of a real file.

        Returns:
            file: int32[rows], number of the file, -1 for other values.
            offset: int64[rows], bytes from its start; for other values as in `extents`.
        """
        blocks = self.blocks_of(extents.file)
        if blocks is None:
            return np.full(extents.rows, extents.file, np.int32), np.asarray(extents.offset)
        if not len(blocks):
            return np.full(extents.rows, -1, np.int32), np.asarray(extents.offset)
        block = np.searchsorted(blocks.start, extents.offset, "right") - 1
        block = np.clip(block, 0, len(blocks) - 1)
        inside = extents.offset - blocks.start[block]
        whole = (extents.length >= 0) & (inside >= 0) & blocks.is_stored(block)
        whole &= extents.length <= blocks.sizes[block] - inside
        file = np.where(whole, blocks.file[block], np.int32(-1))
        return file, np.where(file >= 0, blocks.offset[block] + inside, extents.offset)

    def shard_with_files(self, shard: Shard) -> Shard:
        """Return the shard with the files that fields name, of types `jpg(path)` or `jpg(url)`, say."""
        if len(self.files) <= len(shard.files):
            return shard
        codecs = [column.field.codec for column in self.fields.values()]
        # which no table in a file declares
        urls = shard.urls or any(codec.endswith("(url)") for codec in codecs)
        if not urls and not any(codec.endswith("(path)") for codec in codecs):
            return shard
        named = (stamp.name for stamp in self.files[len(shard.files) :])
        return replace(shard, files=(*shard.files, *named), urls=urls)

    def check(self, path: str) -> ShardIndex:
        """Refuse a table whose extents are not inside its files. Code above relies on this check.

        Raises:
            FormatError: An array has the wrong length, or an extent is outside its file.
        """
        for blocks in self.blocks:
            blocks.check(path, sizes_of(self.files))
        if self.keys is not None and len(self.keys.offsets) != self.samples + 1:
            raise FormatError(
                f"the index has {len(self.keys)} keys for {self.samples} samples", path
            )
        for name, column in self.fields.items():
            if column.starts is None:
                if column.rows != self.samples:
                    raise FormatError(
                        f"field {name!r}: {column.rows} extents for {self.samples} samples", path
                    )
            elif (
                len(column.starts) != self.samples + 1
                or column.starts[0] != 0
                or int(column.starts[-1]) != column.rows
                or np.any(column.starts[1:] < column.starts[:-1])
            ):
                raise FormatError(
                    f"field {name!r}: the offsets of its sequences are not ascending", path
                )
            limit = self.size_of(column.file)
            for first in range(0, column.rows, _CHECKED_AT_ONCE):
                part = slice(first, first + _CHECKED_AT_ONCE)
                offset, length = (
                    np.ascontiguousarray(extents[part], np.int64)
                    for extents in (column.offset, column.length)
                )
                if (row := kernels.first_outside(offset, length, limit)) >= 0:
                    raise self._outside(name, first + row, path)
        return self

    def _outside(self, name: str, row: int, path: str) -> FormatError:
        column = self.fields[name]
        place = self.place(column.file, int(column.offset[row]))
        return FormatError(
            f"field {name!r}, row {row}: {int(column.length[row])} "
            f"bytes do not fit into {self.size_of(column.file)} bytes",
            path if place.file is None else self.files[place.file].name,
            place.offset,
            "the file is truncated or its table is damaged: run `bushel verify` on it",
        )

    def select(self, names: Sequence[str]) -> ShardIndex:
        """Return the table with only these fields."""
        fields = {name: self.fields[name] for name in names if name in self.fields}
        columns = self.columns
        if len(fields) < len(self.fields):
            columns = {
                name: values
                for name, values in columns.items()
                if any(f"{name}.".startswith(f"{field_name}.") for field_name in fields)
            }
        return replace(
            self, fields=fields, labels=labels_of_fields(self.labels, fields), columns=columns
        )


def block_file(
    index: ShardIndex, number: int, file_of: Callable[[int], File], shard: Shard
) -> BlockFile:
    """Open a block file of a shard, given its number, which is at least the number of files.

    Messages name it by the file that holds its first bytes. Small files are closed between reads if
    the shard has very many local ones. `file_of` returns a file of the shard, given its number.
    """
    from bushel.storage.block_file import BlockFile

    from .closed_files import ClosedFiles

    blocks, place = index.blocks[number - len(index.files)], index.place(number, 0)
    mtime_ns = 0 if place.file is None else index.files[place.file].mtime_ns
    closed = None
    if index.has_many_files(shard):
        closed = ClosedFiles(shard, index.files, file_of)
    return BlockFile(shard.locate(place)[0], blocks, file_of, mtime_ns, closed)


def opener(index: ShardIndex, shard: Shard) -> Callable[[int], File]:
    """Return a function that opens a file or block file of a shard, given its number.

    Of very many local files with blocks, none stays open, and each read sees whether its file is
    still the one that the table describes.
    """
    shard = index.shard_with_files(shard)
    if not (index.blocks or index.has_many_files(shard)):
        return cache(shard.open)

    @cache
    def real(number: int) -> File:
        path, stamp = shard.path(number), index.files[number]
        if stamp.mtime_ns and index.closes(number, shard):
            from bushel.storage.fileobject import SmallFile

            return SmallFile(str(path), stamp.size, stamp.mtime_ns)
        return open_file(path)

    def opened(number: int) -> File:
        if number < len(index.files):
            return real(number)
        return block_file(index, number, real, shard)

    return opened
