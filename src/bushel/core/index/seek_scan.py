"""Scan of plain JPEGs for their seek tables, which the index keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bushel.codecs import holds_image
from bushel.core.index.table import INLINE, MISSING, Column, SeekTables, ShardIndex
from bushel.core.parallel import cpu_count, parallel_map
from bushel.kernels import JpegError, jpeg_seek_table
from bushel.storage import AnyPath, Extents, File, open_file, read_many

__all__ = ["NO_SEEK_TABLES", "has_seek_tables", "with_seek_tables"]

NO_SEEK_TABLES = SeekTables(np.zeros(1, np.int64), np.zeros(0, np.uint64))
"""The tables of no rows."""

_CHUNK_BYTES, _CHUNK_ROWS = 4 << 20, 256
"""What one thread reads and decodes at once."""

U64 = npt.NDArray[np.uint64]


def has_seek_tables(index: ShardIndex) -> bool:
    """Return whether any field has seek tables."""
    return any(column.seek is not None for column in index.columns.values())


def with_seek_tables(
    index: ShardIndex,
    path_of: Callable[[int], AnyPath],
    known: Mapping[str, SeekTables] | None = None,
    *,
    workers: int | None = None,
) -> ShardIndex:
    """Return the index of a shard with the seek tables of its plain JPEGs. The images are read and decoded once.

    Args:
        index: The table of the shard.
        path_of: Returns the path of one of the shard's files, given its number.
        known: Field to the tables of its first rows, for a shard that has grown: only the other rows are read, and only
            of these fields. By default, all rows of every image field without tables.
        workers: Number of threads. Default: the CPUs that this process may use.

    Returns:
        The same index if nothing was missing.

    Raises:
        ExtentError: The files are shorter than the index says.
    """
    if known is None:
        known = {
            name: NO_SEEK_TABLES
            for name, column in index.columns.items()
            if column.seek is None and column.file != INLINE and holds_image(column.codec)
        }
    found = {}
    for name, tables in known.items():
        column = index.columns[name]
        found[name] = replace(column, seek=_scan(column, open_file(path_of(column.file)), tables, workers))
    return replace(index, columns={**index.columns, **found}) if found else index


def _scan(column: Column, file: File, known: SeekTables, workers: int | None) -> SeekTables:
    done = len(known.starts) - 1
    whole = column.length != MISSING
    if column.fragments is not None:
        whole[column.fragments.rows] = False
    rows = np.flatnonzero(whole[done:]) + done
    sizes = np.zeros(column.rows, np.int64)
    sizes[:done] = np.diff(known.starts)
    words = [known.words]

    def tables_of(rows: npt.NDArray[np.int64]) -> list[U64]:
        datas = read_many([file], Extents(0, column.offset[rows], column.length[rows]))
        return [_table(data) for data in datas if data is not None]

    chunks = list(_chunks(rows, column.length))
    found: Iterator[list[U64]] = parallel_map(tables_of, chunks, workers=workers or cpu_count(), name="bushel-seek")
    for chunk, tables in zip(chunks, found, strict=True):
        sizes[chunk] = [len(table) for table in tables]
        words += tables
    starts = np.zeros(column.rows + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return SeekTables(starts, np.concatenate(words))


def _chunks(rows: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    first = size = 0
    for at, length in enumerate(lengths[rows].tolist()):
        if at > first and (size + length > _CHUNK_BYTES or at - first >= _CHUNK_ROWS):
            yield rows[first:at]
            first, size = at, 0
        size += length
    if first < len(rows):
        yield rows[first:]


def _table(data: bytes) -> U64:
    try:
        return jpeg_seek_table(data)
    except JpegError:  # not a JPEG, or a damaged one, which reading it will report
        return np.zeros(0, np.uint64)
