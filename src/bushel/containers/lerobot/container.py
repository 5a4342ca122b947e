"""LeRobot's datasets, version 3, read in place: a frame is a sample.

A shard is a Parquet file with rows, and the videos that have the pictures of its rows (`table`). The
table of the rows is made by `parquet`, with a further field `task`, which has the text of each
row's task.
docs/format-lerobot.md has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.clip_frames import ClipFrames
from bushel._index.columns import LONGEST_TEXT, Column
from bushel._index.shard import Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import F64, I64, Bools, if_any, joined
from bushel._runtime.parallel import map_all
from bushel.containers.base import Container, ReadOptions
from bushel.containers.parquet.container import CONTAINER as PARQUET
from bushel.containers.plain_table import with_values
from bushel.containers.recovery import Fault, Recovered
from bushel.containers.references import with_files
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath, Blocks, open_file

from .camera import Shots, Video, read_packets, regions_of, shots_of
from .meta import HINT, INFO, Episodes, Meta, load_meta, numbers_of

_READERS = 8
_TASK, _EPISODE = "task", "episode_index"


class Rows(Struct, frozen=True):
    """One file of rows."""

    shard: Shard
    table: ShardIndex  # the table of the rows, without cameras
    meta: Meta  # the facts about the dataset
    episodes: Episodes  # the episodes of the shard
    episode: I64  # int64[rows], the episode of each row by its place in `episodes`
    cameras: dict[str, Shots]  # the frames of each camera
    errors: list[FormatError]  # the errors of the videos


def rows_of(shard: Shard, options: ReadOptions) -> Rows:
    """Read the rows of a shard, and the tables of packets of its videos.

    Raises:
        FormatError: The rows or the metadata are damaged. Errors of videos are in the result.
    """
    meta, listed = load_meta(shard.root), {}
    if meta is not None:
        pairs = np.unique(meta.episodes.data, axis=0).tolist()
        listed = {meta.data_file(*pair): pair for pair in pairs}
    if meta is None or shard.files[0] not in listed:
        raise FormatError("its metadata do not list this file any more", shard.path(0), hint=HINT)
    episodes = meta.episodes_of(*listed[shard.files[0]])
    with _all_there(shard):
        table_file = replace(shard, files=shard.files[:1])
        parquet = PARQUET.index(table_file, replace(options, spec=None))
        files = list(map(open_file, shard.paths[1:]))
    further = stamps(replace(shard, files=shard.files[1:]), files)
    table = _with_tasks(with_files(parquet, further), meta, shard)
    episode_numbers = numbers_of(table, _EPISODE, shard).astype(np.int64)
    what = "row %d belongs to episode %d, which the metadata do not list for this file"
    episode = _places(episode_numbers, episodes.index, what, shard)
    seconds = numbers_of(table, "timestamp", shard).astype(np.float64)
    errors: list[FormatError] = []
    cameras = {
        camera: _shots(shard, meta, episodes, camera, episode, seconds, errors)
        for camera in meta.cameras
    }
    return Rows(shard, table, meta, episodes, episode, cameras, errors)


@contextmanager
def _all_there(shard: Shard) -> Iterator[None]:
    """Let a missing file be damage of the dataset: its metadata give the names of files."""
    try:
        yield
    except FileNotFoundError as error:
        missing = (path for path in shard.paths if not path.exists())
        path = str(next(missing, shard.path(0)))
        raise FormatError("a file of the dataset is missing", path, hint=HINT) from error


def _places(numbers: I64, listed: I64, what: str, shard: Shard) -> I64:
    """Return the place of each number among the listed ones. Raise FormatError for the first one that is not there."""
    place: I64 = np.minimum(listed.searchsorted(numbers), len(listed) - 1)
    wrong = listed[place] != numbers
    if wrong.any():
        row = int(wrong.argmax())
        raise FormatError(what % (row, numbers[row]), shard.path(0), hint=HINT)
    return place


def _shots(
    shard: Shard,
    meta: Meta,
    episodes: Episodes,
    camera: str,
    episode: I64,
    seconds: F64,
    errors: list[FormatError],
) -> Shots:
    """Return the frames of a camera, and add an error for each video that lacks some."""
    pairs, which = np.unique(episodes.videos[camera], axis=0, return_inverse=True)
    names = [meta.video(camera, *pair) for pair in pairs.tolist()]
    usable, numbers = list[Video](), list[int]()
    for opened in map_all(lambda name: _video(shard, name), names, threads=_READERS):
        if isinstance(opened, Video):
            numbers.append(len(usable))
            usable.append(opened)
        else:
            numbers.append(-1)
            errors.append(opened)
    number_of = np.array(numbers, np.int64)
    video = which.reshape(-1)[episode]
    at = episodes.begin[camera][episode] + seconds
    shots = shots_of(usable, number_of[video], at, 0.5 / meta.fps)
    for number, name in enumerate(names):
        bad = np.flatnonzero((video == number) & (shots.packet < 0))
        if len(bad) and number_of[number] >= 0:
            message = (
                f"it lacks the frames of {len(bad)} rows, the "
                f"first of row {bad[0]} at {at[bad[0]]:.6f} seconds"
            )
            path = str(shard.path(shard.files.index(name)))
            errors.append(FormatError(message, path, hint=HINT))
    return shots


def _video(shard: Shard, name: str) -> Video | FormatError:
    if name not in shard.files:  # the metadata have changed since the files were listed
        return FormatError(
            f"it names the video {name[:200]!r}, which is "
            "not among the files of this part of the dataset",
            shard.root / INFO,
            hint=HINT,
        )
    number = shard.files.index(name)
    with _all_there(shard):
        file = shard.open(number)
    try:
        packets = read_packets(file)
    except FormatError as error:
        return error
    read_video = Video.of(number, file.size, packets)
    message = (
        "its packets do not determine its frames: two have "
        "the same time, or the first is not a keyframe"
    )
    if read_video is None:
        return FormatError(message, file.path, hint=HINT)
    return read_video


def _with_tasks(rows: ShardIndex, meta: Meta, shard: Shard) -> ShardIndex:
    """Return the table with the field and the column `task`, if there are tasks."""
    if not meta.tasks or _TASK in rows.fields or "task_index" not in rows.columns:
        return rows
    task_numbers = numbers_of(rows, "task_index", shard).astype(np.int64)
    listed_tasks = np.array(sorted(meta.tasks), np.int64)
    what = "row %d has the task %d, which meta/tasks.parquet does not list"
    place = _places(task_numbers, listed_tasks, what, shard)
    texts = [meta.tasks[task] for task in listed_tasks.tolist()]
    stored_texts, ends = joined(texts)
    missing = np.diff(ends)[place] > LONGEST_TEXT
    codes = place.astype(np.uint32)
    column = Column("text", None, if_any(missing), codes, stored_texts, ends)
    return with_values(rows, Field(_TASK, "utf8"), texts, column, place)


_LONGEST = 220  # characters of the longest file name whose sidecar has a valid name
_DRIFT = 1e-4  # seconds between a row and its frame that LeRobot allows


class Frames(Container):
    """Datasets with a frame as a sample. With an episode as a sample, `shards` and `table` differ (`episodes`)."""

    name = "lerobot"

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return a shard for each file with rows, in the order of episodes."""
        meta = load_meta(path)
        if meta is None:
            return None
        if not len(meta.episodes.index):
            raise FormatError("its metadata list no episodes", path, hint=HINT)
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
        table, whole = (
            replace(rows.table, container=self.name),
            np.ones(len(rows.episode), np.bool_),
        )
        for camera, shots in rows.cameras.items():
            shown = np.flatnonzero(shots.packet >= 0)
            packet = shots.packet[shown]
            first, region = np.unique(shots.start[shown], return_inverse=True)
            last = first.copy()
            np.maximum.at(last, region, packet)
            regions = regions_of(shots.videos, first, last, region, packet)
            field = Field(camera, f"frame{rows.meta.cameras[camera]}")
            places = regions.begin[region], regions.lengths
            table = with_camera(table, field, regions.blocks, shown, *places)
            whole &= shots.packet >= 0
        return table.check(str(rows.shard.path(0))), whole

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
        raise FormatError(
            f"a file has a name of {len(longest)} characters: {longest[:80]!r}…",
            root / INFO,
            hint=HINT,
        )
    return Shard(root, name, (name, *meta.files, *videos))


