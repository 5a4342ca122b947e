"""Scan of video clips for their packets, which the index keeps."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from bushel.codecs import holds_clip
from bushel.core.index.clip_frames import ClipFrames, joined
from bushel.core.index.table import Column
from bushel.core.index.value_scan import ValueScan, rows_in_one_piece
from bushel.core.parallel import parallel_map
from bushel.storage import File

if TYPE_CHECKING:
    from bushel.codecs.clip_parts import ClipPackets

__all__ = ["FRAMES", "has_pyav"]


def has_pyav() -> bool:
    """Return whether PyAV is installed, which finds the packets."""
    return find_spec("av") is not None


def _frames(column: Column, file: File, known: ClipFrames | None, workers: int) -> ClipFrames:
    from bushel.codecs.clip_scan import scan_clip  # raises SpecError without PyAV

    def scan(row: int) -> ClipPackets | None:
        return scan_clip(column.codec, file.read(int(column.offset[row]), int(column.length[row])))

    done = 0 if known is None else known.rows
    rows = rows_in_one_piece(column, done).tolist()
    clips = dict(zip(rows, parallel_map(scan, rows, workers=workers, name="bushel-scan"), strict=True))
    return joined(known, (clips.get(row) for row in range(done, column.rows)))


FRAMES = ValueScan("frames", lambda column: column.starts is None and holds_clip(column.codec), _frames)
"""The packets of clips. The clips are read, and not decoded."""
