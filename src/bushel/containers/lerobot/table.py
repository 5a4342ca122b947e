"""The table of one file of rows of a LeRobot dataset, with the frames of its cameras and the texts of its tasks.

The table of the rows is that of `parquet`. A camera is a field whose values are packets of videos (`camera`), and the
field `task` has the text of the task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bushel._index.columns import LONGEST_TEXT, Column
from bushel._index.table import FieldExtents, FileStamp, Shard, ShardIndex
from bushel._runtime.parallel import map_all
from bushel.containers.base import ReadOptions
from bushel.containers.lerobot.camera import Frames, Video, frames_at
from bushel.containers.lerobot.meta import HINT, Episodes, Meta, load_meta
from bushel.containers.lerobot.mp4 import read_packets
from bushel.containers.parquet import CONTAINER as PARQUET
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import IN_TABLE, Blocks, File, open_file

__all__ = ["Made", "made_of", "numbers_of"]

I64 = npt.NDArray[np.int64]

_READERS = 8
_TASK, _EPISODE = "task", "episode_index"


@dataclass(frozen=True, slots=True)
class Made:
    """A table, and what was found on the way.

    Attributes:
        index: The table.
        meta: The facts about the dataset.
        episodes: The episodes of the shard.
        episode: int64[rows], the episode of each row by its place in `episodes`.
        cameras: The frames of each camera.
        lost: bool[rows], the rows of which a camera has no frame.
        errors: What is wrong with the videos.
    """

    index: ShardIndex
    meta: Meta
    episodes: Episodes
    episode: I64
    cameras: dict[str, Frames]
    lost: npt.NDArray[np.bool_]
    errors: list[FormatError]


def made_of(shard: Shard, options: ReadOptions) -> Made:
    """Make the table of a shard.

    Raises:
        FormatError: Its rows or the metadata are damaged. What is wrong with videos is in the result.
    """
    meta = load_meta(shard.root)
    pairs = [] if meta is None else np.unique(meta.episodes.data, axis=0).tolist()
    own = next((pair for pair in pairs if meta is not None and meta.data_file(*pair) == shard.name), None)
    if meta is None or own is None:
        raise FormatError("its metadata do not list this file any more", file=str(shard.path(0)), hint=HINT)
    episodes = meta.episodes_of(*own)
    rows = PARQUET.index(Shard(shard.root, shard.name, shard.files[:1]), replace(options, spec=None))
    episode = _episode_of_rows(rows, episodes, shard)
    others = [_opened(shard, number) for number in range(1, len(shard.files))]
    stamps = [FileStamp(name, file.size, file.mtime_ns) for name, file in zip(shard.files[1:], others, strict=True)]
    errors: list[FormatError] = []
    lost = np.zeros(rows.samples, np.bool_)
    fields = {
        name: replace(each, file=each.file + len(stamps)) if each.file else each for name, each in rows.fields.items()
    }
    blocks, cameras = list(rows.blocks), dict[str, Frames]()
    seconds = numbers_of(rows, "timestamp", shard)
    for camera in meta.cameras:
        found = _frames(shard, meta, episodes, camera, episode, seconds, errors)
        lost |= found.length < 0
        number = len(shard.files) + len(blocks)
        fields[camera] = FieldExtents(Field(camera, "frame"), "frame", number, found.offset, found.length)
        blocks.append(found.blocks)
        cameras[camera] = found
    columns = dict(rows.columns)
    if meta.tasks and _TASK not in fields and "task_index" in columns:
        number = len(shard.files) + len(blocks)
        fields[_TASK], held, columns[_TASK] = _tasks(rows, meta, number, shard)
        blocks.append(held)
    index = replace(
        rows,
        files=(*rows.files, *stamps),
        container="lerobot",
        fields=fields,
        columns=columns,
        blocks=tuple(blocks),
    )
    return Made(index.check(str(shard.path(0))), meta, episodes, episode, cameras, lost, errors)


def _opened(shard: Shard, number: int) -> File:
    try:
        return open_file(shard.path(number))
    except FileNotFoundError as error:
        raise FormatError("a file of the dataset is missing", file=str(shard.path(number)), hint=HINT) from error


def numbers_of(rows: ShardIndex, name: str, shard: Shard) -> npt.NDArray[np.generic]:
    """Return the numbers of a column, of which each row has one.

    Raises:
        FormatError: There is no such column, or a number is missing.
    """
    column = rows.columns.get(name)
    if column is None or column.values is None or column.missing is not None:
        raise FormatError(f"each row needs a number in column {name!r}", file=str(shard.path(0)), hint=HINT)
    return column.values


def _episode_of_rows(rows: ShardIndex, episodes: Episodes, shard: Shard) -> I64:
    own = numbers_of(rows, _EPISODE, shard).astype(np.int64)
    place: I64 = np.minimum(episodes.index.searchsorted(own), len(episodes.index) - 1)
    wrong = episodes.index[place] != own
    if wrong.any():
        row = int(wrong.argmax())
        message = f"row {row} belongs to episode {own[row]}, which the metadata do not list for this file"
        raise FormatError(message, file=str(shard.path(0)), hint=HINT)
    return place


def _frames(
    shard: Shard,
    meta: Meta,
    episodes: Episodes,
    camera: str,
    episode: I64,
    seconds: npt.NDArray[np.generic],
    errors: list[FormatError],
) -> Frames:
    """Return the frames of a camera, of length -1 where they are not there, and add an error for each such video."""
    pairs, which = np.unique(episodes.videos[camera], axis=0, return_inverse=True)
    names = [meta.video(camera, *pair) for pair in pairs.tolist()]
    videos: list[Video | None] = []
    for found in map_all(lambda name: _video(shard, name), names, workers=_READERS):
        videos.append(found if isinstance(found, Video) else None)
        if isinstance(found, FormatError):
            errors.append(found)
    usable = [each for each in videos if each is not None]
    number_of = np.cumsum([each is not None for each in videos]) - 1
    video = which.reshape(-1)[episode]
    there = np.array([each is not None for each in videos], np.bool_)[video]
    at = episodes.begin[camera][episode] + seconds.astype(np.float64)
    known = np.flatnonzero(there)
    found_at = frames_at(usable, number_of[video[known]], at[known])
    length, offset, away = np.full(len(at), -1, np.int64), np.zeros(len(at), np.int64), np.zeros(len(at))
    gone = found_at.away > 0.5 / meta.fps
    length[known], offset[known], away[known] = np.where(gone, -1, found_at.length), found_at.offset, found_at.away
    for number, name in enumerate(names):
        bad = np.flatnonzero((video == number) & there & (length < 0))
        if len(bad):
            message = f"it lacks the frames of {len(bad)} rows, the first of row {bad[0]} at {at[bad[0]]:.6f} seconds"
            path = str(shard.path(shard.files.index(name)))
            errors.append(FormatError(message, file=path, hint=HINT))
    return Frames(found_at.blocks, offset, length, away)


def _video(shard: Shard, name: str) -> Video | FormatError:
    number = shard.files.index(name)
    file = _opened(shard, number)
    try:
        packets = read_packets(file)
    except FormatError as error:
        return error
    found = Video.of(number, file.size, packets)
    message = "its packets do not determine its frames: two have the same time, or the first is no keyframe"
    return FormatError(message, file=file.path, hint=HINT) if found is None else found


def _tasks(rows: ShardIndex, meta: Meta, number: int, shard: Shard) -> tuple[FieldExtents, Blocks, Column]:
    """Return the field with the text of the task, its block file of this number, and its column."""
    own = numbers_of(rows, "task_index", shard).astype(np.int64)
    known = np.array(sorted(meta.tasks), np.int64)
    place = np.minimum(known.searchsorted(own), len(known) - 1)
    wrong = known[place] != own
    if wrong.any():
        row = int(wrong.argmax())
        message = f"row {row} has the task {own[row]}, which meta/tasks.parquet does not list"
        raise FormatError(message, file=str(shard.path(0)), hint=HINT)
    texts = [meta.tasks[each] for each in known.tolist()]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    held = np.frombuffer(b"".join(texts), np.uint8)
    one, zero = ends[-1:], np.zeros(1, np.int64)
    blocks = Blocks(
        np.append(zero, one), np.full(1, IN_TABLE, np.int32), zero, one, np.zeros(1, np.uint8), ("stored",), None, held
    )
    extents = FieldExtents(Field(_TASK, "utf8"), "utf8", number, ends[place], np.diff(ends)[place])
    column = Column("text", codes=place.astype(np.uint32), text=held, offsets=ends)
    if max(map(len, texts)) > LONGEST_TEXT:
        missing = np.diff(ends)[place] > LONGEST_TEXT
        column = replace(column, missing=missing)
    return extents, blocks, column
