"""The folder `meta` of a LeRobot dataset: its features, its tasks, and where the frames of each episode are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import F64, I64
from bushel.codecs.depth import depth_type, metres_of_codes
from bushel.containers.base import ReadOptions
from bushel.containers.parquet.container import CONTAINER as PARQUET
from bushel.containers.parquet.container import only_columns
from bushel.containers.references import texts_of
from bushel.errors import FormatError, SpecError
from bushel.storage import AnyPath, as_path, below, names_in, open_file

INFO, _TASKS, _EPISODES = "meta/info.json", "meta/tasks.parquet", "meta/episodes"
_PLACE, _BEGIN = ("chunk_index", "file_index"), "from_timestamp"
HINT = "the dataset is incomplete or damaged: download or write it again"
_NUMBERED = re.compile(r"\{(chunk_index|file_index)(?::0?([1-9])d)?\}")


class _VideoInfo(msgspec.Struct):
    """Facts about a camera; a depth camera is marked in one of two ways."""

    is_depth_map: bool | None = None
    was_depth_map: bool | None = msgspec.field(default=None, name="video.is_depth_map")
    depth_min: float | None = msgspec.field(default=None, name="video.depth_min")
    depth_max: float | None = msgspec.field(default=None, name="video.depth_max")
    shift: float | None = msgspec.field(default=None, name="video.shift")
    use_log: bool | None = msgspec.field(default=None, name="video.use_log")

    def depth(self) -> str:
        """Return the parameters of codec `frame` for its depths: those that are not listed are LeRobot's defaults."""
        usual = _VideoInfo(depth_min=0.01, depth_max=10.0, shift=3.5, use_log=True)
        listed = (
            getattr(usual if getattr(self, name) is None else self, name)
            for name in ("depth_min", "depth_max", "shift", "use_log")
        )
        return depth_type(*listed)


class _Feature(msgspec.Struct):
    dtype: str
    shape: list[int] = []
    info: _VideoInfo | None = None
    video_info: _VideoInfo | None = None

    def frame_type(self) -> str:
        """Return the parameters of codec `frame` for a camera, with their parentheses; empty for colours."""
        info = self.info or _VideoInfo()
        older = self.video_info or _VideoInfo()
        if info.is_depth_map or info.was_depth_map or older.was_depth_map:
            return f"({info.depth()})"
        return ""


class _Info(msgspec.Struct):
    """The part of info.json that Bushel needs."""

    codebase_version: str
    fps: float
    features: dict[str, _Feature]
    data_path: str = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    video_path: str | None = None
    storage_format: str | None = None


_DECODER = msgspec.json.Decoder(_Info)


class Episodes(Struct, frozen=True):
    """The episodes of a dataset, or some of them, in their order."""

    index: I64  # int64[n], their numbers, ascending
    length: I64  # int64[n], their frames
    data: I64  # int64[n, 2], chunk and number of the file with their rows
    videos: Mapping[str, I64]  # camera to int64[n, 2], chunk and number of the video
    # camera to float64[n], where the episode begins in the video, in seconds
    begin: Mapping[str, F64]

    def take(self, chosen: I64) -> Episodes:
        """Return the episodes of these numbers in the table."""
        videos = {name: rows[chosen] for name, rows in self.videos.items()}
        begin = {name: seconds[chosen] for name, seconds in self.begin.items()}
        return Episodes(self.index[chosen], self.length[chosen], self.data[chosen], videos, begin)


class Meta(Struct, frozen=True):
    """The facts about a dataset."""

    fps: float  # frames per second
    # the features that are stored as videos, each with the parameters of codec `frame`: empty,
    # except for depths
    cameras: Mapping[str, str]
    episodes: Episodes
    tasks: Mapping[int, bytes]  # number of a task to its text
    files: tuple[str, ...]  # the files of `meta` with these facts
    data_path: str  # template of the names of files with rows
    video_path: str  # template of the names of videos

    def episodes_of(self, chunk: int, number: int) -> Episodes:
        """Return the episodes whose rows are in a file."""
        return self.episodes.take(
            np.flatnonzero((self.episodes.data == (chunk, number)).all(axis=1))
        )

    def data_file(self, chunk: int, number: int) -> str:
        """Return the name of a file with rows."""
        return _filled(self.data_path, chunk, number)

    def video(self, camera: str, chunk: int, number: int) -> str:
        """Return the name of a video."""
        return _filled(self.video_path.replace("{video_key}", camera), chunk, number)


def load_meta(root: AnyPath) -> Meta | None:
    """Return the facts about the dataset in a folder; None if the path has no dataset of LeRobot.

    Raises:
        FormatError: It has another version, or its metadata are damaged.
    """
    path = root / INFO
    names, folder = [_TASKS] if (root / _TASKS).exists() else [], below(root, _EPISODES)
    names += [
        f"{_EPISODES}/{chunk}/{name}"
        for chunk in _entries(folder)
        for name in _entries(below(folder, chunk))
        if name.endswith(".parquet")
    ]
    if not path.exists():
        if names:
            raise FormatError("its description is missing", path, hint=HINT)
        return None
    names.insert(0, INFO)
    files = [open_file(below(root, name)) for name in names]
    if not all(file.mtime_ns for file in files):  # a file may have changed unnoticed
        return _meta(root, names)
    stamps = tuple(
        (name, file.size, file.mtime_ns) for name, file in zip(names, files, strict=True)
    )
    return _kept(str(root), stamps)


