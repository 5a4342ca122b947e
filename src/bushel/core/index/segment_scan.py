"""Scan of tiled JPEGs for their segments, which the index keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bushel.codecs import holds_image
from bushel.core.index.table import INLINE, MISSING, Column, Segments, ShardIndex
from bushel.kernels import JpegError, jpeg_segment_offsets
from bushel.storage import AnyPath, File, open_file

__all__ = ["NO_SEGMENTS", "with_segments"]

NO_SEGMENTS = Segments(np.zeros(1, np.int64), np.zeros(0, np.uint32))
"""An empty segment table."""


def with_segments(
    index: ShardIndex, path_of: Callable[[int], AnyPath], known: Mapping[str, Segments] | None = None
) -> ShardIndex:
    """Return the index of a shard with the segments of its tiled JPEGs. The images are read once.

    Args:
        index: The table of the shard.
        path_of: Returns the path of one of the shard's files, given its number.
        known: Field to the segments of its first rows, for a shard that has grown: only the other rows are read, and
            only of these fields. By default, all rows of every plain image field without segments.

    Returns:
        The same index if nothing was missing.

    Raises:
        ExtentError: The files are shorter than the index says.
    """
    if known is None:
        known = {
            name: NO_SEGMENTS
            for name, column in index.columns.items()
            if column.segments is None and column.file != INLINE and column.starts is None and holds_image(column.codec)
        }
    found = {}
    for name, segments in known.items():
        column = index.columns[name]
        found[name] = replace(column, segments=_scan(column, open_file(path_of(column.file)), segments))
    return replace(index, columns={**index.columns, **found}) if found else index


def _scan(column: Column, file: File, known: Segments) -> Segments:
    done = len(known.starts) - 1
    whole = np.ones(column.rows, np.bool_)
    if column.fragments is not None:
        whole[column.fragments.rows] = False
    starts = np.zeros(column.rows + 1, np.int64)
    starts[: done + 1] = known.starts
    parts = [known.lengths]
    extents = zip(column.offset[done:].tolist(), column.length[done:].tolist(), strict=True)
    for row, (offset, length) in enumerate(extents, done):
        ends = _segments(file.read(offset, length)) if whole[row] and length != MISSING else np.zeros(0, np.int64)
        parts.append(np.diff(ends, prepend=0).astype(np.uint32))
        starts[row + 1] = starts[row] + len(ends)
    return Segments(starts, np.concatenate(parts))


def _segments(data: bytes) -> npt.NDArray[np.int64]:
    try:
        return jpeg_segment_offsets(data)
    except JpegError:  # not a JPEG, or a damaged one, which reading it will report
        return np.zeros(0, np.int64)
