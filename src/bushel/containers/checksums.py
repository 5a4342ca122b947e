"""Computing the CRC-32 of every field, for containers that store none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias, cast

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import U32
from bushel.containers.base import Report
from bushel.errors import FormatError
from bushel.kernels import ExtentError, MappedFile
from bushel.storage import Extents, File, read_many

_Sums: TypeAlias = Callable[[Extents], U32]

_BATCH = 64 << 20  # bytes between two progress reports, and limit of bytes in memory for files that are not local
_VALUES = 1 << 16  # values whose checksums are computed together
_VALUES_OF_REQUEST = 1 << 18  # the same, of files that are compressed or not local: expanding and requests take longer


def with_checksums(index: ShardIndex, files: Sequence[File], *, report: Report | None = None) -> ShardIndex:
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
    found = {column.field.name: np.zeros(0, np.uint32) for column in lacking}
    stored = [column for column in lacking if column.rows]
    if stored:
        opened = list(files)
        if index.blocks:
            from bushel._index.opening import block_files

            opened += block_files(index, files.__getitem__)
        crc32_of = partial(_crc32_of, index, opened)
        if _follow_each_other(stored):
            local = isinstance(opened[stored[0].file], MappedFile)
            sums = _row_by_row(stored, crc32_of, report, _VALUES if local else _VALUES_OF_REQUEST)
        else:
            sums = _sorted(stored, crc32_of, report)
        found |= {column.field.name: own for column, own in zip(stored, sums, strict=True)}
    columns = {
        name: replace(column, crc32=found[column.field.name]) if column.crc32 is None else column
        for name, column in index.fields.items()
    }
    return replace(index, fields=columns)


def _parts(rows: int, step: int) -> Iterator[slice]:
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _follow_each_other(columns: Sequence[FieldExtents]) -> bool:
    """Return whether all fields are plain and in the same file, where their values are in the order of the samples."""
    first = columns[0]
    if any(own.starts is not None or (own.file, own.rows) != (first.file, first.rows) for own in columns):
        return False
    for column in columns:
        last = 0
        for part in _parts(column.rows, _VALUES):
            there = column.offset[part][column.length[part] > 0]
            if len(there) and (there[0] < last or (there[1:] < there[:-1]).any()):
                return False
            last = there[-1] if len(there) else last
    return True


def _row_by_row(columns: Sequence[FieldExtents], crc32_of: _Sums, report: Report | None, at_once: int) -> list[U32]:
    """Return the checksums of fields whose samples follow each other. Memory does not grow with their number."""
    from bushel.containers.growing import GrowingArrays  # with temporary files, which reading does not need

    sums, rows = GrowingArrays(), columns[0].rows
    for part in _parts(rows, max(at_once // len(columns), 1)):
        offset = np.stack([column.offset[part] for column in columns], axis=1)
        length = np.stack([column.length[part] for column in columns], axis=1)
        done = np.cumsum(np.maximum(length, 0).sum(axis=1))
        first, before = 0, 0
        while first < len(done):
            end = max(first + 1, int(np.searchsorted(done, before + _BATCH)))
            own = crc32_of(Extents(columns[0].file, offset[first:end].ravel(), length[first:end].ravel()))
            for number, values in enumerate(own.reshape(-1, len(columns)).T):
                sums.append(str(number), values.copy())
            if report is not None:
                report(int(done[end - 1]) - before)
            first, before = end, int(done[end - 1])
        sums.share = part.stop / rows
    found = sums.finish()
    return [found[str(number)] for number in range(len(columns))]


def _sorted(columns: Sequence[FieldExtents], crc32_of: _Sums, report: Report | None) -> list[U32]:
    """Return the checksums of fields whose values are read in the order in which the files have them."""
    file = np.concatenate([np.full(column.rows, column.file, np.int32) for column in columns])
    offset = np.concatenate([column.offset for column in columns])
    length = np.concatenate([column.length for column in columns])
    order = np.lexsort((offset, file)).astype(np.int64)
    order = order[length[order] != MISSING]
    crc32 = np.zeros(len(file), np.uint32)
    done = np.cumsum(length[order])
    start = 0
    while start < len(order):
        before = int(done[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(done, before + _BATCH)))
        rows = order[start:stop]
        crc32[rows] = crc32_of(Extents(file[rows], offset[rows], length[rows]))
        if report is not None:
            report(int(done[stop - 1]) - before)
        start = stop
    ends = np.cumsum([column.rows for column in columns])
    return [own.copy() for own in np.split(crc32, ends[:-1])]


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
