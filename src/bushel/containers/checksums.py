"""Computing the CRC-32 of every field, for containers that store none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from bushel import kernels
from bushel.core.index.table import I64, INLINE, MISSING, U32, Column, ShardIndex
from bushel.errors import FormatError
from bushel.kernels import ExtentError, MappedFile
from bushel.storage import Extents, File, read_many

__all__ = ["with_checksums"]

_BATCH = 64 << 20
"""Bytes between two progress reports, and limit of bytes in memory for files that are not local."""


def with_checksums(
    index: ShardIndex,
    files: Sequence[File],
    *,
    join: Callable[[bytes], bytes] | None = None,
    report: Callable[[int], None] | None = None,
) -> ShardIndex:
    """Compute the checksums that an index lacks, in one pass over the files.

    Args:
        index: A checked index. Columns that have checksums keep them.
        files: Its files, in the order of `index.files`.
        join: The container's `join`; needed when a column has fragments.
        report: Called with the bytes read since the last call.

    Returns:
        The index with a `crc32` in every column: 0 where a field is missing.

    Raises:
        FormatError: A file has shrunk since it was indexed, or a record stored in pieces cannot be joined.
    """
    lacking = [column for column in index.columns.values() if column.crc32 is None]
    found = {column.field.name: np.zeros(column.rows, np.uint32) for column in lacking}
    inline = index.inline if index.inline is not None else np.zeros(0, np.uint8)
    for column in lacking:
        if column.file == INLINE:
            found[column.field.name][:] = _inline(column, inline)
    stored = [column for column in lacking if column.file != INLINE and column.rows]
    if stored:
        file = np.concatenate([np.full(column.rows, column.file, np.int32) for column in stored])
        offset = np.concatenate([column.offset for column in stored])
        length = np.concatenate([_contiguous(column) for column in stored])
        order = np.lexsort((offset, file)).astype(np.int64)
        order = order[length[order] != MISSING]
        crc32 = np.zeros(len(file), np.uint32)
        done = np.cumsum(length[order])
        start = 0
        while start < len(order):
            before = int(done[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(done, before + _BATCH)))
            rows = order[start:stop]
            crc32[rows] = _crc32_of(files, Extents(file[rows], offset[rows], length[rows]))
            if report is not None:
                report(int(done[stop - 1]) - before)
            start = stop
        ends = np.cumsum([column.rows for column in stored])
        for column, values in zip(stored, np.split(crc32, ends[:-1]), strict=True):
            found[column.field.name][:] = values
            _join_fragments(column, files[column.file], join, found[column.field.name])
    columns = {
        name: replace(column, crc32=found[column.field.name]) if column.crc32 is None else column
        for name, column in index.columns.items()
    }
    return replace(index, columns=columns)


def _contiguous(column: Column) -> I64:
    """Return the lengths of a column, with `MISSING` for rows that are stored in pieces."""
    if column.fragments is None:
        return column.length
    length = column.length.copy()
    length[column.fragments.rows] = MISSING
    return length


def _crc32_of(files: Sequence[File], extents: Extents) -> U32:
    try:
        if all(isinstance(file, MappedFile) for file in files):
            local = cast("list[MappedFile]", list(files))
            return kernels.crc32_many(local, extents.file, extents.offset, extents.length)
        values = read_many(files, extents)
    except ExtentError as error:
        where = files[extents.file_of(error.row)].path
        offset = int(extents.offset[error.row])
        raise FormatError(
            f"{int(extents.length[error.row])} bytes cannot be read ({error.reason})", file=where, offset=offset
        ) from error
    return np.fromiter((kernels.crc32(value or b"") for value in values), np.uint32, len(values))


def _inline(column: Column, inline: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> U32:
    borders = zip(column.offset.tolist(), column.length.tolist(), strict=True)
    values = (kernels.crc32(inline[offset : offset + max(length, 0)]) for offset, length in borders)
    return np.fromiter(values, np.uint32, column.rows)


def _join_fragments(column: Column, file: File, join: Callable[[bytes], bytes] | None, crc32: U32) -> None:
    if column.fragments is None:
        return
    if join is None:
        raise TypeError("this index has fragments: pass the container's join")
    pieces = column.fragments
    for row, start, length in zip(pieces.rows.tolist(), pieces.start.tolist(), pieces.length.tolist(), strict=True):
        offset = int(column.offset[row])
        try:
            payload = join(file.read(offset, int(column.length[row])))
        except ValueError as error:  # an unreadable extent, or an invalid record
            raise FormatError(f"a record in pieces cannot be joined: {error}", file=file.path, offset=offset) from error
        crc32[row] = kernels.crc32(memoryview(payload)[start : start + length])
