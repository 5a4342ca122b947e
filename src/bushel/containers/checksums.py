"""Computing the CRC-32 of every field, for containers that store none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._index.table import MISSING, ShardIndex
from bushel._runtime.arrays import U32
from bushel.errors import FormatError
from bushel.kernels import ExtentError, MappedFile
from bushel.storage import Extents, File, read_many

_BATCH = 64 << 20  # bytes between two progress reports, and limit of bytes in memory for files that are not local


def with_checksums(
    index: ShardIndex, files: Sequence[File], *, report: Callable[[int], None] | None = None
) -> ShardIndex:
    """Compute the checksums that an index lacks, in one pass over the files.

    Args:
        index: A checked index. Columns that have checksums keep them.
        files: Its files, in the order of `index.files`. Its block files are opened here.
        report: Called with the bytes read since the last call.

    Returns:
        The index with a `crc32` in every column: 0 where a field is missing.

    Raises:
        FormatError: A file has shrunk since it was indexed, or a block cannot be expanded.
    """
    lacking = [column for column in index.fields.values() if column.crc32 is None]
    found = {column.field.name: np.zeros(column.rows, np.uint32) for column in lacking}
    stored = [column for column in lacking if column.rows]
    if stored:
        opened = list(files)
        if index.blocks:
            from bushel._index.opening import block_files

            opened += block_files(index, files.__getitem__)
        file = np.concatenate([np.full(column.rows, column.file, np.int32) for column in stored])
        offset = np.concatenate([column.offset for column in stored])
        length = np.concatenate([column.length for column in stored])
        order = np.lexsort((offset, file)).astype(np.int64)
        order = order[length[order] != MISSING]
        crc32 = np.zeros(len(file), np.uint32)
        done = np.cumsum(length[order])
        start = 0
        while start < len(order):
            before = int(done[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(done, before + _BATCH)))
            rows = order[start:stop]
            crc32[rows] = _crc32_of(index, opened, Extents(file[rows], offset[rows], length[rows]))
            if report is not None:
                report(int(done[stop - 1]) - before)
            start = stop
        ends = np.cumsum([column.rows for column in stored])
        for column, values in zip(stored, np.split(crc32, ends[:-1]), strict=True):
            found[column.field.name][:] = values
    columns = {
        name: replace(column, crc32=found[column.field.name]) if column.crc32 is None else column
        for name, column in index.fields.items()
    }
    return replace(index, fields=columns)


def _crc32_of(index: ShardIndex, files: Sequence[File], extents: Extents) -> U32:
    try:
        local = files[: int(np.max(extents.file)) + 1]  # block files come last
        if all(isinstance(file, MappedFile) for file in local):
            mapped = cast("list[MappedFile]", list(local))
            return kernels.crc32_many(mapped, extents.file, extents.offset, extents.length)
        values = read_many(files, extents)
    except ExtentError as error:
        number = extents.file_of(error.row)
        place = index.place(number, int(extents.offset[error.row]))
        raise FormatError(
            f"{int(extents.length[error.row])} bytes cannot be read ({error.reason})",
            file=files[number if place.file is None else place.file].path,
            offset=place.offset,
        ) from error
    return np.fromiter((kernels.crc32(value or b"") for value in values), np.uint32, len(values))
