"""Writing FFRecord files.

The header comes first and has 12 bytes per record, but the number of records is known only at the
end. So a file is staged as two: `NAME.part`, the records after as much room as the expected number
needs; and `NAME.table`, a row per record. `finish` makes the file from them piece by piece, so that
the memory of a writer is that of its index.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
from msgspec import Struct
from typing_extensions import Buffer

from bushel import kernels
from bushel._index.builders import IndexBuilder
from bushel._index.shard import Shard
from bushel.containers.base import Layout, ShardWriter, Values
from bushel.containers.packed_map import encode, mark_absent, refuse_map
from bushel.containers.stored_column import ColumnLimits, StoredColumn, StoredColumns, fitting
from bushel.errors import SpecError, naming

from .packed_folder import MAGIC, FolderPaths, write_table

if TYPE_CHECKING:
    from bushel.storage import Staging

Form: TypeAlias = Literal["plain", "folder", "maps"]
"""The ways to store samples: as plain values, as the files of a packed folder, or as maps of several fields."""

TABLE_ROW, _ROW = np.dtype([("crc32", "<u4"), ("offset", "<i8")]), struct.Struct("<Iq")
_ROOM = 1 << 26  # limit on the number of records that room is left for
_ROWS = 1 << 16  # records that are looked at together
# the pieces of a smaller record are joined, which is faster than to write them one by one
_SMALL = 1 << 14


def staged_names(shard: Shard) -> tuple[str, str]:
    """Return the names of the files in which a shard is staged: records and table."""
    return f"{shard.files[0]}.part", f"{shard.files[0]}.table"


class FFRecordWriter(ShardWriter):
    """Writes one file: see `ShardWriter`.

    `empty` has the folders of a packed folder that are kept although they hold no file.
    """

    def __init__(
        self,
        layout: Layout,
        shard: Shard,
        staging: Staging,
        builder: IndexBuilder,
        empty: Sequence[str],
    ) -> None:
        self._shard, self._staging, self._builder, self._empty = shard, staging, builder, empty
        self._form = self.form(layout)
        self._fields = [column.field for column in layout.columns]
        self._data, self._table = (staging.open(name) for name in staged_names(shard))
        if self._data.position == 0:
            expected = min(layout.options.expected or 0, _ROOM)
            self._data.truncate(_header_size(expected + (expected > 0 and self._form == "folder")))
        if self._form == "folder":
            self._known_paths = FolderPaths(empty, self._written_paths)

    @staticmethod
    def form(layout: Layout) -> Form:
        """Return how samples of a layout are stored."""
        if len(layout.columns) > 1 or layout.columns[0].field.sequence:
            return "maps"
        return "folder" if layout.options.keyed else "plain"

    def append(self, key: str | None, values: Values) -> None:
        """Write one sample as one record."""
        if self._form == "maps":
            self._append_map(key, values)
        else:
            [field] = self._fields
            value = cast("Buffer", values[field.name])
            if self._form == "folder":
                self._paths.add_all([key or ""])
            else:
                self._check_plain(bytes(memoryview(value)[:16]))
            crc32 = kernels.crc32(value)
            offset = self._record([value], crc32)
            self._builder.columns[field.name].add(offset, self._data.position - offset, crc32)
        self._builder.close_sample(key)

    @property
    def _paths(self) -> FolderPaths:
        """The paths of the samples so far."""
        if self._known_paths.files != self._builder.samples:  # after a failed write
            self._known_paths = FolderPaths(self._empty, self._written_paths)
        return self._known_paths

    def _written_paths(self) -> Iterator[list[str]]:
        text, offsets = self._builder.key_arrays()
        for first in range(0, self._builder.samples, _ROWS):
            rows = np.arange(first, min(first + _ROWS, self._builder.samples))
            yield kernels.decode_keys(text, offsets, rows)

    @property
    def column_limits(self) -> ColumnLimits | None:
        """Plain values that readers cannot confuse with other forms."""
        if self._form == "plain":
            return ColumnLimits(refused_start=MAGIC)
        return None

    def extend(self, keys: StoredColumn | None, columns: StoredColumns, room: int | None) -> int:
        """Write many plain values or files: records are one after another, and the table lists their offsets.

        Maps are written at once if their values are large.
        """
        if self._form == "maps":
            return self._extend_maps(keys, columns, room)
        [(name, values)] = columns.items()
        count = fitting(values.ends + np.arange(1, len(values) + 1) * TABLE_ROW.itemsize, room)
        values = values.rows(0, count)
        if self._form == "folder" and keys is not None:
            self._paths.add_all(keys.rows(0, count).texts)
        else:
            for row in (0, *values.starting_with(MAGIC[:4]).tolist()):
                self._check_plain(values[row][:16])
        if values.is_large:
            start = self._data.write_pieces([values.content.data])
        else:
            start = self._data.write(values.content.data)
        rows = np.empty(count, TABLE_ROW)
        rows["crc32"] = checksums = values.crc32
        rows["offset"] = start + values.ends - values.lengths
        self._table.write(rows.tobytes())
        self._builder.columns[name].add_rows(rows["offset"], values.lengths, checksums)
        self._builder.close_samples(count, keys)
        return count

    def _extend_maps(
        self, keys: StoredColumn | None, columns: StoredColumns, room: int | None
    ) -> int:
        if not any(column.is_large for column in columns.values()):
            return 0
        texts: Iterable[str | None] = repeat(None) if keys is None else keys.texts
        rows = zip(*(columns[field.name].pieces for field in self._fields), strict=True)
        names = [field.name for field in self._fields]
        records = [
            encode(key, self._fields, dict(zip(names, row, strict=True)))
            for key, row in zip(texts, rows, strict=False)
        ]
        sizes = np.array([record.size for record in records], np.int64)
        ends = np.cumsum(sizes)
        count = fitting(ends + np.arange(1, len(records) + 1) * TABLE_ROW.itemsize, room)
        del records[count:]
        lengths = [columns[name].lengths[:count] for name in names]
        sums = [columns[name].rows(0, count).crc32 for name in names]
        start = self._data.write_pieces(
            [memoryview(piece) for record in records for piece in record.pieces]
        )
        table = np.empty(count, TABLE_ROW)
        table["crc32"] = [
            _joined_crc32(record.pieces, sums_of_values)
            for record, sums_of_values in zip(records, np.stack(sums, 1).tolist(), strict=True)
        ]
        table["offset"] = start + (ends - sizes)[:count]
        self._table.write(table.tobytes())
        places = np.array(
            [[start for _, start, _ in record.values] for record in records], np.int64
        )
        for number, name in enumerate(names):
            self._builder.columns[name].add_rows(
                table["offset"] + places[:, number], lengths[number], sums[number]
            )
        self._builder.close_samples(count, keys)
        return count

    def finish(self) -> Sequence[str]:
        """Write the table of a packed folder, then assemble the file."""
        if self._form == "folder":
            self._write_folder_table()
        self._data.flush()
        self._table.flush()
        records, table = self._table.position // TABLE_ROW.itemsize, self._table.path
        room = self._data.position
        if records:
            room = int(np.fromfile(table, TABLE_ROW, 1)["offset"][0])
        shift = _header_size(records) - room
        target = self._staging.path_of(self._shard.files[0])
        target.unlink(missing_ok=True)
        header = _Header(table, records, shift)
        if shift or not _link_with_header(self._data.path, target, header):
            _copy_after(self._data.path, room, target, header, sync=self._staging.sync)
        for column in self._builder.columns.values():
            offsets, lengths = (
                np.frombuffer(values, np.int64) for values in (column.offset, column.length)
            )
            np.add(offsets, shift, out=offsets, where=lengths >= 0)
        return self._shard.files

    def _write_folder_table(self) -> None:
        offset, crc32 = self._data.position, 0

        def write(piece: bytes) -> None:
            nonlocal crc32
            self._data.write(piece)
            crc32 = kernels.crc32(piece, crc32)

        write_table(write, *self._builder.key_arrays(), self._empty)
        self._table.write(np.array((crc32, offset), TABLE_ROW).tobytes())

    def _append_map(self, key: str | None, values: Values) -> None:
        packed = encode(key, self._fields, values)
        if packed.size < _SMALL:
            pieces: list[Buffer] = [b"".join(packed.pieces)]
            whole = kernels.crc32(pieces[0])
            sums = [kernels.crc32(value) for _, _, value in packed.values]
        else:
            pieces = packed.pieces
            sums, whole = kernels.crc32_pieces(pieces)
            sums = sums[1::2]  # of the values, which follow their heads
        offset = self._record(pieces, whole)
        for (name, start, value), crc32 in zip(packed.values, sums, strict=True):
            self._builder.columns[name].add(offset + start, memoryview(value).nbytes, crc32)
        mark_absent(self._builder, values)

    def _check_plain(self, head: bytes) -> None:
        """Refuse values that would make a reader mistake the form of the file."""
        if head.startswith(MAGIC):
            raise SpecError(
                "readers of ffrecord would take a value that starts "
                f"with {MAGIC!r} for the table of a packed folder"
            )
        refuse_map(self._builder, head)

    def _record(self, pieces: Sequence[Buffer], crc32: int) -> int:
        """Write a record and its row of the table, given its CRC-32."""
        offset = self._data.position
        for piece in pieces:
            self._data.write(piece)
        self._table.write(_ROW.pack(crc32, offset))
        return offset


def _joined_crc32(pieces: Sequence[Buffer], sums: Sequence[int]) -> int:
    """Return the CRC-32 of a record whose values, each after its head, have these."""
    whole = 0
    for head, value, crc32 in zip(pieces[::2], pieces[1::2], sums, strict=True):
        whole = kernels.join_crc32(whole, kernels.crc32(head), memoryview(head).nbytes)
        whole = kernels.join_crc32(whole, crc32, memoryview(value).nbytes)
    return whole


def _header_size(records: int) -> int:
    return 12 + 12 * records


class _Header(Struct, frozen=True):
    """The header of a file, which is made in pieces."""

    table: Path  # the file with a row per record
    records: int  # their number
    shift: int  # bytes that are added to each offset

    def write(self, file: IO[bytes]) -> None:
        """Write it at the start of a file."""
        checksum = 0
        for piece in self._tables():
            checksum = kernels.crc32(piece, checksum)
        file.write(checksum.to_bytes(4, "little"))
        file.writelines(self._tables())

    def _tables(self) -> Iterator[bytes]:
        yield self.records.to_bytes(8, "little")
        for name, shift in (("crc32", 0), ("offset", self.shift)):
            for first in range(0, self.records, _ROWS):
                start = first * TABLE_ROW.itemsize
                rows = np.fromfile(self.table, TABLE_ROW, _ROWS, offset=start)
                yield (rows[name] + rows[name].dtype.type(shift)).tobytes()


def _link_with_header(data: Path, target: Path, header: _Header) -> bool:
    """Write the header into the room left for it and link the file to its name; False where that is impossible."""
    try:
        os.link(data, target)
    except OSError:
        return False
    with naming(target), open(data, "r+b") as file:
        header.write(file)
    return True


def _copy_after(data: Path, start: int, target: Path, header: _Header, *, sync: bool) -> None:
    """Make a file of the header and of the bytes after `start` in another file, inside the kernel where possible."""
    with open(data, "rb") as source, naming(target), open(target, "wb") as sink:
        header.write(sink)
        sink.flush()
        at, end = start, os.fstat(source.fileno()).st_size
        try:
            while at < end:
                at += os.copy_file_range(source.fileno(), sink.fileno(), end - at, at)
        except (AttributeError, OSError):  # not supported by this system or file system
            source.seek(at)
            shutil.copyfileobj(source, sink, 1 << 22)
            sink.flush()
        if sync:
            os.fsync(sink.fileno())
