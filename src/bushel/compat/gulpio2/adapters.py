"""`gulpio2.adapters`: the abstract adapter, and the eight that GulpIO2 ships.

Where an adapter has a
`shm_dir_path`, it is accepted and not used, because frames are decoded in memory.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from bushel.compat.errors import raised_as
from bushel.errors import FormatError
from bushel.sources import Row, parse_json, read_list, read_rows
from bushel.storage import AnyPath, as_path

from .adapter_base import (
    AbstractDatasetAdapter,
    Item,
    Labelled,
    number_labels,
    video_frames,
    write_labels,
)
from .errors import ListFileError, ListNameError, VideoNotFoundError
from .file_adapters import ImageFolderAdapter, ImageListAdapter, VideoFolderAdapter
from .utils import ImageNotFound as ImageNotFound
from .utils import burst_video_into_frames as burst_video_into_frames
from .utils import (
    find_images_in_folder,
    get_single_video_path,
    remove_entries_with_duplicate_ids,
    resize_images,
)
from .utils import resize_by_short_edge as resize_by_short_edge
from .utils import temp_dir_for_bursting as temp_dir_for_bursting

__all__ = [
    "AbstractDatasetAdapter",
    "ActivitynetAdapter",
    "Custom20BNAdapterMixin",
    "Custom20BNCsvJpegAdapter",
    "Custom20BNCsvWebmAdapter",
    "Custom20BNJsonVideoAdapter",
    "ImageFolderAdapter",
    "ImageListAdapter",
    "KineticsAdapter",
    "VideoFolderAdapter",
    "video_frames",
]


_CUT = re.compile(r"_\d{6}_\d{6}$")  # the first and last second, which Kinetics appends to the id
Place = str | os.PathLike[str] | AnyPath


class Custom20BNAdapterMixin:
    """Entries of `data` with a label, and the numbers of labels in the output folder's `label2idx.json`."""

    data: list[dict[str, Any]]
    output_folder: str
    labels2idx: dict[str, int]
    label_name: str = "label"

    def check_if_label2idx_exists(self) -> bool:
        return os.path.exists(os.path.join(self.output_folder, "label2idx.json"))

    def read_label2idx(self) -> dict[str, int]:
        with open(os.path.join(self.output_folder, "label2idx.json"), encoding="utf-8") as file:
            labels: dict[str, int] = json.load(file)
        return labels

    def create_label2idx_dict(self, label_name: str) -> dict[str, int]:
        return number_labels((item[label_name] for item in self.data), self.output_folder)

    def write_label2idx_dict(self) -> None:
        write_labels(self.labels2idx, self.output_folder)

    def get_meta(self) -> list[dict[str, Any]]:
        labels = [entry[self.label_name] for entry in self.data]
        entries = zip(self.data, labels, strict=True)
        return [
            {"id": entry["id"], "label": label, "idx": self.labels2idx[label]}
            for entry, label in entries
        ]


class _Listed(Custom20BNAdapterMixin, Labelled):
    """Entries of a list of 20BN, each with its own frames."""

    def __init__(
        self,
        data: list[dict[str, Any]],
        folder: str,
        output_folder: str,
        label_name: str,
        shuffle: bool,
        new_only: bool,
    ) -> None:
        self.data, self.folder, self.output_folder, self.label_name = (
            data,
            folder,
            output_folder,
            label_name,
        )
        self.labels2idx = self.create_label2idx_dict(label_name)
        self.shuffle = bool(shuffle)
        self.all_meta = self.get_meta()
        if new_only:
            self.all_meta = remove_entries_with_duplicate_ids(output_folder, self.all_meta)
        if self.shuffle:
            random.shuffle(self.all_meta)

    def frames_of(self, meta: dict[str, Any]) -> list[Any]:
        """Return the frames of an item, whose files are in the folder under its id."""
        return self.frames_at(os.path.join(self.folder, str(meta["id"])))

    def frames_at(self, path: str) -> list[Any]:
        """Return the frames in the files at this path, or that begin with it."""
        raise NotImplementedError


