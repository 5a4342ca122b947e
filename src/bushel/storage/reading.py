"""Reading batches of extents from files of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt

from bushel import kernels
from bushel.kernels import MappedFile
from bushel.storage.base import Extents, File, extent_error

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Held", "gather", "read_many"]


class Held(Protocol):
    """Bytes of remote files that were read before they were asked for, or that are on their way."""

    def covers(self, files: Sequence[File], extents: Extents) -> npt.NDArray[np.bool_] | None:
        """Return bool[n], which of these extents it has, or None if it has none."""

    def take(self, files: Sequence[File], extents: Extents) -> list[bytes | None]:
        """Wait for the extents that it has, and hand them over: bytes or None for each of the n extents."""


def read_many(files: Sequence[File], extents: Extents, held: Held | None = None) -> list[bytes | None]:
    """Read a batch of extents: local ones in one call, others in few coalesced requests.

    Args:
        files: The files to which the numbers in `extents.file` refer.
        extents: What to read. Values with a `crc32` are compared with it.
        held: What need not be requested.

    Returns:
        The bytes of each extent in order, None for one of length -1.

    Raises:
        ExtentError: An extent does not lie in its file, or does not match its CRC; `row` is its number.
    """
    if all(isinstance(file, MappedFile) for file in files):
        local = cast("list[MappedFile]", list(files))
        return kernels.read_many(local, _numbers(extents), extents.offset, extents.length, extents.crc32)
    from bushel.core.system import keep_freed_memory

    keep_freed_memory()
    numbers = _numbers(extents)
    for number, file in enumerate(files):
        _check_inside(file, extents, np.flatnonzero(numbers == number))
    asked = extents
    if held is not None and (covered := held.covers(files, extents)) is not None:
        asked = replace(extents, length=np.where(covered, 0, extents.length))
    out: list[bytes | None] = [None if size < 0 else b"" for size in extents.length.tolist()]
    long: dict[int, bytearray] = {}

    def put(row: int, at: int, data: memoryview) -> None:
        size = int(extents.length[row])
        if len(data) == size:
            out[row] = bytes(data)
        else:
            whole = long[row] if row in long else long.setdefault(row, bytearray(size))
            whole[at : at + len(data)] = data

    _read(files, numbers, asked, put)
    for row, data in long.items():
        out[row] = bytes(data)
    if held is not None and asked is not extents:
        taken = held.take(files, extents)
        out = [ours if theirs is None else theirs for ours, theirs in zip(out, taken, strict=True)]
    if extents.crc32 is not None:
        for row, (value, expected) in enumerate(zip(out, extents.crc32.tolist(), strict=True)):
            if value is not None:
                _check_crc(files, extents, row, expected, value)
    return out


def gather(files: Sequence[File], extents: Extents) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Read a batch of extents into one buffer.

    Returns:
        buffer: uint8[total].
        offsets: int64[n + 1]; extent `i` is `buffer[offsets[i]:offsets[i + 1]]`. A missing one is empty.

    Raises:
        ExtentError: As `read_many`.
    """
    if all(isinstance(file, MappedFile) for file in files):
        local = cast("list[MappedFile]", list(files))
        return kernels.gather(local, extents.file, extents.offset, extents.length, extents.crc32)
    numbers = _numbers(extents)
    for number, file in enumerate(files):
        _check_inside(file, extents, np.flatnonzero(numbers == number))
    offsets = np.zeros(len(extents) + 1, np.int64)
    np.cumsum(np.maximum(extents.length, 0), out=offsets[1:])
    buffer = np.empty(int(offsets[-1]), np.uint8)

    def put(row: int, at: int, data: memoryview) -> None:
        start = int(offsets[row]) + at
        buffer[start : start + len(data)] = np.frombuffer(data, np.uint8)

    _read(files, numbers, extents, put)
    if extents.crc32 is not None:
        for row in np.flatnonzero(extents.length >= 0).tolist():
            _check_crc(files, extents, row, int(extents.crc32[row]), buffer[offsets[row] : offsets[row + 1]].data)
    return buffer, offsets


def _read(
    files: Sequence[File],
    numbers: npt.NDArray[np.int32],
    extents: Extents,
    put: Callable[[int, int, memoryview], None],
) -> None:
    """Read extents of a mixture of files: of all objects together, of the others file by file."""
    from bushel.storage.coalesce import coalesce
    from bushel.storage.objects.ranges import read_rows
    from bushel.storage.objects.remotefile import RemoteFile

    objects = [number for number, file in enumerate(files) if isinstance(file, RemoteFile)]
    if objects:
        place = np.full(len(files), -1, np.int32)
        place[objects] = np.arange(len(objects))
        rows = np.flatnonzero((place[numbers] >= 0) & (extents.length > 0))
        read_rows(
            [file for file in files if isinstance(file, RemoteFile)],
            place[numbers[rows]],
            extents.offset[rows],
            extents.length[rows],
            lambda row, at, data: put(int(rows[row]), at, data),
        )
    for number, file in enumerate(files):
        if isinstance(file, RemoteFile):
            continue
        rows = np.flatnonzero(numbers == number)
        for span in coalesce(extents.offset[rows], extents.length[rows]):
            view = memoryview(file.read(span.start, span.stop - span.start))
            for at in span.rows:
                row = int(rows[at])
                first = int(extents.offset[row]) - span.start
                put(row, 0, view[first : first + int(extents.length[row])])


def _check_crc(files: Sequence[File], extents: Extents, row: int, expected: int, value: Buffer) -> None:
    if (found := kernels.crc32(value)) != expected:
        raise extent_error(row, "checksum", expected, found, files[extents.file_of(row)].path)


def _numbers(extents: Extents) -> npt.NDArray[np.int32]:
    if isinstance(extents.file, int):
        return np.full(len(extents.offset), extents.file, np.int32)
    return extents.file


def _check_inside(file: File, extents: Extents, rows: npt.NDArray[np.int64]) -> None:
    offset, length = extents.offset[rows], extents.length[rows]
    bad = (length != -1) & ((offset < 0) | (length < 0) | (length > file.size) | (offset > file.size - length))
    if bad.any():
        row = int(rows[int(bad.argmax())])
        raise extent_error(row, "beyond", int(extents.offset[row]) + int(extents.length[row]), file.size, file.path)
