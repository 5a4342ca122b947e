"""Read the items of gulp files, whole or damaged.

In a damaged chunk, the items are read whose entries are valid and whose frames are in the data.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from bushel._index.table import MISSING, FieldExtents, Keys, Shard, ShardIndex, stamps
from bushel._runtime.arrays import I64, Bools, offsets_of
from bushel.containers.base import ReadOptions
from bushel.containers.gulp.gmeta import (
    Gmeta,
    frames_field,
    meta_columns,
    parse_entries,
    parse_gmeta,
)
from bushel.containers.recovery import Fault, Recovered, sound_ranges
from bushel.errors import FormatError, SpecError
from bushel.spec import Field
from bushel.storage import File, open_file

if TYPE_CHECKING:
    from bushel.storage import Blocks

FRAMES, META = Field("frames", "jpg", sequence=True), Field("meta", "json")
"""The fields of items unless they are declared otherwise."""
DATA, TABLE = 0, 1
"""Numbers of the two files of a chunk."""


def frames_of(parsed: Gmeta) -> tuple[I64, I64]:
    """Return offset, padding and length of all frames, int64[frames, 3], and int64[items + 1], where items start."""
    counts = np.fromiter(
        (len(item.frame_info) for item in parsed.items.values()), np.int64, len(parsed.items)
    )
    starts = offsets_of(counts)
    numbers = chain.from_iterable(
        chain.from_iterable(item.frame_info for item in parsed.items.values())
    )
    return np.fromiter(numbers, np.int64, 3 * int(starts[-1])).reshape(-1, 3), starts


def index_items(
    shard: Shard,
    files: list[File],
    text: bytes,
    parsed: Gmeta,
    frames: I64,
    starts: I64,
    options: ReadOptions,
) -> ShardIndex:
    """Return the table of checked items."""
    table = files[TABLE]
    offset = np.ascontiguousarray(frames[:, 0])
    try:
        keys = Keys.of(parsed.items)
    except UnicodeEncodeError as error:
        raise FormatError(
            f"the id {error.object!r} is invalid text", file=table.path, hint=hint(table)
        ) from error
    spec = {"frames": FRAMES, "meta": META} if options.spec is None else options.spec
    field = frames_field(spec)
    where = (text, TABLE) if parsed.inline is None else (parsed.inline, len(files))
    meta_fields = meta_columns(
        parsed, *where, [other for other in spec.values() if other is not field]
    )
    blocks: tuple[Blocks, ...] = ()
    if parsed.inline is not None:
        from bushel.storage.blocks import Blocks

        blocks = (Blocks.in_table(np.frombuffer(parsed.inline, np.uint8)),)
    index = ShardIndex(
        samples=len(parsed.items),
        files=stamps(shard, files),
        fields={
            name: _frames_column(field, offset, frames[:, 2] - frames[:, 1], starts)
            if name == field.name
            else meta_fields[name]
            for name in spec
        },
        container="gulp",
        keys=keys,
        blocks=blocks,
    ).check(table.path)
    if options.checksums:
        from bushel.containers.checksums import with_checksums

        return with_checksums(index, files, report=options.report)
    return index


def _frames_column(field: Field, offset: I64, length: I64, starts: I64) -> FieldExtents:
    """Return the frames as a sequence, or, for a dataset of images, the first frame of each item."""
    if field.sequence:
        return FieldExtents(field, field.codec, DATA, offset, length, starts=starts)
    first, counts = starts[:-1], starts[1:] - starts[:-1]
    if (counts > 1).any():
        raise SpecError(
            f"items have up to {int(counts.max())} frames: declare {field.name!r} as"
            f" {field.codec}[]"
        )
    at = np.minimum(first, max(len(offset) - 1, 0))
    if not len(offset):
        return FieldExtents(
            field, field.codec, DATA, np.zeros_like(first), np.full_like(first, MISSING)
        )
    return FieldExtents(
        field, field.codec, DATA, offset[at], np.where(counts == 1, length[at], MISSING)
    )


def hint(file: File) -> str:
    """Return the hint for errors about a damaged file."""
    return f"run `bushel verify` on {file.path.rpartition('/')[0] or '.'}"


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
