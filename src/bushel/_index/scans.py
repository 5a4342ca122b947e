"""Scans of stored values, for facts that an index holds beside extents.

There are three kinds: segments of tiled JPEGs, seek tables of plain ones, and packets of video
clips. Each is an attribute of `FieldExtents`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import I64, U32, offsets_of
from bushel._runtime.parallel import parallel_map
from bushel._runtime.threads import cpu_count
from bushel.codecs import holds_clip, holds_image
from bushel.kernels import JpegError, jpeg_seek_table, jpeg_segment_offsets
from bushel.storage import Extents, File, read_many

from .clip_frames import ClipFrames, SeekTables, Segments, joined
from .column_scan import each_chunk, present_rows
from .table import FieldExtents, ShardIndex

if TYPE_CHECKING:
    from bushel.codecs.clip_parts import ClipPackets

_CHUNK_ROWS = 256  # number of rows that one thread reads and scans at once

T = TypeVar("T")

Scanned = Literal["segments", "frames", "seek"]
"""The attribute of `FieldExtents` that a scan fills."""


@dataclass(frozen=True, slots=True)
class ValueScan(Generic[T]):
    """One kind of scan of stored values."""

    attribute: Scanned  # the attribute of `FieldExtents` that holds it
    fits: Callable[[FieldExtents], bool]  # whether the values of a field can have it
    # reads the values of a field and returns it; the arguments are the extents, their file, the
    # known array of the first rows, which are not read again (None without one), and the number of
    # threads
    scan: Callable[[FieldExtents, File, T | None, int], T]

    def fields(self, index: ShardIndex) -> list[str]:
        """Return the fields that can have it."""
        return [name for name, column in index.fields.items() if self.fits(column)]

    def add(
        self, index: ShardIndex, file_of: Callable[[int], File], before: ShardIndex | None = None
    ) -> ShardIndex:
        """Return the index of a shard with the missing arrays of this kind. Values are read once.

        Args:
            index: The table of the shard.
            file_of: Opens a file or block file of the shard, given its number.
            before: The table of a shard that has grown since: only the values that came later are
                read.

        Returns:
            The same index if nothing was missing.

        Raises:
            ExtentError: A file is shorter than an extent in the index requires.
        """
        scanned = {}
        for name in self.fields(index):
            column = index.fields[name]
            if getattr(column, self.attribute) is None:
                if before is None:
                    scanned_before = None
                else:
                    scanned_before = getattr(before.fields.get(name), self.attribute, None)
                value: Any = self.scan(column, file_of(column.file), scanned_before, cpu_count())
                scanned[name] = replace(column, **{self.attribute: value})
        if scanned:
            return replace(index, fields={**index.fields, **scanned})
        return index


def scanned_in(index: ShardIndex) -> frozenset[Scanned]:
    """Return the kinds that an index holds for any of its fields."""
    kinds: tuple[Scanned, ...] = ("segments", "frames", "seek")
    return frozenset(
        kind
        for kind in kinds
        if any(getattr(column, kind) is not None for column in index.fields.values())
    )


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
    array_of: Callable[[bytes], np.ndarray],
    threads: int,
) -> tuple[I64, list[np.ndarray]]:
    """Return where the array of each row starts, after the arrays of the known rows, and the new arrays."""
    scanned = len(known) - 1
    sizes = np.zeros(column.rows, np.int64)
    sizes[:scanned] = np.diff(known)

    def arrays_of(rows: I64) -> list[np.ndarray]:
        datas = read_many([file], Extents(0, column.offset[rows], column.length[rows]))
        return [_array(data, array_of) for data in datas if data is not None]

    new_arrays = []
    for chunk, arrays in each_chunk(
        column, present_rows(column, scanned), arrays_of, threads, _CHUNK_ROWS
    ):
        sizes[chunk] = [len(array) for array in arrays]
        new_arrays += [array for array in arrays if len(array)]
    return offsets_of(sizes), new_arrays


def _array(data: bytes, array_of: Callable[[bytes], np.ndarray]) -> np.ndarray:
    try:
        return array_of(data)
    except JpegError:  # not a JPEG, or a damaged one, which reading it will report
        return np.zeros(0, np.uint8)


# Clips


def has_pyav() -> bool:
    """Return whether PyAV is installed, which finds the packets."""
    return find_spec("av") is not None


def _frames(column: FieldExtents, file: File, known: ClipFrames | None, threads: int) -> ClipFrames:
    from bushel.codecs.clip_parts import scan_clip  # raises MissingPackageError without PyAV

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
