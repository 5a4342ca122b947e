"""ArrayRecord: chunks of Riegeli, each with a group of records, and a footer.

Records are extents of the file where chunks are not compressed, and of blocks otherwise: one block for each chunk.
docs/format-arrayrecord.md has what is read. The layout is that of https://github.com/google/array_record
(`cpp/array_record_writer.cc`) and https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._index.table import Shard, ShardIndex
from bushel.containers.arrayrecord.chunks import HINT, READ_AHEAD, ROOM, Chunk, Reader, chunks_of, place_of
from bushel.containers.base import ReadOptions, Report
from bushel.containers.first_bytes import codec_of_first_bytes
from bushel.containers.plain_table import PlainField, table_of
from bushel.errors import FormatError, SpecError
from bushel.filters import FilterError, expand
from bushel.filters.riegeli import KINDS, read_number, side_of
from bushel.spec import Field
from bushel.storage import AnyPath, BlockFile, Blocks, ExtentError, File, Side, open_file

__all__ = ["CONTAINER"]

_NAME = re.compile(r".*\.array_?record(-[0-9]+-of-[0-9]+)?", re.DOTALL)
_FIELD = "data"
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class _ArrayRecord:
    name: str = "arrayrecord"
    suffixes: tuple[str, ...] = (".array_record", ".array_record-#-of-#", ".arrayrecord", ".arrayrecord-#-of-#")

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of a file, or those of a folder."""
        if not path.is_dir():
            return [Shard(path.parent, path.name, (path.name,))] if _NAME.fullmatch(path.name) else None
        names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
        return [Shard(path, name, (name,)) for name in names if _NAME.fullmatch(name)] or None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the records of one file lie. The headers of all chunks are read."""
        stored = open_file(shard.path(0))
        found = _Found()
        reader = Reader(stored)
        for chunk in chunks_of(reader):
            try:
                found.add(reader, chunk)
            except (ValueError, FilterError) as error:
                message = f"the chunk of {chunk.records} records is damaged: {error}"
                raise FormatError(message, file=stored.path, offset=place_of(chunk.start), hint=HINT) from error
        if options.report is not None:
            options.report(stored.size)
        blocks = found.blocks().check(stored.path, [stored.size])
        length = np.array(found.lengths, np.int64)
        offset = np.cumsum(length) - length
        file = BlockFile(stored.path, blocks, lambda _: stored, stored.mtime_ns)
        try:
            own = _declared(options, stored) or Field(_FIELD, codec_of_first_bytes(file, offset, length))
        except ExtentError as error:
            raise FormatError(str(error), file=stored.path, hint=HINT) from error
        place = PlainField(own.type, offset, length, file=len(shard.files))
        return table_of(self.name, shard, len(length), {own.name: place}, blocks=(blocks,))

    def check_stored(self, shard: Shard, report: Report) -> Iterator[FormatError]:
        """Compare the hashes of all chunks, by reading every record with the package array_record."""
        path = shard.path(0)
        try:
            module: Any = import_module("array_record.python.array_record_module")
        except ImportError:
            module = None
        if module is None or not isinstance(path, Path):
            what = "only local files are compared" if module else "pip install 'bushel[arrayrecord]'"
            warnings.warn(f"{path}: the hashes of its chunks were not compared: {what}", RuntimeWarning, stacklevel=2)
            return
        try:
            reader = module.ArrayRecordReader(str(path))
            try:
                for first in range(0, reader.num_records(), _BATCH):
                    rows = list(range(first, min(first + _BATCH, reader.num_records())))
                    report(sum(map(len, reader.read(rows))))
            finally:
                reader.close()
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            yield FormatError(f"array_record cannot read it: {error}", file=str(path), hint=HINT)


CONTAINER = _ArrayRecord()


def _declared(options: ReadOptions, file: File) -> Field | None:
    if options.spec is None:
        return None
    own = next(iter(options.spec.values()), None)
    if own is None or len(options.spec) > 1 or own.sequence:
        raise SpecError(f"{file.path} has one plain field: spec= names another number or a sequence")
    return own


@dataclass(slots=True)
class _Found:
    """The records and the blocks of the chunks so far."""

    lengths: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    offsets: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    sides: list[bytes] = field(default_factory=list)

    def add(self, reader: Reader, chunk: Chunk) -> None:
        """Add the records of a chunk.

        Raises:
            ValueError, FilterError: It is damaged.
        """
        head = reader.read(chunk.start, min(chunk.length, READ_AHEAD))
        size, at = read_number(head, 1)
        if head[0] not in (0, *KINDS) or size > chunk.length - at:
            raise ValueError(f"its compression is {head[0]}, and the lengths of its records take {size} bytes")
        lengths = [chunk.expanded]
        if chunk.records > 1:
            lengths = _numbers(reader.read(chunk.start + at, size), head[0], chunk)
        if len(lengths) != chunk.records or sum(lengths) != chunk.expanded:
            raise ValueError(f"its {len(lengths)} records have {sum(lengths)} bytes, expected {chunk.expanded}")
        first, last = chunk.start + at + size, chunk.start + chunk.length
        self.lengths += lengths
        if head[0]:
            offset = place_of(first)
            self._add(offset, (place_of(last - 1) + 1 if last > first else offset) - offset, chunk.expanded)
            self.sides[-1] = side_of(head[0], offset)
            return
        if last - first != chunk.expanded:
            raise ValueError(f"it has {last - first} bytes of records, expected {chunk.expanded}")
        while first < last:
            piece = min(last - first, ROOM - first % ROOM)
            self._add(place_of(first), piece, piece)
            first += piece

    def _add(self, offset: int, stored: int, size: int) -> None:
        self.starts.append(self.starts[-1] + size)
        self.offsets.append(offset)
        self.stored.append(stored)
        self.sides.append(b"")

    def blocks(self) -> Blocks:
        """Return the block file of all records."""
        filters: npt.NDArray[np.uint8] = np.array([bool(side) for side in self.sides], np.uint8)
        ends = np.cumsum([0, *map(len, self.sides)], dtype=np.int64)
        return Blocks(
            np.array(self.starts, np.int64),
            np.zeros(len(self.offsets), np.int32),
            np.array(self.offsets, np.int64),
            np.array(self.stored, np.int64),
            filters,
            ("stored", "riegeli"),
            Side(ends, np.frombuffer(b"".join(self.sides), np.uint8)) if filters.any() else None,
        )


def _numbers(data: bytes, kind: int, chunk: Chunk) -> list[int]:
    """Return the lengths of the records of a chunk.

    Raises:
        ValueError, FilterError: They are damaged.
    """
    if kind:
        size, at = read_number(data)
        if size > 10 * chunk.records:
            raise ValueError(f"the lengths of {chunk.records} records are said to take {size} bytes")
        data = expand(KINDS[kind], data[at:], size).tobytes()
    found, at = [], 0
    while at < len(data):
        number, at = read_number(data, at)
        found.append(number)
    return found