def with_camera(
    table: ShardIndex,
    field: Field,
    blocks: Blocks,
    samples: I64,
    begin: I64,
    size: I64,
    frames: ClipFrames | None = None,
) -> ShardIndex:
    """Return a table with the field of a camera.

    Args:
        table: The table.
        field: The field.
        blocks: The block file with its values.
        samples: int64[n], the samples that have a value.
        begin: int64[n], where each value begins in the block file.
        size: int64[n], bytes of each.
        frames: Where the packets are in the values.
    """
    offset, length = np.zeros(table.samples, np.int64), np.full(table.samples, -1, np.int64)
    offset[samples], length[samples] = begin, size
    extents = FieldExtents(field, field.codec, table.next_file, offset, length, frames=frames)
    fields = {**table.fields, field.name: extents}
    return replace(table, fields=fields, blocks=(*table.blocks, blocks))


def _miscounted(rows: Rows) -> list[FormatError]:
    counts = np.bincount(rows.episode, minlength=len(rows.episodes.index))
    return [
        FormatError(
            f"episode {rows.episodes.index[number]} has {counts[number]} "
            f"rows, and the metadata list {rows.episodes.length[number]}",
            rows.shard.path(0),
            hint=HINT,
        )
        for number in np.flatnonzero(counts != rows.episodes.length).tolist()
    ]


def _drifting(rows: Rows) -> Iterator[FormatError]:
    """Yield an error for times that do not follow the rate, and for each camera whose frames are shown at others."""
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
            "its time differs by {away:.6f} seconds from "
            f"what {rows.meta.fps:g} frames per second give"
        )
        away["timestamp"] = np.abs(seconds - steps), text
    for name, (away_of_rows, text) in away.items():
        late = np.flatnonzero(away_of_rows > _DRIFT)
        if len(late):
            worst = int(late[away_of_rows[late].argmax()])
            said = text.format(name=name, away=away_of_rows[worst])
            message = (
                f"{len(late)} rows drift; row {worst}, of episode "
                f"{rows.episodes.index[rows.episode[worst]]}: {said}"
            )
            yield FormatError(
                message,
                rows.shard.path(0),
                hint=f"LeRobot allows {_DRIFT:g} seconds: record or encode the episodes again",
            )
