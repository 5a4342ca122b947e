"""LeRobot's datasets, version 3, read in place: a frame is a sample.

A shard is a Parquet file with rows, and the videos that have the pictures of its rows (`table`).
docs/format-lerobot.md has the rules.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bushel._index.table import FieldExtents, Shard, ShardIndex
from bushel._runtime.arrays import Bools
from bushel.containers.base import Container, ReadOptions
from bushel.containers.lerobot.camera import Regions
from bushel.containers.lerobot.meta import HINT, INFO, Meta, load_meta
from bushel.containers.lerobot.rows import Rows, numbers_of, rows_of
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath

_LONGEST = 220  # characters of the longest file name whose sidecar has a valid name
_DRIFT = 1e-4  # seconds between a row and its frame that LeRobot allows


class Frames(Container):
    """Datasets with a frame as a sample. With an episode as a sample, `shards` and `table` differ (`episodes`)."""

    name = "lerobot"
    file_names = ("meta",)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return a shard for each file with rows, in the order of episodes."""
        meta = load_meta(path)
        if meta is None:
            return None
        if not len(meta.episodes.index):
            raise FormatError("its metadata list no episodes", file=str(path), hint=HINT)
        pairs, first = np.unique(meta.episodes.data, axis=0, return_index=True)
        return [
            _shard(path, meta, *pairs[number].tolist()) for number in np.argsort(first).tolist()
        ]

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file with rows. Only the tables of packets are read of videos."""
        rows = rows_of(shard, options)
        if rows.errors:
            raise rows.errors[0]
        return self.table(rows)[0]

    def table(self, rows: Rows) -> tuple[ShardIndex, Bools]:
        """Return the table of some rows, and bool[samples], which samples have all of their frames."""
        return _table(rows), ~rows.lost

    def index_reads(self, shard: Shard) -> tuple[int, ...]:
        """Return the numbers of the files that are read whole to make the table."""
        return tuple(number for number, name in enumerate(shard.files) if name.endswith(".parquet"))

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
        """Return a table in which frames that the videos lack are missing: of an episode, all frames of the camera."""
        rows = rows_of(shard, options)
        for error in rows.errors:
            fault(error)
        return Recovered(*self.table(rows))

    def faults(self, shard: Shard) -> list[FormatError]:
        """Return errors for episodes of another length than listed, and for times that drift."""
        rows = rows_of(shard, ReadOptions())
        return [*_miscounted(rows), *_drifting(rows)]


CONTAINER = Frames()


def _shard(root: AnyPath, meta: Meta, chunk: int, number: int) -> Shard:
    episodes = meta.episodes_of(chunk, number)
    videos = [
        meta.video(camera, *pair)
        for camera in meta.cameras
        for pair in np.unique(episodes.videos[camera], axis=0).tolist()
    ]
    name = meta.data_file(chunk, number)
    if (longest := max((name, *videos), key=len)) and len(longest) > _LONGEST:
        message = f"a file has a name of {len(longest)} characters: {longest[:80]!r}…"
        raise FormatError(message, file=str(root / INFO), hint=HINT)
    return Shard(root, name, (name, *meta.files, *videos))


def _table(rows: Rows) -> ShardIndex:
    """Return the table with a row for each frame."""
    table = rows.table
    fields, blocks = dict(table.fields), list(table.blocks)
    for camera, shots in rows.cameras.items():
        shown = np.flatnonzero(shots.packet >= 0)
        packet = shots.packet[shown]
        first, region = np.unique(shots.start[shown], return_inverse=True)
        last = first.copy()
        np.maximum.at(last, region, packet)
        regions = Regions(shots.videos, first, last, region, packet)
        expanded, begin = regions.blocks()
        offset, length = np.zeros(table.samples, np.int64), np.full(table.samples, -1, np.int64)
        offset[shown], length[shown] = begin[region], regions.lengths()
        number = len(table.files) + len(blocks)
        codec = f"frame{rows.meta.cameras[camera]}"
        fields[camera] = FieldExtents(Field(camera, codec), codec, number, offset, length)
        blocks.append(expanded)
    whole = replace(table, container=CONTAINER.name, fields=fields, blocks=tuple(blocks))
    return whole.check(str(rows.shard.path(0)))


def _miscounted(rows: Rows) -> list[FormatError]:
    counts = np.bincount(rows.episode, minlength=len(rows.episodes.index))
    return [
        FormatError(
            f"episode {rows.episodes.index[number]} has {counts[number]} rows, and the metadata"
            " list "
            f"{rows.episodes.length[number]}",
            file=str(rows.shard.path(0)),
            hint=HINT,
        )
        for number in np.flatnonzero(counts != rows.episodes.length).tolist()
    ]


def _drifting(rows: Rows) -> list[FormatError]:
    """Return an error for times that do not follow the rate, and for each camera whose frames are shown at others."""
    seconds = numbers_of(rows.table, "timestamp", rows.shard).astype(np.float64)
    away = {
        name: (
            shots.away,
            "the frame of camera {name!r} is shown {away:.6f} seconds from the time of the row",
        )
        for name, shots in rows.cameras.items()
    }
    if "frame_index" in rows.table.columns:
        steps = numbers_of(rows.table, "frame_index", rows.shard).astype(np.float64) / rows.meta.fps
        text = (
            f"its time differs by {{away:.6f}} seconds from what {rows.meta.fps:g} frames per"
            " second give"
        )
        away["timestamp"] = np.abs(seconds - steps), text
    errors = []
    for name, (away_of_rows, text) in away.items():
        late = np.flatnonzero(away_of_rows > _DRIFT)
        if len(late):
            worst = int(late[away_of_rows[late].argmax()])
            said = text.format(name=name, away=away_of_rows[worst])
            message = (
                f"{len(late)} rows drift; row {worst}, of episode"
                f" {rows.episodes.index[rows.episode[worst]]}: {said}"
            )
            hint = f"LeRobot allows {_DRIFT:g} seconds: record or encode the episodes again"
            errors.append(FormatError(message, file=str(rows.shard.path(0)), hint=hint))
    return errors