class Custom20BNJsonVideoAdapter(_Listed):
    """A JSON list of `{"id", label_name}` (`.json` or `.json.gz`), and `folder/<id>/` with one MP4."""

    def __init__(
        self,
        json_file: str,
        folder: str,
        output_folder: str,
        shuffle: bool = False,
        frame_size: int = -1,
        frame_rate: int = 8,
        shm_dir_path: str = "/dev/shm",
        label_name: str = "template",
        remove_duplicate_ids: bool = False,
    ) -> None:
        self.json_file, self.shm_dir_path = json_file, shm_dir_path
        self.frame_size, self.frame_rate = int(frame_size), int(frame_rate)
        if not json_file.endswith((".json", ".json.gz")):
            raise ListNameError(f"Wrong data file format (.json.gz or .json): {json_file}")
        data = self.read_json(json_file)
        for number, entry in enumerate(data):
            if missing := [key for key in ("id", label_name) if key not in entry]:
                raise ListFileError(
                    f"entry {number} has no {missing[0]!r}: {str(entry)[:100]}",
                    file=json_file,
                    hint=f"entries are like {{'id': 1, {label_name!r}: 'Picking "
                    "[something] up'}; --label_name says which key has the label",
                )
        super().__init__(data, folder, output_folder, label_name, shuffle, remove_duplicate_ids)

    def read_json(self, json_file: str) -> Any:
        with raised_as(ListFileError):
            return read_twentybn(json_file)

    def read_gz_json(self, gz_json_file: str) -> Any:
        return self.read_json(gz_json_file)

    def frames_at(self, path: str) -> list[Any]:
        return video_frames(
            get_single_video_path(path, format_="mp4"), self.frame_size, self.frame_rate
        )


class _CsvListed(_Listed):
    def read_csv(self, csv_file: str) -> list[dict[str, Any]]:
        """Return the entries of a list; entries of a test set have the label "dummy"."""
        return [
            {"id": row["id"], self.label_name: row.get("label", "dummy")}
            for row in read_twentybn(csv_file)
        ]


class Custom20BNCsvWebmAdapter(_CsvListed):
    """Lines of `id;label` (or `id`, for a test set: label "dummy"), and `folder/<id>.webm`."""

    def __init__(
        self,
        csv_file: str,
        folder: str,
        output_folder: str,
        shuffle: bool = False,
        frame_size: int = -1,
        frame_rate: int = 12,
        shm_dir_path: str = "/dev/shm",
        label_name: str = "label",
        remove_duplicate_ids: bool = False,
    ) -> None:
        self.label_name, self.shm_dir_path = label_name, shm_dir_path
        self.frame_size, self.frame_rate = int(frame_size), int(frame_rate)
        data = self.read_csv(csv_file)
        super().__init__(data, folder, output_folder, label_name, shuffle, remove_duplicate_ids)

    def get_single_video_file_path(self, folder_name: str, format_: str = "webm") -> str:
        path = f"{folder_name}.{format_}"
        if not os.path.isfile(path):
            raise VideoNotFoundError(f"no such video: {path}")
        return path

    def frames_at(self, path: str) -> list[Any]:
        return video_frames(self.get_single_video_file_path(path), self.frame_size, self.frame_rate)


class Custom20BNCsvJpegAdapter(_CsvListed):
    """Lines of `id;label`, and the frames `folder/<id>/*.jpg`, in the order of their names."""

    def __init__(
        self,
        csv_file: str,
        folder: str,
        output_folder: str,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: str = "/dev/shm",
    ) -> None:
        self.shm_dir_path, self.frame_size = shm_dir_path, int(frame_size)
        super().__init__(
            self.read_csv(csv_file), folder, output_folder, "label", shuffle, new_only=False
        )

    def frames_at(self, path: str) -> list[Any]:
        return list(resize_images(find_images_in_folder(path, formats=["jpg"]), self.frame_size))


