"""LeRobot's datasets, version 3, read where they lie: a frame is a sample.

A shard is a Parquet file with rows, and the videos that have the pictures of its rows (`table`).
docs/format-lerobot.md says what is read.
"""

from __future__ import annotations

import numpy as np

from bushel._index.table import Shard, ShardIndex
from bushel.containers.base import ReadOptions
from bushel.containers.lerobot.meta import HINT, Meta, load_meta
from bushel.containers.lerobot.table import Made, made_of, numbers_of
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError
from bushel.storage import AnyPath

__all__ = ["CONTAINER"]

_DRIFT = 1e-4
"""Seconds between a row and its frame that LeRobot allows."""


class _LeRobot:
    name = "lerobot"
    suffixes = ()
    file_names = ("meta",)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return a shard for each file with rows, in the order of episodes."""
        meta = load_meta(path)
        if meta is None:
            return None
        own, first = np.unique(meta.episodes.data, axis=0, return_index=True)
        return [_shard(path, meta, *own[number].tolist()) for number in np.argsort(first).tolist()]

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file with rows. Of videos, the tables of packets are read."""
        made = made_of(shard, options)
        if made.errors:
            raise made.errors[0]
        return made.index

    def index_reads(self, shard: Shard) -> tuple[int, ...]:
        """Return the numbers of the files that are read whole to make the table."""
        return tuple(number for number, name in enumerate(shard.files) if name.endswith(".parquet"))

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault, /) -> Recovered:
        """Return a table in which frames that the videos lack are missing."""
        made = made_of(shard, options)
        for error in made.errors:
            fault(error)
        return Recovered(made.index, ~made.lost)

    def faults(self, shard: Shard) -> list[FormatError]:
        """Return errors for episodes of another length than listed, and for times that drift."""
        made = made_of(shard, ReadOptions())
        return [*_miscounted(shard, made), *_drifting(shard, made)]


CONTAINER = _LeRobot()


def _shard(root: AnyPath, meta: Meta, chunk: int, number: int) -> Shard:
    own = meta.episodes_of(chunk, number)
    videos = [
        meta.video(camera, *pair) for camera in meta.cameras for pair in np.unique(own.videos[camera], axis=0).tolist()
    ]
    name = meta.data_file(chunk, number)
    return Shard(root, name, (name, *meta.files, *videos))


def _miscounted(shard: Shard, made: Made) -> list[FormatError]:
    counts = np.bincount(made.episode, minlength=len(made.episodes.index))
    return [
        FormatError(
            f"episode {made.episodes.index[number]} has {counts[number]} rows, and the metadata list "
            f"{made.episodes.length[number]}",
            file=str(shard.path(0)),
            hint=HINT,
        )
        for number in np.flatnonzero(counts != made.episodes.length).tolist()
    ]


def _drifting(shard: Shard, made: Made) -> list[FormatError]:
    """Return an error for times that do not follow the rate, and for each camera whose frames are shown at others."""
    seconds = numbers_of(made.index, "timestamp", shard).astype(np.float64)
    away = {
        name: (own.away, "the frame of camera {name!r} is shown {away:.6f} seconds from the time of the row")
        for name, own in made.cameras.items()
    }
    if "frame_index" in made.index.columns:
        steps = numbers_of(made.index, "frame_index", shard).astype(np.float64) / made.meta.fps
        text = f"its time differs by {{away:.6f}} seconds from what {made.meta.fps:g} frames per second give"
        away["timestamp"] = np.abs(seconds - steps), text
    found = []
    for name, (own, text) in away.items():
        rows = np.flatnonzero(own > _DRIFT)
        if len(rows):
            worst = int(rows[own[rows].argmax()])
            said = text.format(name=name, away=own[worst])
            message = (
                f"{len(rows)} rows drift; row {worst}, of episode {made.episodes.index[made.episode[worst]]}: {said}"
            )
            hint = f"LeRobot allows {_DRIFT:g} seconds: record or encode the episodes again"
            found.append(FormatError(message, file=str(shard.path(0)), hint=hint))
    return found
