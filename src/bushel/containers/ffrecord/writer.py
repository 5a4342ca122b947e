"""Writing FFRecord files.

The header comes first and has 12 bytes per record, but the number of records is known only at the
end. So a file is staged as three: `NAME.part`, the records after as much room as the expected
number needs; `NAME.table`, a row per record; and `NAME.folders`, the empty folders of a packed
folder. `finish` makes the file from them without changing them, so a process that is killed
in the meantime can be resumed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bushel import kernels
from bushel._index.builders import IndexBuilder
from bushel._index.table import Shard
from bushel.containers.base import ColumnLimits, Layout, ShardWriter, Stored
from bushel.containers.ffrecord.packed_folder import MAGIC, FolderTree
from bushel.containers.packed_map import encode, is_packed_map
from bushel.containers.stored_column import StoredColumn, fitting, key_rows
from bushel.errors import SpecError, naming
from bushel.spec import Field
from bushel.storage import read_whole

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from bushel.storage import Staging

Form: TypeAlias = Literal["plain", "folder", "maps"]
"""The ways to store samples: as plain values, as the files of a packed folder, or as maps of several fields."""

TABLE_ROW = np.dtype([("crc32", "<u4"), ("offset", "<i8")])
_ROOM = 1 << 26  # limit on the number of records that room is left for
# the pieces of a smaller record are joined, which is faster than to write them one by one
_SMALL = 1 << 14


def staged_names(shard: Shard) -> tuple[str, str, str]:
    """Return the names of the files in which a shard is staged: records, table, and empty folders."""
    return f"{shard.files[0]}.part", f"{shard.files[0]}.table", f"{shard.files[0]}.folders"


def pack_paths(paths: Iterable[str]) -> bytes:
    """Return paths as `NAME.folders` stores them: concatenated, each with a zero byte at its end."""
    return b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)


class FFRecordWriter(ShardWriter):
    """Writes one file: see `ShardWriter`."""

    def __init__(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> None:
        self._shard, self._staging, self._builder = shard, staging, builder
        self._form = self.form(layout)
        self._fields = [column.field for column in layout.columns]
        self._data, self._table, self._empty = (staging.open(name) for name in staged_names(shard))
        if self._data.position == 0:
            self._empty.write(pack_paths(layout.options.folders or ()))
            expected = min(layout.options.expected or 0, _ROOM)
            self._data.truncate(_header_size(expected + (expected > 0 and self._form == "folder")))
        self._folder = self._tree() if self._form == "folder" else None

    @staticmethod
    def form(layout: Layout) -> Form:
        """Return how samples of a layout are stored."""
        if len(layout.columns) > 1 or layout.columns[0].field.sequence:
            return "maps"
        return "folder" if layout.options.keyed else "plain"

    def append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        """Write one sample as one record."""
        if self._form == "maps":
            self._append_map(key, values)
        else:
            [field] = self._fields
            if field.name not in values:
                raise SpecError(
                    f"field {field.name!r} is missing: only ffrecord files of several"
                    " fields allow that"
                )
            if self._folder is not None:
                self._folder.check(key or "")
            value = cast("Buffer", values[field.name])
            if self._folder is None:
                self._check_plain(bytes(memoryview(value)[:16]))
            crc32 = kernels.crc32(value)
            offset = self._record([value], crc32)
            self._builder.columns[field.name].add(offset, self._data.position - offset, crc32)
            if self._folder is not None:
                self._folder.add(key or "")
        self._builder.close_sample(key)

    @property
    def column_limits(self) -> ColumnLimits | None:
        """Plain values that readers cannot confuse with other forms."""
        if self._form == "plain":
            return ColumnLimits(refused_start=MAGIC)
        return None

    def extend(
        self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn], room: int | None
    ) -> int:
        """Write many plain values or files: records are one after another, and the table lists their offsets.

        Maps are written at once if their values are large.
        """
        if self._form == "maps":
            return self._extend_maps(keys, columns, room)
        [(name, values)] = columns.items()
        count = fitting(values.ends + np.arange(1, len(values) + 1) * TABLE_ROW.itemsize, room)
        values = values.rows(0, count).with_sums()
        if self._folder is not None and keys is not None:
            self._add_paths(self._folder, keys.rows(0, count).texts)
        for row in [0, *values.starting_with(MAGIC[:4]).tolist()] if self._folder is None else ():
            self._check_plain(values[row][:16])
        if values.is_large:
            start = self._data.write_pieces([values.content.data])
        else:
            start = self._data.write(values.content.data)
        rows = np.empty(count, TABLE_ROW)
        rows["crc32"] = values.crc32
        rows["offset"] = start + values.ends - values.lengths
        self._table.write(rows.tobytes())
        self._builder.columns[name].add_rows(rows["offset"], values.lengths, values.crc32)
        self._builder.close_samples(count, *key_rows(keys, count))
        return count

    def _extend_maps(
        self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn], room: int | None
    ) -> int:
        if not any(column.is_large for column in columns.values()):
            return 0
        samples = len(next(iter(columns.values())))
        texts: Sequence[str | None] = [None] * samples if keys is None else keys.texts
        pieces = {
            field.name: zip(
                columns[field.name].pieces, columns[field.name].crc32.tolist(), strict=True
            )
            for field in self._fields
        }
        values = [dict(zip(pieces, row, strict=True)) for row in zip(*pieces.values(), strict=True)]
        records = [
            _map_record(key, self._fields, row) for key, row in zip(texts, values, strict=True)
        ]
        count = fitting(np.cumsum([record.size + TABLE_ROW.itemsize for record in records]), room)
        del records[count:]
        start = self._data.write_pieces([piece for record in records for piece in record.pieces])
        rows = np.empty(count, TABLE_ROW)
        rows["crc32"] = [record.crc32 for record in records]
        sizes = np.array([record.size for record in records], np.int64)
        rows["offset"] = start + np.cumsum(sizes) - sizes
        self._table.write(rows.tobytes())
        starts = np.array([record.starts for record in records], np.int64) + rows["offset"][:, None]
        for number, field in enumerate(self._fields):
            stored = columns[field.name].rows(0, count)
            sums = np.array([row[field.name][1] for row in values[:count]], np.uint32)
            self._builder.columns[field.name].add_rows(
                np.ascontiguousarray(starts[:, number]), stored.lengths, sums
            )
        self._builder.close_samples(count, *key_rows(keys, count))
        return count

    def _add_paths(self, folder: FolderTree, paths: Iterable[str]) -> None:
        """Add the next files to the folder; none of them if one cannot be added."""
        try:
            for path in paths:
                folder.add(path)
        except SpecError:
            self._folder = self._tree()
            raise

    def finish(self) -> Sequence[str]:
        """Write the table of a packed folder, then assemble the file."""
        if (tree := self._folder) is not None:
            if tree.files != self._builder.samples:  # after a failed write
                tree = self._tree()
            table = tree.record()
            crc32 = kernels.crc32(table)
            self._record([table], crc32)
        self._data.flush()
        self._table.flush()
        rows = np.frombuffer(read_whole(self._table.path), TABLE_ROW)
        room = int(rows["offset"][0]) if len(rows) else self._data.position
        shift = _header_size(len(rows)) - room
        target = self._staging.path_of(self._shard.files[0])
        target.unlink(missing_ok=True)
        header = _header(rows["crc32"], rows["offset"] + shift)
        if shift or not _link_with_header(self._data.path, target, header):
            _copy_after(self._data.path, room, target, header, sync=self._staging.sync)
        for column in self._builder.columns.values():
            offsets = np.frombuffer(column.offset, np.int64)
            offsets += shift * (np.frombuffer(column.length, np.int64) >= 0)
        return self._shard.files

    def _tree(self) -> FolderTree:
        """Return the files and the empty folders that are staged so far."""
        self._empty.flush()
        empty = read_whole(self._empty.path).split(b"\0")[:-1]
        return FolderTree(
            _keys(self._builder), (path.decode("utf-8", "surrogateescape") for path in empty)
        )

    def _append_map(self, key: str | None, values: Mapping[str, Stored]) -> None:
        packed = encode(key, self._fields, values)
        crc32_of: dict[int, int] = {}  # CRC-32, by the identity of a piece
        if packed.size < _SMALL:
            pieces: list[Buffer] = [b"".join(packed.pieces)]
            sums = [whole := kernels.crc32(pieces[0])]
        else:
            pieces = packed.pieces
            sums, whole = kernels.crc32_pieces(pieces)
            crc32_of.update(zip(map(id, pieces), sums, strict=True))
        offset = self._record(pieces, whole)
        for name, start, value in packed.values:
            known_crc32 = crc32_of.get(id(value))
            crc32 = kernels.crc32(value) if known_crc32 is None else known_crc32
            self._builder.columns[name].add(offset + start, memoryview(value).nbytes, crc32)
        for field in self._fields:
            if field.name not in values:
                self._builder.columns[field.name].mark_absent()

    def _check_plain(self, head: bytes) -> None:
        """Refuse values that would make a reader mistake the form of the file."""
        if head.startswith(MAGIC):
            raise SpecError(
                f"readers of ffrecord would take a value that starts with {MAGIC!r} for the"
                " table"
                " of a packed folder"
            )
        if self._builder.samples == 0 and is_packed_map(head):
            raise SpecError(
                "the first value starts like a packed sample: declare its fields in"
                " the spec instead"
            )

    def _record(self, pieces: Sequence[Buffer], crc32: int) -> int:
        """Write a record and its row of the table, given its CRC-32."""
        offset = self._data.position
        for piece in pieces:
            self._data.write(piece)
        self._table.write(crc32.to_bytes(4, "little") + offset.to_bytes(8, "little"))
        return offset


class _Record(Struct, frozen=True):
    """A sample as one record."""

    pieces: list[memoryview]  # its bytes
    size: int  # number of bytes
    crc32: int  # the CRC-32 of all of them
    starts: list[int]  # where the value of each field begins


def _map_record(
    key: str | None, fields: Sequence[Field], values: Mapping[str, tuple[memoryview, int]]
) -> _Record:
    packed = encode(key, fields, {name: value for name, (value, _) in values.items()})
    # values are pieces of the record as they are
    crc32_of = {id(value): crc32 for value, crc32 in values.values()}
    sums = [
        crc32_of[id(piece)] if id(piece) in crc32_of else kernels.crc32(piece)
        for piece in packed.pieces
    ]
    pieces = [memoryview(piece) for piece in packed.pieces]
    whole = 0
    for piece, crc32 in zip(pieces, sums, strict=True):
        whole = kernels.join_crc32(whole, crc32, piece.nbytes)
    return _Record(pieces, packed.size, whole, [start for _, start, _ in packed.values])


def _keys(builder: IndexBuilder) -> list[str]:
    text, ends = builder.key_text(0, builder.samples)
    borders = pairwise([0, *ends])
    return [text[start:end].decode("utf-8", "surrogateescape") for start, end in borders]


def _header_size(records: int) -> int:
    return 12 + 12 * records


def _header(crc32: npt.NDArray[np.uint32], offset: npt.NDArray[np.int64]) -> bytes:
    tables = len(crc32).to_bytes(8, "little") + crc32.tobytes() + offset.astype("<i8").tobytes()
    return kernels.crc32(tables).to_bytes(4, "little") + tables


def _link_with_header(data: Path, target: Path, header: bytes) -> bool:
    """Write the header into the room left for it and link the file to its name; False where that is impossible."""
    try:
        os.link(data, target)
    except OSError:
        return False
    with naming(target), open(data, "r+b") as file:
        file.write(header)
    return True


def _copy_after(data: Path, start: int, target: Path, header: bytes, *, sync: bool) -> None:
    """Make a file of the header and of the bytes after `start` in another file, inside the kernel where possible."""
    with open(data, "rb") as source, naming(target), open(target, "wb") as sink:
        sink.write(header)
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
