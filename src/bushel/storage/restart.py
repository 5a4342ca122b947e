"""The blocks of a whole compressed file: gzip between restart points, zstd by its frames, Snappy in parts.

With a table of them, any part of the file can be read without the bytes before it. A file that is
compressed by brotli or bzip2 is one block, if an index has its compression and its expanded size.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from zlib import adler32

import numpy as np

from bushel._runtime.arrays import I64
from bushel.errors import FormatError, UnsupportedError
from bushel.filters import MAX_BLOCK
from bushel.filters.deflate import deflate_side
from bushel.kernels import Inflater, MappedFile, crc32, scan_snappy

from .base import File
from .blocks import BlockList, Blocks

SPACING = 1 << 20
"""Expanded bytes between restart points: reading one value then expands 1 MiB at most, in a millisecond or two."""

_GZIP = b"\x1f\x8b"
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz"}
_CHUNK = 1 << 20
_WINDOW = 1 << 15
_MOST_HEADER = 1 << 17
_HINT = "test it with `gzip -t`, and fetch or write it again"
_FETCH_AGAIN = "fetch or write it again"


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
            "a compressed file, but it has 0 bytes", file.path, hint="write or download it again"
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
        f"{file.path} is compressed with {kind}, which "
        "cannot be read in part: recompress it with gzip"
    )


def zlib_blocks(file: File) -> Blocks:
    """Return the blocks of a file that is a stream of zlib (RFC 1950), which is expanded from front to back once.

    Raises:
        FormatError: The file is damaged or truncated.
    """
    table, window = BlockList(), _Window(file, _CHUNK)
    head = bytes(window.read(0, 2))
    if len(head) < 2 or head[0] & 0xF != 8 or head[1] & 0x20 or int.from_bytes(head, "big") % 31:
        raise FormatError("expected the header of a stream of zlib", file.path, 0, _FETCH_AGAIN)
    end, _, checksum = _add_stream(table, window, 2, SPACING, adler32, 1)
    if bytes(window.read(end, 5)) != checksum.to_bytes(4, "big"):
        message = (
            "the stream of zlib is truncated, followed by other "
            "bytes, or has another checksum than its bytes"
        )
        raise FormatError(message, file.path, end, _FETCH_AGAIN)
    return table.blocks().check(file.path, [file.size])


class _Window:
    """Reads a file forward, at least `ahead` bytes at once, which are kept until the next ones are read."""

    def __init__(self, file: File, ahead: int) -> None:
        self.path, self.size = file.path, file.size
        self._file, self._ahead = file, ahead
        self._data, self._start = memoryview(b""), 0

    def read(self, at: int, size: int) -> memoryview:
        """Return some bytes, as many as the file has."""
        end = min(at + size, self.size)
        if not self._start <= at <= end <= self._start + len(self._data):
            most = min(max(size, self._ahead), self.size - at)
            self._data, self._start = memoryview(self._file.read(at, most)), at
        return self._data[at - self._start : end - self._start]


def _gzip_blocks(file: File, spacing: int) -> Blocks:
    table, window, at = BlockList(), _Window(file, _CHUNK), 0
    while at < file.size:
        head = bytes(window.read(at, _MOST_HEADER))
        if not any(head):  # padding
            at += len(head)
            continue
        at += _header(head, file.path, at)
        at, size, checksum = _add_stream(table, window, at, spacing, crc32, 0)
        trailer = bytes(window.read(at, 8))
        if trailer != (checksum | (size & 0xFFFFFFFF) << 32).to_bytes(8, "little"):
            what = "has another checksum or length than its bytes"
            if len(trailer) < 8:
                what = "is truncated"
            raise FormatError(f"a member of gzip {what}", file.path, at, _HINT)
        at += 8
    return table.blocks().check(file.path, [file.size])


def _header(head: bytes, path: str, offset: int) -> int:
    """Return the length of the header of a member."""
    if len(head) < 10 or head[:3] != b"\x1f\x8b\x08" or head[3] & 0xE0:
        raise FormatError("expected the header of a member of gzip", path, offset, _HINT)
    flags, at = head[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(head[10:12], "little")
    for flag in (8, 16):
        if flags & flag:
            at = head.find(b"\0", at) + 1 or len(head) + 1
    if flags & 2:
        at += 2
    if at > len(head):
        raise FormatError("the header of a member of gzip has no end", path, offset, _HINT)
    return at


def _add_stream(
    table: BlockList,
    window: _Window,
    begin: int,
    spacing: int,
    update: Callable[[bytes, int], int],
    checksum: int,
) -> tuple[int, int, int]:
    """Add the blocks of a stream of deflate. Return its end, the number of expanded bytes, and their checksum.

    Args:
        table: The blocks so far.
        window: The file.
        begin: Where the stream begins.
        spacing: Least number of expanded bytes between two restart points.
        update: Returns the checksum of what it was given and these bytes.
        checksum: The checksum of no bytes.
    """
    inflater, position = Inflater(spacing), begin
    bit = at = size = 0
    side, tail = b"", b""
    while not inflater.done:
        data = window.read(position, _CHUNK // 2)
        try:
            used, expanded = inflater.feed(data, position + len(data) >= window.size)
        except ValueError as error:
            raise FormatError(
                f"the compressed data are damaged: {error}", window.path, position, _HINT
            ) from error
        position += used
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
        table.add(begin + bit // 8, position - begin - bit // 8, size - at, "deflate", side)
    return position, size, checksum


COMPRESSIONS = ("gz", "zstd", "br", "bz2", "snappy")
_ONE_BLOCK = {"br": "brotli", "bz2": "bzip2"}
_SNAPPY_PART = 1 << 16


def packed_blocks(file: File, kind: str, size: int | None) -> Blocks:
    """Return the blocks of a compressed file.

    gzip has restart points, Snappy parts of 64 KiB where its copies allow it, zstd a block for each
    frame. A file compressed by brotli or bzip2 is one block, which is expanded for every value that
    is read. `kind` is one of `COMPRESSIONS`, and the kinds of one block need the size that the file
    expands to.

    Raises:
        FormatError: The file is damaged, or expands to another size.
        UnsupportedError: A block expands to more than 1 GiB.
    """
    if kind in ("gz", "zstd"):
        head = file.read(0, min(file.size, 4))
        if not (is_zstd(head) if kind == "zstd" else head[:2] == b"\x1f\x8b"):
            raise FormatError(
                f"expected data compressed by {kind}, found {head!r}", file.path, hint=_FETCH_AGAIN
            )
        blocks = compressed_blocks(file)
    elif kind == "snappy":
        blocks = _snappy_blocks(file)
    else:
        sizes, stored = np.array([size or 0], np.int64), np.array([file.size], np.int64)
        blocks = Blocks.of(np.zeros(1, np.int64), stored, sizes, _ONE_BLOCK[kind])
    if size is not None and blocks.size != size:
        message = f"it expands to {blocks.size} bytes, where its index says {size}"
        raise FormatError(message, file.path, hint=_FETCH_AGAIN)
    return blocks.check(file.path, [file.size])


def _snappy_blocks(file: File) -> Blocks:
    try:
        start, offset, length, literal = scan_snappy(file.read(0, file.size), _SNAPPY_PART)
    except ValueError as error:
        raise FormatError(
            f"the Snappy data are damaged: {error}", file.path, 0, _FETCH_AGAIN
        ) from error
    files, filters = np.zeros(len(offset), np.int32), (literal == 0).astype(np.uint8)
    return Blocks(start, files, offset, length, filters, ("stored", "snappy-tags"))


# Zstandard (RFC 8878)

_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte of 0x50 to 0x5f
_MOST_BLOCK = 1 << 17
_REQUEST = 1 << 23
_ZSTD_HINT = "test it with `zstd -t`, and fetch or write it again"


def is_zstd(head: bytes) -> bool:
    """Return whether a file begins with a frame, given its first four bytes."""
    return head[:4] == _ZSTD or (
        head[:1] != b"" and head[0] & 0xF0 == 0x50 and head[1:4] == _SKIPPABLE
    )


def zstd_blocks(file: File) -> Blocks:
    """Return a block for each frame of a file.

    The headers of all frames and of their blocks are read. A frame whose size its header does not
    have is expanded to learn it.

    Raises:
        FormatError: The file is damaged or truncated.
        UnsupportedError: A frame expands to more than 1 GiB.
    """
    frames, headers, at = [], _headers_of(file), 0
    while at < file.size:
        end, size = _frame(headers, at)
        if size:
            frames.append((at, end - at, size))
        at = end
    for offset, _, size in frames:
        if size > MAX_BLOCK:
            raise UnsupportedError(
                f"{file.path}: the frame of zstd at byte {offset} expands to "
                f"{size} bytes, and cannot be read in part: recompress the file "
                "with gzip, or with zstd in frames of a few megabytes (pzstd, t2sz)"
            )
    offsets, lengths, sizes = np.array(frames, np.int64).reshape(-1, 3).T
    return Blocks.of(offsets.copy(), lengths.copy(), sizes, "zstd").check(file.path, [file.size])


def frames_between(file: File, ends: I64) -> Blocks:
    """Return a block for each of some frames that follow each other in a file.

    `ends` is int64[frames + 1], where each begins, and where the last one ends; inside the file, in
    order.

    Raises:
        FormatError: The file is damaged, or a frame ends elsewhere.
    """
    headers, sizes = _headers_of(file), []
    for begin, end in pairwise(ends.tolist()):
        end_of_frame, size = _frame(headers, begin)
        if end_of_frame != end:
            raise _damaged(headers, begin, f"a frame ends at byte {end_of_frame}, expected {end}")
        sizes.append(size)
    blocks = Blocks.of(ends[:-1].copy(), np.diff(ends), np.array(sizes, np.int64), "zstd")
    return blocks.check(file.path, [file.size])


def _headers_of(file: File) -> _Window:
    """Return a reader of headers. It makes long requests if the file is not mapped."""
    return _Window(file, 0 if isinstance(file, MappedFile) else _REQUEST)


def _frame(file: _Window, at: int) -> tuple[int, int]:
    """Return the end of a frame and the size that it expands to, 0 if it is skipped."""
    head = bytes(file.read(at, 18))
    if len(head) >= 8 and head[:4] != _ZSTD and is_zstd(head):
        end = at + 8 + int.from_bytes(head[4:8], "little")
        if end > file.size:
            raise _damaged(file, at, "a skippable frame is truncated")
        return end, 0
    if head[:4] != _ZSTD or len(head) < 6:
        raise _damaged(file, at, "expected the header of a frame of zstd")
    flags = head[4]
    single, dictionary = flags >> 5 & 1, (0, 1, 2, 4)[flags & 3]
    width = (single, 2, 4, 8)[flags >> 6]
    if flags & 8 or len(head) < 5 + (not single) + dictionary + width:
        raise _damaged(file, at, "a frame has a header that no version of zstd writes")
    if dictionary and any(head[6 - single :][:dictionary]):
        raise UnsupportedError(
            f"{file.path}: the frame of zstd at byte {at} needs a dictionary: recompress it without"
        )
    after = 5 + (not single) + dictionary
    size = int.from_bytes(head[after : after + width], "little") + (256 if width == 2 else 0)
    end, most = _end_of_blocks(file, at + after + width)
    if flags & 4:
        end += 4
    if end > file.size:
        raise _damaged(file, at, "a frame is truncated")
    return end, size if width else _measured(file, at, end, most)


def _end_of_blocks(file: _Window, at: int) -> tuple[int, int]:
    """Return the end of the last block of a frame, and the size that the blocks expand to at most."""
    most, last = 0, 0
    while not last:
        if at + 3 > file.size:
            raise _damaged(file, at, "a frame is truncated")
        header = int.from_bytes(file.read(at, 3), "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == 3 or (kind == 2 and size > _MOST_BLOCK):
            raise _damaged(file, at, "a frame has a block of no known kind")
        most += size if kind < 2 else _MOST_BLOCK
        at += 3 + (1 if kind == 1 else size)
    return at, most


def _measured(file: _Window, at: int, end: int, most: int) -> int:
    """Return the size that a frame without one in its header expands to."""
    from cramjam import DecompressionError, zstd

    if end - at > MAX_BLOCK:
        return end - at  # at least, and too large in each case
    room = np.empty(min(most, MAX_BLOCK), np.uint8)
    try:
        return int(zstd.decompress_into(bytes(file.read(at, end - at)), room.data))
    except DecompressionError as error:
        if most > MAX_BLOCK and "whole buffer" in str(error):
            return most
        raise _damaged(file, at, f"a frame cannot be expanded: {error}") from error


def _damaged(file: _Window, at: int, what: str) -> FormatError:
    return FormatError(f"the zstd data are damaged: {what}", file.path, at, _ZSTD_HINT)
