"""Recovering a damaged gulp chunk: the items whose entries are valid and whose frames lie in the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bushel._index.table import Shard
from bushel._runtime.arrays import I64, Bools, offsets_of
from bushel.containers.base import ReadOptions
from bushel.containers.gulp.gmeta import Gmeta, parse_entries, parse_gmeta
from bushel.containers.gulp.reading import frames_of, index_items
from bushel.containers.recovery import Fault, Recovered, sound_ranges
from bushel.errors import FormatError
from bushel.storage import File, open_file


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the items that no wrong entry touches.

    Raises:
        FormatError: Nothing can be recovered.
    """
    data, table = open_file(shard.path(0)), open_file(shard.path(1))
    text = table.read(0, table.size)
    lost = 0

    def lose(error: FormatError) -> None:
        nonlocal lost
        lost += 1
        fault(error)

    try:
        parsed = parse_gmeta(text, table.path)
    except FormatError:
        if text[:1] == b"\x80":
            raise
        parsed = parse_entries(text, table.path, lose)
    whole = _whole_items(parsed, data, fault)
    whole_items = {
        name: item
        for (name, item), good in zip(parsed.items.items(), whole.tolist(), strict=True)
        if good
    }
    left = replace(
        parsed, items=whole_items, offset=parsed.offset[whole], length=parsed.length[whole]
    )
    before: I64 = np.cumsum(whole) - whole
    gaps = tuple(
        (int(before[row]), list(parsed.items)[row]) for row in np.flatnonzero(~whole).tolist()
    )
    index = index_items(shard, [data, table], text, left, *frames_of(left), options)
    return Recovered(index, np.ones(index.samples, np.bool_), lost + len(gaps), gaps)


def _whole_items(parsed: Gmeta, data: File, fault: Fault) -> Bools:
    """Return which items have frames in the file that overlap no other frame."""
    frames, starts = frames_of(parsed)
    offset, pad, length = frames.T
    inside = (
        (length <= data.size)
        & (offset <= data.size - np.minimum(length, data.size))
        & (pad <= length)
    )
    rows = np.flatnonzero(inside)
    sound = np.zeros(len(frames), np.bool_)
    sound[rows[sound_ranges(offset[rows], offset[rows] + length[rows], data.size)]] = True
    wrong = offsets_of(~sound)
    whole: Bools = wrong[starts[1:]] == wrong[starts[:-1]]
    names = list(parsed.items)
    for number in np.flatnonzero(~whole).tolist():
        row = int(starts[number] + np.flatnonzero(~sound[starts[number] : starts[number + 1]])[0])
        what = "is not inside the file"
        if inside[row]:
            what = "overlaps another frame"
        message = f"item {names[number]!r} is lost: its frame {row - int(starts[number])} {what}"
        fault(FormatError(message, file=data.path, offset=int(offset[row])))
    return whole