class _Videos(AbstractDatasetAdapter):
    """Videos of a folder, with their entries in a JSON file; they are sorted by name."""

    member: str | None = None
    vid_storage: list[str]
    set_video_storage: Callable[..., None]
    """Finds the videos, of a subset if there are some."""

    def __init__(
        self,
        json_file: str,
        folder: str,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: str = "/dev/shm",
        *subset: str,
    ) -> None:
        self.json_file, self.folder, self.shm_dir_path = json_file, folder, shm_dir_path
        self.frame_size = int(frame_size)
        self.json_storage = self.read_json(json_file)
        if not all(isinstance(entry, dict) for entry in self.json_storage.values()):
            raise ListFileError("expected an object {...} for each video", file=json_file)
        self.set_video_storage(*subset)
        if shuffle:
            random.shuffle(self.vid_storage)

    def read_json(self, json_file: str) -> dict[str, Any]:
        """Return the entries by video id."""
        with raised_as(ListFileError):
            return read_annotations(json_file, self.member)

    def video_id(self, vid_file: str) -> str:
        """Return the id in a file's name."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.vid_storage)

    def get_bursted_frames(self, vid_file: str) -> list[Any]:
        return video_frames(os.path.join(self.folder, vid_file), self.frame_size)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        for vid_file in self.vid_storage[slice_element or slice(None)]:
            vid_id = self.video_id(vid_file)
            if vid_id not in self.json_storage:
                raise KeyError(f"{self.json_file} has no entry {vid_id!r} for the video {vid_file}")
            yield {
                "meta": self.json_storage[vid_id],
                "frames": self.get_bursted_frames(vid_file),
                "id": vid_id,
            }


class ActivitynetAdapter(_Videos):
    """A JSON file with a `database` of ids, and `folder/<id>.<suffix>` for the videos of a subset."""

    member = "database"

    def __init__(
        self,
        json_file: str,
        folder: str,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: str = "/dev/shm",
        phase: str = "training",
    ) -> None:
        super().__init__(json_file, folder, shuffle, frame_size, shm_dir_path, phase)

    def set_video_storage(self, phase: str = "training") -> None:
        """Find the videos of a subset: `training`, `validation` or `testing`."""
        self.vid_storage = [
            name
            for name in sorted(os.listdir(self.folder))
            if os.path.isfile(os.path.join(self.folder, name))
            and not name.endswith("part")
            and self.json_storage.get(self.video_id(name), {}).get("subset") == phase
        ]

    def video_id(self, vid_file: str) -> str:
        return vid_file.split(".")[0]


class KineticsAdapter(_Videos):
    """A JSON file with the ids, and `folder/<class>/<id>_<start>_<end>.mp4`, both in seconds of six digits."""

    def set_video_storage(self) -> None:
        """Find the videos."""
        paths = glob.glob(os.path.join(glob.escape(self.folder), "*", "*.mp4"))
        self.vid_storage = [os.path.relpath(path, self.folder) for path in sorted(paths)]

    def video_id(self, vid_file: str) -> str:
        whole = kinetics_id(vid_file)
        return (
            whole
            if whole in self.json_storage
            else os.path.splitext(os.path.basename(vid_file))[0].split("_00")[0]
        )


def read_twentybn(path: Place) -> list[Row]:
    r"""Return the rows of a 20BN list: JSON objects, or lines `id;label` (only the id in a test set).

    Raises:
        FormatError: The file is malformed.

    Examples:
        >>> from bushel.compat.gulpio2.adapters import read_twentybn
        >>> _ = Path("list.csv").write_text("7;Pushing\n8;Pulling\n")
        >>> read_twentybn("list.csv")
        [{'id': '7', 'label': 'Pushing'}, {'id': '8', 'label': 'Pulling'}]
    """
    if as_path(path).name.lower().removesuffix(".gz").endswith((".json", ".jsonl")):
        return read_rows(path)
    lines = read_list(as_path(path)).replace("\r\n", "\n").split("\n")
    return [
        dict(zip(("id", "label"), row, strict=False))
        for row in csv.reader(lines, delimiter=";")
        if row
    ]


def read_annotations(path: Place, member: str | None = None) -> dict[str, Any]:
    """Return the annotations of a JSON list by video id.

    Args:
        path: The list, gzipped or not.
        member: The member of the JSON object that holds them, such as `database` in ActivityNet's.

    Raises:
        FormatError: The file is malformed.

    Examples:
        >>> from bushel.compat.gulpio2.adapters import read_annotations
        >>> _ = Path("list.json").write_text('{"database": {"a": {"subset": "training", "annotations": []}}}')
        >>> read_annotations("list.json", "database")
        {'a': {'subset': 'training', 'annotations': []}}
    """
    content = parse_json(read_list(as_path(path)), str(path))
    expected = (
        "an object of videos by id"
        if member is None
        else f"an object with a {member!r}, videos by id"
    )
    videos = content.get(member) if isinstance(content, dict) and member is not None else content
    if not isinstance(videos, dict):
        raise FormatError(f"expected {expected}, found a {type(videos).__name__}", file=str(path))
    return videos


def kinetics_id(name: str) -> str:
    """Return the video id in the name of a Kinetics file: `<id>_000010_000020.mp4`.

    Examples:
        >>> from bushel.compat.gulpio2.adapters import kinetics_id
        >>> kinetics_id("ab_000003_000013.mp4")
        'ab'
    """
    return _CUT.sub("", os.path.splitext(os.path.basename(name))[0])
