"""One file of rows of a LeRobot dataset: the table of its rows, and the frames of cameras that belong to them.

The table is made by `parquet`, with a further field `task`, which has the text of each row's task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bushel._index.columns import LONGEST_TEXT, Column
from bushel._index.table import FieldExtents, FileStamp, Shard, ShardIndex
from bushel._runtime.arrays import F64, I64, Bools, joined
from bushel._runtime.parallel import map_all
from bushel.containers.base import ReadOptions
from bushel.containers.lerobot.camera import Shots, Video, shots_of
from bushel.containers.lerobot.meta import HINT, INFO, Episodes, Meta, load_meta
from bushel.containers.lerobot.mp4 import read_packets
from bushel.containers.parquet import CONTAINER as PARQUET
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import Blocks, open_file

_READERS = 8
_TASK, _EPISODE = "task", "episode_index"


@dataclass(frozen=True, slots=True)
class Rows:
    """One file of rows."""

    shard: Shard
    table: ShardIndex  # the table of the rows, without cameras
    meta: Meta  # the facts about the dataset
    episodes: Episodes  # the episodes of the shard
    episode: I64  # int64[rows], the episode of each row by its place in `episodes`
    cameras: dict[str, Shots]  # the frames of each camera
    errors: list[FormatError]  # the errors of the videos

    @property
    def lost(self) -> Bools:
        """bool[rows], the rows for which a camera has no frame."""
        lost = np.zeros(len(self.episode), np.bool_)
        for shots in self.cameras.values():
            lost |= shots.packet < 0
        return lost


def rows_of(shard: Shard, options: ReadOptions) -> Rows:
    """Read the rows of a shard, and the tables of packets of its videos.

    Raises:
        FormatError: The rows or the metadata are damaged. Errors of videos are in the result.
    """
    meta = load_meta(shard.root)
    pairs = [] if meta is None else np.unique(meta.episodes.data, axis=0).tolist()
    pair_of_file = next(
        (pair for pair in pairs if meta is not None and meta.data_file(*pair) == shard.files[0]),
        None,
    )
    if meta is None or pair_of_file is None:
        raise FormatError(
            "its metadata do not list this file any more", file=str(shard.path(0)), hint=HINT
        )
    episodes = meta.episodes_of(*pair_of_file)
    with _all_there(shard):
        parquet = PARQUET.index(
            Shard(shard.root, shard.name, shard.files[:1]), replace(options, spec=None)
        )
        files = list(map(open_file, shard.paths[1:]))
    stamps = [
        FileStamp(name, file.size, file.mtime_ns)
        for name, file in zip(shard.files[1:], files, strict=True)
    ]
    moved = {
        name: replace(extents, file=extents.file + len(stamps)) if extents.file else extents
        for name, extents in parquet.fields.items()
    }
    table = _with_tasks(
        replace(parquet, files=(*parquet.files, *stamps), fields=moved), meta, shard
    )
    episode = _episode_of_rows(table, episodes, shard)
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
        raise FormatError("a file of the dataset is missing", file=path, hint=HINT) from error


def numbers_of(rows: ShardIndex, name: str, shard: Shard) -> npt.NDArray[np.generic]:
    """Return the numbers of a column, one per row.

    Raises:
        FormatError: The column does not exist, or a number is missing.
    """
    column = rows.columns.get(name)
    if column is None or column.values is None or column.missing is not None:
        raise FormatError(
            f"each row needs a number in column {name!r}", file=str(shard.path(0)), hint=HINT
        )
    return column.values


def _episode_of_rows(rows: ShardIndex, episodes: Episodes, shard: Shard) -> I64:
    episode_numbers = numbers_of(rows, _EPISODE, shard).astype(np.int64)
    place: I64 = np.minimum(episodes.index.searchsorted(episode_numbers), len(episodes.index) - 1)
    wrong = episodes.index[place] != episode_numbers
    if wrong.any():
        row = int(wrong.argmax())
        message = (
            f"row {row} belongs to episode {episode_numbers[row]}, which the metadata do"
            " not list for this file"
        )
        raise FormatError(message, file=str(shard.path(0)), hint=HINT)
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
    videos = map_all(lambda name: _video(shard, name), names, threads=_READERS)
    errors += [
        video_or_error for video_or_error in videos if isinstance(video_or_error, FormatError)
    ]
    usable = [video_or_error for video_or_error in videos if isinstance(video_or_error, Video)]
    opened = np.array([isinstance(video_or_error, Video) for video_or_error in videos], np.bool_)
    number_of = np.where(opened, np.cumsum(opened) - 1, -1)
    video = which.reshape(-1)[episode]
    at = episodes.begin[camera][episode] + seconds
    shots = shots_of(usable, number_of[video], at, 0.5 / meta.fps)
    for number, name in enumerate(names):
        bad = np.flatnonzero((video == number) & (shots.packet < 0))
        if len(bad) and number_of[number] >= 0:
            message = (
                f"it lacks the frames of {len(bad)} rows, the first of row {bad[0]} at"
                f" {at[bad[0]]:.6f} seconds"
            )
            path = str(shard.path(shard.files.index(name)))
            errors.append(FormatError(message, file=path, hint=HINT))
    return shots


def _video(shard: Shard, name: str) -> Video | FormatError:
    if name not in shard.files:  # the metadata have changed since the files were listed
        message = (
            f"it names the video {name[:200]!r}, which is not among the files of this part"
            " of the dataset"
        )
        return FormatError(message, file=str(shard.root / INFO), hint=HINT)
    number = shard.files.index(name)
    with _all_there(shard):
        file = open_file(shard.path(number))
    try:
        packets = read_packets(file)
    except FormatError as error:
        return error
    read_video = Video.of(number, file.size, packets)
    message = (
        "its packets do not determine its frames: two have the same time, or the first is"
        " not a keyframe"
    )
    if read_video is None:
        return FormatError(message, file=file.path, hint=HINT)
    return read_video


def _with_tasks(rows: ShardIndex, meta: Meta, shard: Shard) -> ShardIndex:
    """Return the table with the field and the column `task`, if there are tasks."""
    if not meta.tasks or _TASK in rows.fields or "task_index" not in rows.columns:
        return rows
    task_numbers = numbers_of(rows, "task_index", shard).astype(np.int64)
    listed_tasks = np.array(sorted(meta.tasks), np.int64)
    place = np.minimum(listed_tasks.searchsorted(task_numbers), len(listed_tasks) - 1)
    wrong = listed_tasks[place] != task_numbers
    if wrong.any():
        row = int(wrong.argmax())
        message = (
            f"row {row} has the task {task_numbers[row]}, which meta/tasks.parquet does not list"
        )
        raise FormatError(message, file=str(shard.path(0)), hint=HINT)
    texts = [meta.tasks[task] for task in listed_tasks.tolist()]
    stored_texts, ends = joined(texts)
    number = len(rows.files) + len(rows.blocks)
    extents = FieldExtents(Field(_TASK, "utf8"), "utf8", number, ends[place], np.diff(ends)[place])
    missing = np.diff(ends)[place] > LONGEST_TEXT
    column = Column(
        "text",
        None,
        missing if missing.any() else None,
        place.astype(np.uint32),
        stored_texts,
        ends,
    )
    return replace(
        rows,
        fields={**rows.fields, _TASK: extents},
        columns={**rows.columns, _TASK: column},
        blocks=(*rows.blocks, Blocks.in_table(stored_texts)),
    )
