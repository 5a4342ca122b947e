"""The chunks of an ArrayRecord file, up to its footer.

Positions count the bytes of a file without the headers of its blocks, so that nothing interrupts a chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from bushel.errors import FormatError
from bushel.filters.riegeli import BLOCK, HEADER, read_number
from bushel.storage import File

__all__ = ["HINT", "READ_AHEAD", "ROOM", "Chunk", "Reader", "chunks_of", "place_of"]

HINT = "the file is damaged or incomplete: write it again, or fetch it again"
READ_AHEAD = 64
"""Bytes of a chunk that have the numbers before its data."""
ROOM = BLOCK - HEADER
_CHUNK = struct.Struct("<QQQQQ")
_MAGIC = 0x71930E704FDAE05E
_SIMPLE, _TRANSPOSED = ord("r"), ord("t")


def place_of(position: int) -> int:
    """Return the offset of the byte at a position."""
    block, inside = divmod(position, ROOM)
    return block * BLOCK + HEADER + inside


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
        """Return some bytes.

        Raises:
            ValueError: They are not all inside the file.
        """
        if length > self.size - position:
            raise ValueError(f"{length} bytes are expected, and {max(self.size - position, 0)} are left")
        offset, parts = place_of(position), []
        while length > 0:
            piece = min(length, BLOCK - offset % BLOCK)
            parts.append(self.file.read(offset, piece))
            length -= piece
            offset += piece + HEADER
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Chunk(NamedTuple):
    """A chunk: its kind, where its data begin, their bytes, the records, and the bytes of all records."""

    kind: int
    start: int
    length: int
    records: int
    expanded: int


def _chunk_at(reader: Reader, position: int) -> tuple[Chunk, int]:
    """Return the chunk at a position, and the position after it.

    Raises:
        FormatError: It is not inside the file.
    """
    try:
        _, length, _, kind, expanded = _CHUNK.unpack(reader.read(position, _CHUNK.size))
    except ValueError as error:
        message = f"expected the header of a chunk: {error}"
        raise FormatError(message, file=reader.file.path, offset=place_of(position), hint=HINT) from error
    start, records = position + _CHUNK.size, kind >> 8
    if length > reader.size - start:
        message = f"a chunk of {length} bytes goes beyond the end of the file"
        raise FormatError(message, file=reader.file.path, offset=place_of(position), hint=HINT)
    end = start + length
    if records > length:  # a chunk covers a byte of the file for each record, so that each has a place
        end = max(end, position_of(place_of(position) + records))
    return Chunk(kind & 0xFF, start, length, records, expanded), end


def chunks_of(reader: Reader) -> Iterator[Chunk]:
    """Yield the chunks that have records, up to the footer.

    Raises:
        FormatError: The end of the file has no position of the footer, or the chunks do not lead to it.
    """
    footer, position = _footer(reader), 0
    while position < footer:
        chunk, position = _chunk_at(reader, position)
        if chunk.kind == _TRANSPOSED:
            raise FormatError(
                "its chunks are transposed, which is not read",
                file=reader.file.path,
                offset=place_of(chunk.start),
                hint="write it again with the package array_record, without the option transpose",
            )
        if chunk.kind == _SIMPLE and chunk.records:
            yield chunk
    if position != footer:
        message = f"its chunks end at {place_of(position)}, and its footer begins at {place_of(footer)}"
        raise FormatError(message, file=reader.file.path, hint=HINT)


def _footer(reader: Reader) -> int:
    """Return the position of the footer, which the chunk at the start of the last block has."""
    file = reader.file
    last = file.size - BLOCK
    if last < 0 or file.size % BLOCK:
        message = f"an ArrayRecord file has blocks of {BLOCK} bytes, but this one has {file.size} bytes"
        raise FormatError(message, file=file.path, hint=HINT)
    try:
        chunk, _ = _chunk_at(reader, position_of(last))
        data = reader.read(chunk.start, min(chunk.length, READ_AHEAD))
        sizes, at = read_number(data, 1)
        offset, at = read_number(data, at + sizes + 1)
        magic, _ = read_number(data, at + 1)
    except ValueError as error:
        message = f"the end does not say where the footer is: {error}"
        raise FormatError(message, file=file.path, offset=last, hint=HINT) from error
    if magic != _MAGIC or offset > last:
        message = f"expected the mark {_MAGIC:#x} at the end of an ArrayRecord file, found {magic:#x}"
        raise FormatError(message, file=file.path, offset=last, hint=HINT)
    return position_of(offset)
