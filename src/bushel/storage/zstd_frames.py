"""The frames of a file of Zstandard (RFC 8878) as blocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bushel._runtime.arrays import I64
from bushel.errors import FormatError, UnsupportedError
from bushel.filters import MAX_BLOCK
from bushel.kernels import MappedFile

from .base import File
from .blocks import Blocks

_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte of 0x50 to 0x5f
_MOST_BLOCK = 1 << 17
_REQUEST = 1 << 23
_HINT = "test it with `zstd -t`, and fetch or write it again"


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
    frames, headers, at = [], _Headers(file), 0
    while at < file.size:
        end, size = _frame(headers, at)
        if size:
            frames.append((at, end - at, size))
        at = end
    for offset, _, size in frames:
        if size > MAX_BLOCK:
            raise UnsupportedError(
                f"{file.path}: the frame of zstd at byte {offset} expands to {size} bytes, and"
                " cannot be read in"
                " part: recompress the file with gzip, or with zstd in frames of a few megabytes"
                " (pzstd, t2sz)"
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
    headers, sizes = _Headers(file), []
    for begin, end in pairwise(ends.tolist()):
        end_of_frame, size = _frame(headers, begin)
        if end_of_frame != end:
            raise _damaged(headers, begin, f"a frame ends at byte {end_of_frame}, expected {end}")
        sizes.append(size)
    blocks = Blocks.of(ends[:-1].copy(), np.diff(ends), np.array(sizes, np.int64), "zstd")
    return blocks.check(file.path, [file.size])


class _Headers:
    """Reads headers of a file in ascending order; from files that are not mapped, by long requests."""

    def __init__(self, file: File) -> None:
        self.path, self.size = file.path, file.size
        self._file, self._data, self._start = file, b"", 0
        self._ahead = 0 if isinstance(file, MappedFile) else _REQUEST

    def read(self, at: int, size: int) -> bytes:
        """Return some bytes."""
        if not self._start <= at <= at + size <= self._start + len(self._data):
            self._data, self._start = (
                self._file.read(at, min(max(size, self._ahead), self.size - at)),
                at,
            )
        first = at - self._start
        return self._data[first : first + size]


def _frame(file: _Headers, at: int) -> tuple[int, int]:
    """Return the end of a frame and the size that it expands to, 0 if it is skipped."""
    head = file.read(at, min(18, file.size - at))
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


def _end_of_blocks(file: _Headers, at: int) -> tuple[int, int]:
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


def _measured(file: _Headers, at: int, end: int, most: int) -> int:
    """Return the size that a frame without one in its header expands to."""
    from cramjam import DecompressionError, zstd

    if end - at > MAX_BLOCK:
        return end - at  # at least, and too large in each case
    room = np.empty(min(most, MAX_BLOCK), np.uint8)
    try:
        return int(zstd.decompress_into(file.read(at, end - at), room.data))
    except DecompressionError as error:
        if most > MAX_BLOCK and "whole buffer" in str(error):
            return most
        raise _damaged(file, at, f"a frame cannot be expanded: {error}") from error


def _damaged(file: _Headers, at: int, what: str) -> FormatError:
    return FormatError(f"the zstd data are damaged: {what}", file=file.path, offset=at, hint=_HINT)
