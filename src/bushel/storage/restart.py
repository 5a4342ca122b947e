"""The blocks of a whole compressed file: gzip between restart points, zstd by its frames.

With a table of them, any part of the file can be read without the bytes before it.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import adler32

from bushel.errors import FormatError, UnsupportedError
from bushel.filters.deflate import deflate_side
from bushel.kernels import Inflater, crc32

from .base import File
from .block_list import BlockList
from .blocks import Blocks
from .zstd_frames import is_zstd, zstd_blocks

SPACING = 1 << 20
"""Expanded bytes between restart points: reading one value then expands 1 MiB at most, in a millisecond or two."""

_GZIP = b"\x1f\x8b"
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
_CHUNK = 1 << 20
_WINDOW = 1 << 15
_MOST_HEADER = 1 << 20
_HINT = "test it with `gzip -t`, and fetch or write it again"
_ZLIB_HINT = "fetch or write it again"


def compressed_blocks(file: File, *, spacing: int = SPACING) -> Blocks:
    """Return the blocks of a compressed file, whose bytes together are those that it expands to.

    gzip is expanded from front to back once, which also compares its checksums. In zstd, frames are
    blocks: a file of one frame, as `zstd` writes it, is one block, which has to be expanded for
    every value of it that is read. `spacing` is the least number of expanded bytes between two
    restart points of gzip.

    Raises:
        FormatError: The file is damaged or truncated.
        UnsupportedError: It is compressed in another way, or a block expands to more than 1 GiB.
    """
    if not file.size:
        raise FormatError(
            "a compressed file, but it has 0 bytes",
            file=file.path,
            hint="write or download it again",
        )
    head = file.read(0, min(file.size, 6))
    if head.startswith(_GZIP):
        return _gzip_blocks(file, spacing)
    if is_zstd(head):
        return zstd_blocks(file)
    kind = next(
        (name for magic, name in _OTHERS.items() if head.startswith(magic)),
        "something else than gzip or zstd",
    )
    raise UnsupportedError(
        f"{file.path} is compressed with {kind}, which cannot be read in part: recompress it"
        " with"
        " gzip"
    )


def zlib_blocks(file: File) -> Blocks:
    """Return the blocks of a file that is a stream of zlib (RFC 1950), which is expanded from front to back once.

    Raises:
        FormatError: The file is damaged or truncated.
    """
    table, source = BlockList(), _Source(file)
    head = bytes(source.peek(2)[0][:2])
    if len(head) < 2 or head[0] & 0xF != 8 or head[1] & 0x20 or int.from_bytes(head, "big") % 31:
        raise FormatError(
            "expected the header of a stream of zlib", file=file.path, offset=0, hint=_ZLIB_HINT
        )
    source.skip(2)
    _, checksum = _add_stream(table, source, file.path, SPACING, adler32, 1)
    if bytes(source.peek(5)[0]) != checksum.to_bytes(4, "big"):
        message = (
            "the stream of zlib is truncated, followed by other bytes, or has another"
            " checksum than its bytes"
        )
        raise FormatError(message, file=file.path, offset=source.position, hint=_ZLIB_HINT)
    return table.blocks().check(file.path, [file.size])


class _Source:
    """Reads a file from front to back."""

    def __init__(self, file: File) -> None:
        self._file, self._data, self._start = file, memoryview(b""), 0

    @property
    def position(self) -> int:
        """Offset of the next byte."""
        return self._start

    def peek(self, size: int) -> tuple[memoryview, bool]:
        """Return the next bytes, at least `size` if the file has them, and whether the file ends after them."""
        have = len(self._data)
        if (
            have < size
            and (want := min(max(size - have, _CHUNK), self._file.size - self._start - have)) > 0
        ):
            more = self._file.read(self._start + have, want)
            self._data = memoryview(bytes(self._data) + more if have else more)
        return self._data, self._start + len(self._data) >= self._file.size

    def skip(self, size: int) -> None:
        """Move forward."""
        self._data, self._start = self._data[size:], self._start + size


def _gzip_blocks(file: File, spacing: int) -> Blocks:
    table, source = BlockList(), _Source(file)
    while True:
        data, last = source.peek(4096)
        if not any(data):  # padding, or nothing
            if last:
                return table.blocks().check(file.path, [file.size])
            source.skip(len(data))
            continue
        source.skip(_header(data, last, file.path, source.position))
        _add_member(table, source, file.path, spacing)


def _header(data: memoryview, last: bool, path: str, offset: int) -> int:
    """Return the length of the header of a member."""
    head = bytes(data[:_MOST_HEADER])
    if len(head) < 10 or head[:3] != b"\x1f\x8b\x08" or head[3] & 0xE0:
        raise FormatError(
            "expected the header of a member of gzip", file=path, offset=offset, hint=_HINT
        )
    flags, at = head[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(head[10:12], "little")
    for flag in (8, 16):
        if flags & flag:
            at = head.find(b"\0", at) + 1 or len(head) + 1
    if flags & 2:
        at += 2
    if at > len(head):
        raise FormatError(
            "the header of a member of gzip has no end", file=path, offset=offset, hint=_HINT
        )
    return at


def _add_member(table: BlockList, source: _Source, path: str, spacing: int) -> None:
    """Add the blocks of a member, whose header has been read."""
    size, checksum = _add_stream(table, source, path, spacing, crc32, 0)
    trailer = bytes(source.peek(8)[0][:8])
    if trailer != (checksum | (size & 0xFFFFFFFF) << 32).to_bytes(8, "little"):
        if len(trailer) < 8:
            what = "is truncated"
        else:
            what = "has another checksum or length than its bytes"
        raise FormatError(f"a member of gzip {what}", file=path, offset=source.position, hint=_HINT)
    source.skip(8)


def _add_stream(
    table: BlockList,
    source: _Source,
    path: str,
    spacing: int,
    update: Callable[[bytes, int], int],
    checksum: int,
) -> tuple[int, int]:
    """Add the blocks of a stream of deflate. Return the number of expanded bytes, and their checksum.

    Args:
        table: The blocks so far.
        source: The file, at the start of the stream; it is left after its end.
        path: The file, for messages.
        spacing: Least number of expanded bytes between two restart points.
        update: Returns the checksum of what it was given and these bytes.
        checksum: The checksum of no bytes.
    """
    begin, inflater = source.position, Inflater(spacing)
    bit = at = size = 0
    side, tail = b"", b""
    while not inflater.done:
        data, last = source.peek(_CHUNK // 2)
        try:
            used, expanded = inflater.feed(data, last)
        except ValueError as error:
            raise FormatError(
                f"the compressed data are damaged: {error}",
                file=path,
                offset=source.position,
                hint=_HINT,
            ) from error
        source.skip(used)
        recent = tail + expanded
        before = size - len(tail)
        for end_bit, end in inflater.points:
            if end > at:
                table.add(begin + bit // 8, -(-end_bit // 8) - bit // 8, end - at, "deflate", side)
            bit, at = end_bit, end
            side = deflate_side(bit % 8, recent[max(0, end - before - _WINDOW) : end - before])
        tail = recent[-_WINDOW:]
        size, checksum = size + len(expanded), update(expanded, checksum)
    if size > at:
        table.add(begin + bit // 8, source.position - begin - bit // 8, size - at, "deflate", side)
    return size, checksum
