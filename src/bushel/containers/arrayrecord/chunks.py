"""The chunks of an ArrayRecord file, up to its footer.

Positions count the bytes of a file without the headers of its blocks, so that nothing interrupts a
chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from bushel._runtime.arrays import I64, U8
from bushel.errors import FormatError
from bushel.filters.riegeli import BLOCK, HEADER, KINDS, read_number
from bushel.kernels import MappedFile, scan_riegeli
from bushel.storage import ExtentError, File

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
        if len(parts) == 1:
            return parts[0]
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
        message = f"expected the header of a chunk: {error}"
        raise FormatError(message, reader.file.path, place_of(position), HINT) from error
    start, records = position + _CHUNK.size, kind >> 8
    if length > reader.size - start:
        message = f"a chunk of {length} bytes goes beyond the end of the file"
        raise FormatError(message, reader.file.path, place_of(position), HINT)
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
                message = "the file shrank while it was read"
                raise FormatError(message, reader.file.path, error.found) from error
            position = scanned.end
            if len(scanned.start):
                yield Chunks(*(getattr(scanned, name) for name in Chunks._fields))
        if position == before:  # of a file that is not local, or unusual
            chunk, position = _chunk_at(reader, position)
            if single := _one(reader, chunk):
                yield single
    if position != footer:
        message = (
            f"its chunks end at {place_of(position)}, and its footer begins at {place_of(footer)}"
        )
        raise FormatError(message, reader.file.path, hint=HINT)


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
    row = np.array(
        [chunk.start, chunk.length, chunk.records, chunk.expanded, size, values], np.int64
    ).reshape(6, 1)
    return Chunks(row[0], row[1], row[2], row[3], row[4], row[5], np.array([compression], np.uint8))


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
    message = f"the chunk of {records} records is damaged: {error}"
    return FormatError(message, reader.file.path, place_of(start), HINT)


def _footer(reader: Reader) -> int:
    """Return the position of the footer, which the chunk at the start of the last block has."""
    file = reader.file
    last = file.size - BLOCK
    if last < 0 or file.size % BLOCK:
        message = (
            f"an ArrayRecord file has blocks of {BLOCK} bytes, but this one has {file.size} bytes"
        )
        raise FormatError(message, file.path, hint=HINT)
    try:
        chunk, _ = _chunk_at(reader, position_of(last))
        data = reader.read(chunk.start, min(chunk.length, READ_AHEAD))
        sizes, at = read_number(data, 1)
        offset, at = read_number(data, at + sizes + 1)
        magic, _ = read_number(data, at + 1)
    except ValueError as error:
        message = f"the end does not say where the footer is: {error}"
        raise FormatError(message, file.path, last, HINT) from error
    if magic != _MAGIC or offset > last:
        message = (
            f"expected the mark {_MAGIC:#x} at the end of an ArrayRecord file, found {magic:#x}"
        )
        raise FormatError(message, file.path, last, HINT)
    return position_of(offset)
