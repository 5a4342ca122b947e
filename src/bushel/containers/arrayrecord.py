"""ArrayRecord: chunks of Riegeli, each with a group of records, and a footer.

Records are extents of the file where chunks are not compressed, and of blocks otherwise: one block
for each chunk. Positions count the bytes of a file without the headers of its blocks, so that nothing
interrupts a chunk. docs/format-arrayrecord.md has the rules. The layout is defined by
https://github.com/google/array_record (`cpp/array_record_writer.cc`) and
https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import I64, NO_NUMBERS, U8, GrowingArrays
from bushel.errors import FormatError, UnsupportedError
from bushel.filters import FilterError, expand
from bushel.filters.riegeli import BLOCK, HEADER, KINDS, SIDE, read_number, sides_of
from bushel.kernels import MappedFile, decode_varints, scan_riegeli
from bushel.spec import Field
from bushel.storage import BlockFile, Blocks, ExtentError, File, Side

from .base import Container, ReadOptions, Report
from .features import codec_of_first_bytes
from .plain_table import PlainField, declared_field, table_of

HINT = "the file is damaged or incomplete: write it again, or fetch it again"
READ_AHEAD = 64
"""Bytes of a chunk that have the numbers before its data."""
ROOM = BLOCK - HEADER
_CHUNK = struct.Struct("<QQQQQ")
_MAGIC = 0x71930E704FDAE05E
_SIMPLE, _TRANSPOSED = ord("r"), ord("t")
_TOGETHER = 1 << 15  # chunks that are handled together
_LARGEST = 1 << 61

P = TypeVar("P", int, I64)


def place_of(position: P) -> P:
    """Return the offset of the byte at a position, or of each of some."""
    return position // ROOM * BLOCK + HEADER + position % ROOM


def position_of(offset: int) -> int:
    """Return the position of the first byte at or after an offset that is not in a header."""
    block, inside = divmod(offset, BLOCK)
    return block * ROOM + max(inside - HEADER, 0)


class Reader:
    """Reads bytes by position."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = position_of(file.size)

    def read(self, position: int, length: int) -> bytes:
        """Return some bytes. Raise ValueError if they are not all inside the file."""
        if length > self.size - position:
            raise ValueError(
                f"{length} bytes are expected, and {max(self.size - position, 0)} are left"
            )
        offset, parts = place_of(position), []
        while length > 0:
            piece = min(length, BLOCK - offset % BLOCK)
            parts.append(self.file.read(offset, piece))
            length -= piece
            offset += piece + HEADER
        return b"".join(parts)


class Chunks(NamedTuple):
    """Chunks with records, an element of each array for each chunk."""

    start: I64  # int64[chunks], where the data begin
    length: I64  # int64[chunks], bytes of the data
    records: I64  # int64[chunks], number of records, at least 1
    expanded: I64  # int64[chunks], bytes of all records
    sizes: I64  # int64[chunks], stored bytes of the lengths of the records
    values: I64  # int64[chunks], where the first record begins, after these lengths
    compression: U8  # uint8[chunks], the byte that stands for it; 0 for none


class _Chunk(NamedTuple):
    """A chunk: its kind, where its data begin, their bytes, the records, and the bytes of all records."""

    kind: int
    start: int
    length: int
    records: int
    expanded: int


def _chunk_at(reader: Reader, position: int) -> tuple[_Chunk, int]:
    """Return the chunk at a position, and the position after it. Raise FormatError if it is not inside the file."""
    try:
        _, length, _, kind, expanded = _CHUNK.unpack(reader.read(position, _CHUNK.size))
    except ValueError as error:
        raise FormatError(
            f"expected the header of a chunk: {error}", reader.file.path, place_of(position), HINT
        ) from error
    start, records = position + _CHUNK.size, kind >> 8
    if length > reader.size - start:
        raise FormatError(
            f"a chunk of {length} bytes goes beyond the end of the file",
            reader.file.path,
            place_of(position),
            HINT,
        )
    end = start + length
    # a chunk covers a byte of the file for each record, so that each has a place
    if records > length:
        end = max(end, position_of(place_of(position) + records))
    return _Chunk(kind & 0xFF, start, length, records, expanded), end


