"""LeRobot's datasets, version 3, with an episode as a sample: what `bushel.open(path, episodes=True)` reads.

Numbers of an episode's rows are one after another, so they are one array; the frames of a camera
are one value, and single frames of it can be read. See docs/format-lerobot.md for the types.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from bushel._index.columns import Column
from bushel._index.shard import Shard
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, NO_NUMBERS, Bools, selected
from bushel._runtime.messages import log_warning
from bushel.codecs import get_codec
from bushel.codecs.base import NumberLayout
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath

from .camera import Regions, regions_of
from .container import Frames, Rows, with_camera
from .meta import HINT, load_meta

# fields that have one value for an episode: the value of its first row
_ONCE = ("episode_index", "task")
_KINDS = {"signed": "int", "unsigned": "uint", "real": "float"}


class _Episodes(Frames):
    name = "lerobot-episodes"

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return a shard for each file with rows, with an index of its own."""
        shards = super().shards(path)
        if shards is None:
            return None
        return [replace(shard, name=f"episodes/{shard.name}") for shard in shards]

    def table(self, rows: Rows) -> tuple[ShardIndex, Bools]:
        """Return the table of the episodes in some rows, and bool[episodes], which ones have all of their frames.

        Raises:
            FormatError: The rows of an episode do not follow each other.
        """
        table, path = rows.table, str(rows.shard.path(0))
        steps = np.diff(rows.episode)
        if (steps < 0).any():
            row = int(steps.argmin()) + 1
            raise FormatError(
                f"row {row} belongs to an episode before the one of row {row - 1}", path, hint=HINT
            )
        first_rows = np.flatnonzero(np.diff(rows.episode, prepend=-1))
        starts = np.append(first_rows, len(rows.episode))
        index = replace(
            table,
            samples=len(first_rows),
            container=self.name,
            fields={
                name: _field(column, starts)
                for name, column in table.fields.items()
                if _is_whole(column, path)
            },
            columns={
                name: _first(values, first_rows)
                for name, values in table.columns.items()
                if name in _ONCE
            },
        )
        whole = np.ones(len(first_rows), np.bool_)
        for camera, shots in rows.cameras.items():
            lost = np.add.reduceat(shots.packet < 0, first_rows, dtype=np.int64) > 0
            regions, chosen = _regions(rows, camera, starts, ~lost)
            sizes = np.diff(np.append(regions.begin, regions.blocks.size))
            frames = regions.frames if len(chosen) == len(first_rows) else None
            field = Field(camera, f"frames{rows.meta.cameras[camera]}")
            places = chosen, regions.begin, sizes
            index = with_camera(index, field, regions.blocks, *places, frames=frames)
            whole &= ~lost
        return index.check(path), whole

    def rate(self, shard: Shard) -> float:
        """Return the frames in a second. Raise FormatError if the metadata are missing or damaged."""
        meta = load_meta(shard.root)
        if meta is None:
            raise FormatError("the metadata are gone", shard.path(0), hint=HINT)
        return meta.fps


CONTAINER = _Episodes()


def _regions(rows: Rows, camera: str, starts: I64, whole: Bools) -> tuple[Regions, I64]:
    """Return the packets of the episodes that have all of their frames, and the numbers of these episodes."""
    shots, numbers = rows.cameras[camera], np.flatnonzero(whole)
    chosen = np.repeat(whole, np.diff(starts))
    packet, begin = shots.packet[chosen], starts[:-1][numbers]
    place = np.cumsum(chosen)[begin] - 1
    episode = np.repeat(np.arange(len(numbers)), np.diff(starts)[numbers])
    times = np.concatenate([NO_NUMBERS, *(video.packets.times for video in shots.videos)])[packet]
    again = (np.diff(times) <= 0) & (np.diff(episode) == 0)
    if again.any():
        row = int(np.flatnonzero(chosen)[int(again.argmax()) + 1])
        message = f"rows {row - 1} and {row} of an episode have one frame of camera {camera!r}"
        raise FormatError(
            message,
            rows.shard.path(0),
            hint="run `bushel verify` on the dataset; without "
            "episodes=True, every row has its nearest frame",
        )
    first = np.minimum.reduceat(shots.start[chosen], place)
    last = np.maximum.reduceat(packet, place)
    return regions_of(shots.videos, first, last, episode, packet), numbers


def _is_whole(extents: FieldExtents, path: str) -> bool:
    """Return whether every row has a value, so that an episode has a list of them; say it where one has none."""
    missing = np.flatnonzero(extents.length < 0)
    if len(missing) and extents.field.name not in _ONCE:
        name = extents.field.name
        log_warning(
            "%s: row %d has no value in column %r: episodes are read without it",
            path,
            missing[0],
            name,
        )
        return False
    return True


def _field(extents: FieldExtents, starts: I64) -> FieldExtents:
    """Return the extents of a field by episode: one value, one array, or a sequence of the values of rows."""
    name, first = extents.field.name, starts[:-1]
    if name in _ONCE:
        return replace(
            extents, offset=extents.offset[first], length=extents.length[first], crc32=None
        )
    item = _item(extents)
    if item is None:
        return replace(extents, field=replace(extents.field, sequence=True), starts=starts)
    ends = np.append(extents.offset + extents.length, 0)
    offset = extents.offset[first]
    return replace(
        extents,
        field=Field(name, item),
        codec=item,
        offset=offset,
        length=ends[starts[1:] - 1] - offset,
        crc32=None,
    )


def _item(extents: FieldExtents) -> str | None:
    """Return the codec of the numbers of some rows, if they follow each other and have one size; else None."""
    if (
        not len(extents.length)
        or extents.starts is not None
        or (extents.length != extents.length[0]).any()
    ):
        return None
    size = int(extents.length[0])
    if size <= 0 or (np.diff(extents.offset) != size).any():
        return None
    layout = get_codec(extents.codec).layout
    if (
        isinstance(layout, NumberLayout)
        and layout.length == size
        and not layout.header
        and layout.kind in _KINDS
    ):
        return f"array({_KINDS[layout.kind]}{8 * size},-1)"
    if extents.codec.startswith("array(") and extents.codec.endswith(",-1)"):
        width = np.dtype(extents.codec[6:-4]).itemsize
        return f"{extents.codec[:-3]}-1,{size // width})"
    return None


def _first(column: Column, rows: I64) -> Column:
    """Return the column with the values of these rows."""
    parts = ("values", "missing", "codes", "types")
    return replace(column, **{part: selected(getattr(column, part), rows) for part in parts})
