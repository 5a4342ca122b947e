"""Arrays that grow piece by piece: in memory while they are small, then in a temporary file."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

import numpy as np
from msgspec import Struct

# bytes that are kept in memory before they are written to a file: a dataset may have a hundred of
# such tables
_IN_MEMORY = 256 << 10
# bytes that are reserved at a time, for an array and for all: finding room for each page takes
# longer than copying it
_RESERVED, _ALL_RESERVED = 2 << 20, 256 << 20
_SPARE = 1.1  # factor by which an array gets more room than its share so far suggests
_LEAST_SHARE = 1e-6
_COPY = 1 << 20
_ALIGNMENT = 64
_AT_A_TIME = 1000  # pieces that are written with one call: fewer than any system takes


class _Array(Struct):
    """One array."""

    dtype: np.dtype[Any]
    pieces: list[np.ndarray] = []  # those in memory
    # the offset and the number of bytes of each array in the file
    segments: list[tuple[int, int]] = []
    room: int = 0  # bytes that fit after the last segment
    reserved: int = 0  # where the bytes end that are reserved in the file


class GrowingArrays:
    """One-dimensional arrays by name, which grow independently.

    In the file, an array has room for as many elements as `share` lets expect, which is a hole
    until it is written to. So each element is written once, to where it stays, unless there are
    more of them than were expected.

    Args:
        limit: Bytes of pieces that are kept in memory. When there are more, they go to a temporary
            file.

    Attributes:
        share: The share of all elements that the arrays had, when it was set last; 0 if it is not
            known yet.
    """

    def __init__(self, limit: int = _IN_MEMORY) -> None:
        self.share = 0.0
        self._limit, self._size, self._end = limit, 0, 0
        self._arrays: dict[str, _Array] = {}
        self._file: IO[bytes] | None = None

    def append(self, name: str, piece: np.ndarray) -> None:
        """Add elements to an array, which may not change afterwards. All pieces of an array have one dtype.

        Raises:
            OSError: The temporary file cannot be written.
        """
        if name not in self._arrays:
            self._arrays[name] = _Array(piece.dtype)
        self._arrays[name].pieces.append(piece)
        self._size += piece.nbytes
        if self._size > self._limit:
            self._flush()

    def add(self, before: str = "", /, **pieces: np.ndarray) -> None:
        """Add elements to several arrays, whose names begin with the given text: see `append`."""
        for name, piece in pieces.items():
            self.append(before + name, piece)

    def extend(self, pieces: Mapping[str, np.ndarray], share: float) -> None:
        """Add elements to several arrays, which then have this share of all their elements: see `append`."""
        # while they are added, the share of the elements before them
        self.share = self.share or share
        self.add(**pieces)
        self.share = share

    def finish(self) -> dict[str, np.ndarray]:
        """Return the arrays, which can be written to. Arrays in a temporary file are mapped, and the file has no name.

        Raises:
            OSError: The temporary file cannot be written.
        """
        if self._file is None:
            return {name: np.concatenate(array.pieces) for name, array in self._arrays.items()}
        self._flush()
        with self._file as file:
            places = {name: self._place(array, file) for name, array in self._arrays.items()}
            file.truncate(self._end)
            # one map, since each has a descriptor: a table of a thousand columns has more arrays
            # than files may be open
            if self._end:
                whole = np.memmap(file, np.uint8, "r+").view(np.ndarray)
            else:
                whole = np.empty(0, np.uint8)
        arrays = {
            name: whole[start:end].view(self._arrays[name].dtype)
            for name, (start, end) in places.items()
        }
        self._arrays.clear()
        return arrays

    def close(self) -> None:
        """Drop all arrays, where `finish` is not called."""
        self._arrays.clear()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if self._file is None:
            import tempfile  # which small arrays do not need

            self._file = tempfile.TemporaryFile(prefix="bushel-", buffering=0)  # noqa: SIM115 - finish() closes it
            weakref.finalize(self, self._file.close)  # if an error comes before that
        reserved = min(_RESERVED, _ALL_RESERVED // max(len(self._arrays), 1))
        for array in self._arrays.values():
            if not (size := sum(piece.nbytes for piece in array.pieces)):
                continue
            if size > array.room:
                self._make_room(array, size)
            start, written = array.segments[-1]
            at = start + written
            if at + size > array.reserved:
                array.reserved = max(at + size, min(at + reserved, at + array.room))
                if sys.platform == "linux":  # else writing finds room, or fails
                    with suppress(OSError):
                        os.posix_fallocate(self._file.fileno(), at, array.reserved - at)
            _write(self._file, array.pieces, at)
            array.segments[-1] = start, written + size
            array.room -= size
            array.pieces.clear()
        self._size = 0

    def _make_room(self, array: _Array, size: int) -> None:
        """Begin a segment with room for some bytes, and for the bytes that are expected to follow."""
        before = sum(written for _, written in array.segments)
        expected = 0
        if self.share:
            expected = int(_SPARE * (before + size) / max(self.share, _LEAST_SHARE))
        array.room = max(size, before, expected - before)
        array.room += -array.room % _ALIGNMENT
        array.segments.append((self._end, 0))
        self._end += array.room

    def _place(self, array: _Array, file: IO[bytes]) -> tuple[int, int]:
        """Return where the bytes of an array begin and end in the file, after joining its segments."""
        size = sum(written for _, written in array.segments)
        if len(array.segments) <= 1:
            start = array.segments[0][0] if array.segments else 0
            return start, start + size
        start = self._end
        for offset, length in array.segments:
            _copy(file, offset, self._end, length)
            self._end += length
        self._end += -self._end % _ALIGNMENT
        return start, start + size


def _write(file: IO[bytes], pieces: Sequence[Any], offset: int) -> None:
    rest = [np.ascontiguousarray(piece).data.cast("B") for piece in pieces if len(piece)]
    while rest:
        written = os.pwritev(file.fileno(), rest[:_AT_A_TIME], offset)
        offset += written
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]


def _copy(file: IO[bytes], source: int, target: int, size: int) -> None:
    while size:
        data = os.pread(file.fileno(), min(size, _COPY), source)
        _write(file, [np.frombuffer(data, np.uint8)], target)
        source, target, size = source + len(data), target + len(data), size - len(data)