def _entries(folder: AnyPath) -> list[str]:
    return sorted(names_in(folder)) if folder.is_dir() else []


@lru_cache(maxsize=8)
def _kept(root: str, stamps: tuple[tuple[str, int, int], ...]) -> Meta | None:
    return _meta(as_path(root), [name for name, *_ in stamps])


def _meta(root: AnyPath, names: Sequence[str]) -> Meta | None:
    file = open_file(below(root, INFO))
    try:
        text = msgspec.json.decode(file.read(0, file.size))
        if len(names) == 1 and not (isinstance(text, dict) and "codebase_version" in text):
            return None  # another program's folder `meta`
        info = _DECODER.decode(file.read(0, file.size))
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"not the metadata of a LeRobot dataset: {error}", file.path, hint=HINT
        ) from error
    if not (version := info.codebase_version).startswith("v3."):
        convert = "python -m lerobot.datasets.v30.convert_dataset_v21_to_v30 --repo-id ORG/NAME"
        hint = f"convert it: {convert}"
        if not version.startswith("v2."):
            hint = "update Bushel"
            if version < "v2":
                hint = f"convert it to v2.1 with LeRobot, and then: {convert}"
        raise FormatError(
            f"this is a LeRobot dataset of version {version[:40]}, and v3 is read",
            file.path,
            hint=hint,
        )
    if info.storage_format not in (None, "parquet"):
        raise FormatError(
            f"its rows are stored as {info.storage_format[:40]!r}, and Parquet is read",
            file.path,
            hint="open a copy in LeRobot's own storage, which is Parquet and MP4",
        )
    cameras = {
        name: feature.frame_type()
        for name, feature in info.features.items()
        if feature.dtype == "video"
    }
    for camera, arguments in cameras.items():
        try:
            metres_of_codes(f"frame{arguments}")
        except SpecError as error:
            raise FormatError(f"feature {camera!r}: {error}", file.path, hint=HINT) from error
    if not info.fps > 0 or (cameras and not info.video_path):
        raise FormatError(
            f"fps is {info.fps}, video_path is {info.video_path!r}", file.path, hint=HINT
        )
    shards = {name: Shard(root, name, (name,)) for name in names}
    tasks = _tasks(shards[_TASKS]) if _TASKS in names else {}
    episodes = _episodes([shards[name] for name in names if name not in (INFO, _TASKS)], cameras)
    order = np.argsort(episodes.index, kind="stable")
    if (np.diff(episodes.index[order]) <= 0).any():
        raise FormatError("an episode is listed twice", shards[names[-1]].path(0), hint=HINT)
    return Meta(
        info.fps,
        cameras,
        episodes.take(order),
        tasks,
        tuple(names),
        info.data_path,
        info.video_path or "",
    )


def numbers_of(rows: ShardIndex, name: str, shard: Shard) -> np.ndarray:
    """Return the numbers of a column, one per row.

    Raises:
        FormatError: The column does not exist, or a number is missing.
    """
    column = rows.columns.get(name)
    if column is None or column.values is None or column.missing is not None:
        raise FormatError(f"each row needs a number in column {name!r}", shard.path(0), hint=HINT)
    return column.values


def _tasks(shard: Shard) -> dict[int, bytes]:
    """Return the texts of tasks; they are the index of the data frame, whose name may differ."""
    table = PARQUET.index(shard, ReadOptions())
    texts = [extents for extents in table.fields.values() if extents.field.codec == "utf8"]
    if len(texts) != 1:
        raise FormatError(
            f"a column holds the texts of tasks, found {len(texts)}",
            shard.path(0),
            hint=HINT,
        )
    numbers = numbers_of(table, "task_index", shard).tolist()
    stored = ((text or "").encode() for text in texts_of(table, shard, texts[0]))
    return dict(zip(numbers, stored, strict=True))


def _episodes(shards: Sequence[Shard], cameras: Iterable[str]) -> Episodes:
    """Return the episodes that some files list."""
    videos = [f"videos/{camera}" for camera in cameras]
    places = [f"{folder}/{part}" for folder in ("data", *videos) for part in _PLACE]
    names = {"episode_index", "length", *places, *(f"{video}/{_BEGIN}" for video in videos)}
    tables = [(only_columns(shard, names), shard) for shard in shards]

    def numbers(name: str, dtype: npt.DTypeLike = np.int64) -> np.ndarray:
        columns = (numbers_of(table, name, shard).astype(dtype) for table, shard in tables)
        return np.concatenate([np.zeros(0, dtype), *columns])

    def pairs(folder: str) -> I64:
        return np.stack([numbers(f"{folder}/{part}") for part in _PLACE], axis=1)

    return Episodes(
        numbers("episode_index"),
        numbers("length"),
        pairs("data"),
        {name: pairs(f"videos/{name}") for name in cameras},
        {name: numbers(f"videos/{name}/{_BEGIN}", np.float64) for name in cameras},
    )


def _filled(template: str, chunk: int, number: int) -> str:
    numbers = {"chunk_index": chunk, "file_index": number}
    return _NUMBERED.sub(lambda match: f"{numbers[match[1]]:0{match[2] or 1}d}", template)
