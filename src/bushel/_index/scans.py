"""The scans of values: segments of tiled JPEGs, seek tables of plain ones, and packets of video clips."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bushel._index.clip_frames import ClipFrames, joined
from bushel._index.jpeg_tables import SeekTables, Segments
from bushel._index.table import FieldExtents
from bushel._index.value_scan import ValueScan, each_chunk, present_rows
from bushel._runtime.arrays import I64, U32, offsets_of
from bushel._runtime.parallel import parallel_map
from bushel.codecs import holds_clip, holds_image
from bushel.kernels import JpegError, jpeg_seek_table, jpeg_segment_offsets
from bushel.storage import Extents, File, read_many

if TYPE_CHECKING:
    from bushel.codecs.clip_parts import ClipPackets

_CHUNK_ROWS = 256  # number of rows that one thread reads and scans at once


def _segments(column: FieldExtents, file: File, earlier: Segments | None, threads: int) -> Segments:
    earlier = earlier or Segments(np.zeros(1, np.int64), np.zeros(0, np.uint32))
    starts, lengths = _scan(column, file, earlier.starts, _lengths_of_segments, threads)
    return Segments(starts, np.concatenate([earlier.lengths, *lengths]))


def _lengths_of_segments(data: bytes) -> U32:
    return np.diff(jpeg_segment_offsets(data), prepend=0).astype(np.uint32)


def _seek_tables(
    column: FieldExtents, file: File, earlier: SeekTables | None, threads: int
) -> SeekTables:
    earlier = earlier or SeekTables(np.zeros(1, np.int64), np.zeros(0, np.uint64))
    starts, words = _scan(column, file, earlier.starts, jpeg_seek_table, threads)
    return SeekTables(starts, np.concatenate([earlier.words, *words]))


SEGMENTS = ValueScan(
    "segments", lambda column: column.starts is None and holds_image(column.codec), _segments
)
"""The segments of tiled JPEGs. Elements of sequences have none."""

SEEK_TABLES = ValueScan("seek", lambda column: holds_image(column.codec), _seek_tables)
"""The seek tables of plain JPEGs. Each JPEG is decoded once."""


def _scan(
    column: FieldExtents,
    file: File,
    known: I64,
    array_of: Callable[[bytes], npt.NDArray[np.generic]],
    threads: int,
) -> tuple[I64, list[npt.NDArray[np.generic]]]:
    """Return where the array of each row starts, after the arrays of the known rows, and the new arrays."""
    scanned = len(known) - 1
    sizes = np.zeros(column.rows, np.int64)
    sizes[:scanned] = np.diff(known)

    def arrays_of(rows: I64) -> list[npt.NDArray[np.generic]]:
        datas = read_many([file], Extents(0, column.offset[rows], column.length[rows]))
        return [_array(data, array_of) for data in datas if data is not None]

    new_arrays = []
    for chunk, arrays in each_chunk(
        column, present_rows(column, scanned), arrays_of, threads, _CHUNK_ROWS
    ):
        sizes[chunk] = [len(array) for array in arrays]
        new_arrays += [array for array in arrays if len(array)]
    return offsets_of(sizes), new_arrays


def _array(
    data: bytes, array_of: Callable[[bytes], npt.NDArray[np.generic]]
) -> npt.NDArray[np.generic]:
    try:
        return array_of(data)
    except JpegError:  # not a JPEG, or a damaged one, which reading it will report
        return np.zeros(0, np.uint8)


# Clips


def has_pyav() -> bool:
    """Return whether PyAV is installed, which finds the packets."""
    return find_spec("av") is not None


def _frames(column: FieldExtents, file: File, known: ClipFrames | None, threads: int) -> ClipFrames:
    from bushel.codecs.clip_scan import scan_clip  # raises MissingPackageError without PyAV

    def scan(row: int) -> ClipPackets | None:
        return scan_clip(column.codec, file.read(int(column.offset[row]), int(column.length[row])))

    scanned = 0 if known is None else known.rows
    rows = present_rows(column, scanned).tolist()
    clips = dict(
        zip(rows, parallel_map(scan, rows, threads=threads, name="bushel-scan"), strict=True)
    )
    return joined(known, (clips.get(row) for row in range(scanned, column.rows)))


FRAMES = ValueScan(
    "frames", lambda column: column.starts is None and holds_clip(column.codec), _frames
)
"""The packets of clips. The clips are read, and not decoded."""
