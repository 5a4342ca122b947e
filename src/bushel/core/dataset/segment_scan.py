"""Looking for the segments of tiled JPEGs, for the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bushel.codecs import holds_image
from bushel.containers.base import Shard
from bushel.core.index.table import INLINE, MISSING, Column, Segments, ShardIndex
from bushel.kernels import JpegError, jpeg_segment_offsets
from bushel.storage import AnyPath, File, open_file

__all__ = ["NO_SEGMENTS", "with_more_segments", "with_segments"]

NO_SEGMENTS = Segments(np.zeros(1, np.int64), np.zeros(0, np.uint32))
"""Those of no rows."""


def with_segments(index: ShardIndex, shard: Shard) -> ShardIndex:
    """The index of a shard with the segments of its tiled JPEGs: of all plain fields of images. Reads these once.

    Returns:
        The same index where it knows them all.

    Raises:
        ExtentError: The files are shorter than the index says.
    """
    found = {
        name: replace(column, segments=_scan(column, open_file(shard.path(column.file))))
        for name, column in index.columns.items()
        if column.segments is None and column.file != INLINE and column.starts is None and holds_image(column.codec)
    }
    return replace(index, columns={**index.columns, **found}) if found else index


def with_more_segments(index: ShardIndex, folder: AnyPath, known: Mapping[str, Segments]) -> ShardIndex:
    """The index of a shard that has grown, with the segments of all rows. Reads only those that are new.

    Args:
        index: It has these fields.
        folder: Where the shard's files are.
        known: Field to the segments of its first rows.
    """
    found = {}
    for name, segments in known.items():
        column = index.columns[name]
        file = open_file(folder / index.files[column.file].name)
        found[name] = replace(column, segments=_scan(column, file, segments))
    return replace(index, columns={**index.columns, **found})


def _scan(column: Column, file: File, known: Segments = NO_SEGMENTS) -> Segments:
    done = len(known.starts) - 1
    whole = np.ones(column.rows, np.bool_)
    if column.fragments is not None:
        whole[column.fragments.rows] = False
    starts = np.zeros(column.rows + 1, np.int64)
    starts[: done + 1] = known.starts
    parts = [known.lengths]
    extents = zip(column.offset[done:].tolist(), column.length[done:].tolist(), strict=True)
    for row, (offset, length) in enumerate(extents, done):
        begins = _segments(file.read(offset, length)) if whole[row] and length != MISSING else np.zeros(0, np.int64)
        parts.append(np.diff(begins, prepend=0).astype(np.uint32))
        starts[row + 1] = starts[row] + len(begins)
    return Segments(starts, np.concatenate(parts))


def _segments(data: bytes) -> npt.NDArray[np.int64]:
    try:
        return jpeg_segment_offsets(data)
    except JpegError:  # an image of another kind, or a damaged one: whoever reads it will see
        return np.zeros(0, np.int64)
