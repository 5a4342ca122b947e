"""Scan of video clips for their packets, which the index keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from bushel.codecs import holds_clip
from bushel.core.index.clip_frames import ClipFrames, joined
from bushel.core.index.table import INLINE, MISSING, Column, ShardIndex
from bushel.core.parallel import cpu_count, parallel_map
from bushel.storage import AnyPath, File, open_file

if TYPE_CHECKING:
    from bushel.codecs.clip_parts import ClipPackets

__all__ = ["clip_fields", "has_pyav", "with_frames"]


def clip_fields(index: ShardIndex) -> list[str]:
    """Return the fields whose clips can have frames in the index."""
    return [
        name
        for name, column in index.columns.items()
        if column.file != INLINE and column.starts is None and holds_clip(column.codec)
    ]


def has_pyav() -> bool:
    """Return whether PyAV is installed, which finds the packets."""
    return find_spec("av") is not None


def with_frames(
    index: ShardIndex, path_of: Callable[[int], AnyPath], known: Mapping[str, ClipFrames] | None = None
) -> ShardIndex:
    """Return the index of a shard with the packets of its clips. The clips are read once, and not decoded.

    Args:
        index: The table of the shard.
        path_of: Returns the path of one of the shard's files, given its number.
        known: Field to the frames of its first clips, for a shard that has grown: only the others are read.

    Returns:
        The same index if nothing was missing.

    Raises:
        ExtentError: The files are shorter than the index says.
        SpecError: There are clips, and PyAV is not installed.
    """
    found = {}
    for name in clip_fields(index):
        column = index.columns[name]
        if column.frames is None:
            before = (known or {}).get(name)
            found[name] = replace(column, frames=_scan(column, open_file(path_of(column.file)), before))
    return replace(index, columns={**index.columns, **found}) if found else index


def _scan(column: Column, file: File, known: ClipFrames | None) -> ClipFrames:
    from bushel.codecs.clip_scan import scan_clip

    whole = column.length != MISSING
    if column.fragments is not None:
        whole[column.fragments.rows] = False

    def scan(row: int) -> ClipPackets | None:
        return scan_clip(column.codec, file.read(int(column.offset[row]), int(column.length[row])))

    done = 0 if known is None else known.rows
    rows = np.flatnonzero(whole[done:]) + done
    clips = dict(zip(rows.tolist(), parallel_map(scan, rows.tolist(), workers=cpu_count()), strict=True))
    return joined(known, (clips.get(row) for row in range(done, column.rows)))