def chunks_of(reader: Reader) -> Iterator[Chunks]:
    """Yield the chunks that have records, up to the footer: many together of local files.

    Raises:
        FormatError: The end of the file has no position of the footer, the chunks do not lead to
            it, or one is damaged.
    """
    footer, position = _footer(reader), 0
    while position < footer:
        before = position
        if isinstance(reader.file, MappedFile):
            try:
                scanned = scan_riegeli(reader.file, position, footer, _TOGETHER)
            except ExtentError as error:
                raise FormatError(
                    "the file shrank while it was read", reader.file.path, error.found
                ) from error
            position = scanned.end
            if len(scanned.start):
                yield Chunks(*(getattr(scanned, name) for name in Chunks._fields))
        if position == before:  # of a file that is not local, or unusual
            chunk, position = _chunk_at(reader, position)
            if single := _one(reader, chunk):
                yield single
    if position != footer:
        raise FormatError(
            f"its chunks end at {place_of(position)}, and its footer begins at {place_of(footer)}",
            reader.file.path,
            hint=HINT,
        )


def _one(reader: Reader, chunk: _Chunk) -> Chunks | None:
    """Return a chunk that has records, else None. Raise FormatError if it is transposed or damaged."""
    if chunk.kind == _TRANSPOSED:
        raise FormatError(
            "its chunks are transposed, which is not read",
            reader.file.path,
            place_of(chunk.start),
            "write it again with the package array_record, without the option transpose",
        )
    if chunk.kind != _SIMPLE or not chunk.records:
        return None
    try:
        compression, size, values = _head(reader, chunk)
    except ValueError as error:
        raise damaged(reader, chunk.start, chunk.records, error) from error
    numbers = chunk.start, chunk.length, chunk.records, chunk.expanded, size, values
    columns = [*np.array(numbers, np.int64).reshape(6, 1), np.array([compression], np.uint8)]
    return Chunks(*columns)


def _head(reader: Reader, chunk: _Chunk) -> tuple[int, int, int]:
    """Return the compression of a chunk, the bytes of the lengths of its records, and where its first record begins.

    Raises:
        ValueError: It is damaged.
    """
    head = reader.read(chunk.start, min(chunk.length, READ_AHEAD))
    size, at = read_number(head, 1)
    if head[0] not in (0, *KINDS) or size > chunk.length - at:
        raise ValueError(
            f"its compression is {head[0]}, and the lengths of its records take {size} bytes"
        )
    if not head[0] and chunk.length - at - size != chunk.expanded:
        raise ValueError(
            f"it has {chunk.length - at - size} bytes of records, expected {chunk.expanded}"
        )
    if max(chunk.records, chunk.expanded) > _LARGEST:
        raise ValueError(f"it cannot have {chunk.records} records of {chunk.expanded} bytes")
    return head[0], size, chunk.start + at + size


def damaged(reader: Reader, start: int, records: int, error: Exception) -> FormatError:
    """Return the error of a chunk that is damaged."""
    return FormatError(
        f"the chunk of {records} records is damaged: {error}",
        reader.file.path,
        place_of(start),
        HINT,
    )


