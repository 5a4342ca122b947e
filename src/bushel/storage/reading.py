"""Reading batches of extents from files of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from bushel import kernels
from bushel.kernels import MappedFile
from bushel.storage.base import AnyPath, Extents, File, extent_error, is_local
from bushel.storage.coalesce import coalesce
from bushel.storage.fileobject import FileObject

__all__ = ["announce", "gather", "open_file", "read_many"]


def open_file(path: AnyPath) -> File:
    """Open a file for reading by position.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
    """
    return MappedFile(str(path)) if is_local(path) else FileObject(path)


def read_many(files: Sequence[File], extents: Extents) -> list[bytes | None]:
    """Read a batch of extents: all local ones in one call, others in few coalesced requests.

    Args:
        files: The files that `extents.file` counts.
        extents: What to read. CRCs are checked where given.

    Returns:
        The bytes of each extent in order, None for one of length -1.

    Raises:
        ExtentError: An extent does not lie in its file, or does not match its CRC; `row` tells which.
    """
    if all(isinstance(file, MappedFile) for file in files):
        local = cast("list[MappedFile]", list(files))
        return kernels.read_many(local, _numbers(extents), extents.offset, extents.length, extents.crc32)
    out: list[bytes | None] = [None] * len(extents)
    numbers = _numbers(extents)
    for number, file in enumerate(files):
        rows = np.flatnonzero(numbers == number)
        _check_inside(file, extents, rows)
        for empty in rows[extents.length[rows] == 0].tolist():
            out[empty] = b""
        for span in coalesce(extents.offset[rows], extents.length[rows]):
            data = file.read(span.start, span.stop - span.start)
            for at in span.rows:
                row = int(rows[at])
                first = int(extents.offset[row]) - span.start
                out[row] = data[first : first + int(extents.length[row])]
    if extents.crc32 is not None:
        for row, (value, expected) in enumerate(zip(out, extents.crc32.tolist(), strict=True)):
            if value is not None and (found := kernels.crc32(value)) != expected:
                raise extent_error(row, "checksum", expected, found, files[extents.file_of(row)].path)
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
        file = extents.file if isinstance(extents.file, int) else _numbers(extents)
        return kernels.gather(local, file, extents.offset, extents.length, extents.crc32)
    parts = [value or b"" for value in read_many(files, extents)]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return np.frombuffer(b"".join(parts), np.uint8), offsets


def announce(files: Sequence[File], extents: Extents) -> None:
    """Tell the operating system that these extents will be read soon. Costs nothing where that is not possible."""
    if all(isinstance(file, MappedFile) for file in files):
        kernels.announce(cast("list[MappedFile]", list(files)), _numbers(extents), extents.offset, extents.length)


def _numbers(extents: Extents) -> npt.NDArray[np.int32]:
    if isinstance(extents.file, int):
        return np.full(len(extents), extents.file, np.int32)
    return extents.file


def _check_inside(file: File, extents: Extents, rows: npt.NDArray[np.int64]) -> None:
    offset, length = extents.offset[rows], extents.length[rows]
    bad = (length != -1) & ((offset < 0) | (length < 0) | (length > file.size) | (offset > file.size - length))
    if bad.any():
        row = int(rows[int(bad.argmax())])
        raise extent_error(row, "beyond", int(extents.offset[row]) + int(extents.length[row]), file.size, file.path)
