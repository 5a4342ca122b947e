"""Read the items of gulp files."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from bushel._index.table import MISSING, FieldExtents, Keys, Shard, ShardIndex, stamps
from bushel._runtime.arrays import I64, offsets_of
from bushel.containers.base import ReadOptions
from bushel.containers.gulp.gmeta import Gmeta, frames_field, meta_columns
from bushel.errors import FormatError, SpecError
from bushel.spec import Field
from bushel.storage import File

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