def _footer(reader: Reader) -> int:
    """Return the position of the footer, which the chunk at the start of the last block has."""
    file = reader.file
    last = file.size - BLOCK
    if last < 0 or file.size % BLOCK:
        raise FormatError(
            f"an ArrayRecord file has blocks of {BLOCK} bytes, but this one has {file.size} bytes",
            file.path,
            hint=HINT,
        )
    try:
        chunk, _ = _chunk_at(reader, position_of(last))
        data = reader.read(chunk.start, min(chunk.length, READ_AHEAD))
        sizes, at = read_number(data, 1)
        offset, at = read_number(data, at + sizes + 1)
        magic, _ = read_number(data, at + 1)
    except ValueError as error:
        raise FormatError(
            f"the end does not say where the footer is: {error}", file.path, last, HINT
        ) from error
    if magic != _MAGIC or offset > last:
        message = (
            f"expected the mark {_MAGIC:#x} at the end of an ArrayRecord file, found {magic:#x}"
        )
        raise FormatError(message, file.path, last, HINT)
    return position_of(offset)


_FIELD = "data"
_FEATURES = "features.json"  # which TensorFlow Datasets writes beside its files
_BATCH = 1024


class _ArrayRecord(Container):
    name = "arrayrecord"

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the records of one file are. The headers of all chunks are read.

        Raises:
            UnsupportedError: They are Examples of TensorFlow Datasets, and no type is declared for
                all of a record.
        """
        if _FIELD not in (options.spec or ()) and (shard.root / _FEATURES).exists():
            raise UnsupportedError(
                f"{shard.path(0)}: each record is a tf.train.Example, as {_FEATURES} beside it says,"
                " and its features are only read in TFRecord files: bushel.pack(tfds.data_source(…))"
                f" decodes them, and spec={{{_FIELD!r}: 'bytes'}} reads whole records"
            )
        stored = shard.open()
        reader = Reader(stored)
        records = Records(reader)
        for chunks in chunks_of(reader):
            records.add(chunks)
        options.report(stored.size)
        blocks, offset, length = records.finish()
        blocks.check(stored.path, [stored.size])
        file = BlockFile.over(stored, blocks)
        try:
            field = declared_field(options.spec, stored.path)
            field = field or Field(_FIELD, codec_of_first_bytes(file, offset, length))
        except ExtentError as error:
            raise FormatError(str(error), stored.path, hint=HINT) from error
        place = PlainField(field.type, offset, length, file=len(shard.files))
        return table_of(self.name, shard, len(length), {field.name: place}, blocks=(blocks,))

    def check_stored(self, shard: Shard, report: Report) -> Iterator[FormatError]:
        """Compare the hashes of all chunks, by reading every record with the package array_record."""
        path = shard.path(0)
        try:
            module: Any = import_module("array_record.python.array_record_module")
        except ImportError:
            module = None
        if module is None or not isinstance(path, Path):
            if module:
                what = "only local files are compared"
            else:
                what = "pip install 'bushel[arrayrecord]'"
            warnings.warn(
                f"{path}: the hashes of its chunks were not compared: {what}",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        try:
            with closing(module.ArrayRecordReader(str(path))) as reader:
                for first in range(0, reader.num_records(), _BATCH):
                    rows = list(range(first, min(first + _BATCH, reader.num_records())))
                    report(sum(map(len, reader.read(rows))))
        except (RuntimeError, ValueError, IndexError, OSError) as error:
            yield FormatError(f"array_record cannot read it: {error}", path, hint=HINT)


CONTAINER = _ArrayRecord()


class Records:
    """The records and the blocks of the chunks so far."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._arrays = reader, GrowingArrays()
        self._position = self._record = self._side = 0
        none, no_bytes = NO_NUMBERS, NO_NUMBERS.view(np.uint8)
        self._arrays.add(length=none, record=none, start=none, offset=none, stored=none)
        self._arrays.add(filter=no_bytes, side=no_bytes, file=np.empty(0, np.int32))
        self._arrays.add(side_end=np.zeros(1, np.int64))

    def add(self, chunks: Chunks) -> None:
        """Add the records of some chunks. Raise FormatError if the lengths of the records of a chunk are damaged."""
        length = self._lengths(chunks)
        ends = self._record + np.cumsum(length)
        self._arrays.add(length=length, record=ends - length)
        self._record = int(ends[-1])
        last, compressed = chunks.start + chunks.length, chunks.compression > 0
        pieces = np.where(compressed, 1, -(-(chunks.values % ROOM + last - chunks.values) // ROOM))
        pieces[~compressed & (last == chunks.values)] = 0
        if not (total := int(pieces.sum())):
            return
        chunk = np.repeat(np.arange(len(pieces)), pieces)
        # of the piece in its chunk
        number = np.arange(total) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        block = chunks.values[chunk] // ROOM + number
        begin = np.where(number == 0, chunks.values[chunk], block * ROOM)
        end = np.where(compressed[chunk], last[chunk], np.minimum(last[chunk], (block + 1) * ROOM))
        self._add_blocks(begin, end, chunks.compression[chunk], chunks.expanded[chunk])
        self._arrays.share = int(last[-1]) / self._reader.size

    def _add_blocks(self, begin: I64, end: I64, compression: U8, expanded: I64) -> None:
        """Add blocks that are between these positions."""
        compressed, offset = compression > 0, place_of(begin)
        stored = np.where(end > begin, place_of(end - 1) + 1 - offset, 0)
        sizes = np.where(compressed, expanded, stored)
        ends = self._position + np.cumsum(sizes)
        side = sides_of(compression[compressed], offset[compressed]).reshape(-1)
        side_ends = self._side + np.cumsum(SIDE * compressed.astype(np.int64))
        self._arrays.add(
            start=ends - sizes,
            file=np.zeros(len(begin), np.int32),
            offset=offset,
            stored=stored,
            filter=compressed.astype(np.uint8),
            side=side,
            side_end=side_ends,
        )
        self._position, self._side = int(ends[-1]), int(side_ends[-1])

    def _lengths(self, chunks: Chunks) -> I64:
        """Return the length of each record. Raise FormatError if they are damaged."""
        many = np.flatnonzero(chunks.records > 1).tolist()
        if not many:
            return chunks.expanded.copy()
        lengths = np.split(chunks.expanded, len(chunks.expanded))
        for row in many:
            try:
                lengths[row] = self._lengths_of(chunks, row)
            except (ValueError, FilterError) as error:
                start, records = int(chunks.start[row]), int(chunks.records[row])
                raise damaged(self._reader, start, records, error) from error
        return np.concatenate(lengths)

    def _lengths_of(self, chunks: Chunks, row: int) -> I64:
        """Return the lengths of the records of one chunk.

        Raises:
            ValueError, FilterError: They are damaged.
        """
        _, _, records, expanded, size, values, kind = (int(column[row]) for column in chunks)
        data = self._reader.read(values - size, size)
        if kind:
            size, at = read_number(data)
            if size > 10 * records:
                raise ValueError(f"the lengths of {records} records are said to take {size} bytes")
            data = expand(KINDS[kind], data[at:], size).tobytes()
        lengths = decode_varints(data)
        ends = np.cumsum(lengths)
        total = int(ends[-1:].sum())
        within = (lengths >= 0) & (lengths <= expanded)
        if len(lengths) != records or total != expanded or not within.all():
            raise ValueError(f"its {len(lengths)} records have {total} bytes, expected {expanded}")
        if (ends < 0).any():  # their sum has more than 63 bits
            raise ValueError(f"its {len(lengths)} records have more than {expanded} bytes")
        return lengths

    def finish(self) -> tuple[Blocks, I64, I64]:
        """Return the block file of all records, and the offset and the length of each record in it."""
        self._arrays.add(start=np.array([self._position], np.int64))
        arrays = self._arrays.finish()
        side = Side(arrays["side_end"], arrays["side"]) if len(arrays["side"]) else None
        blocks = Blocks(
            arrays["start"],
            arrays["file"],
            arrays["offset"],
            arrays["stored"],
            arrays["filter"],
            ("stored", "riegeli"),
            side,
        )
        return blocks, arrays["record"], arrays["length"]
