"""ActivityNet and Kinetics, as their makers publish them."""

from __future__ import annotations

import glob
import os
import random
import re
from collections.abc import Iterator
from typing import Any

from bushel.compat.gulpio2.adapters.abstract import AbstractDatasetAdapter, Item, read_json, video_frames
from bushel.compat.gulpio2.errors import ListFileError

__all__ = ["ActivitynetAdapter", "KineticsAdapter"]

_CUT = re.compile(r"_\d{6}_\d{6}$")
"""First and last second, which Kinetics puts behind the id."""


class _Videos(AbstractDatasetAdapter):
    """Videos of a folder, with their entries in a JSON file.

    `shm_dir_path` is taken and not used: frames are decoded in memory.

    Raises:
        ListFileError: The JSON file is not of this kind (a `ValueError` and a `KeyError`).
    """

    json_storage: dict[str, Any]
    vid_storage: list[str]

    def __init__(self, json_file: str, folder: str, frame_size: int, shm_dir_path: str) -> None:
        self.json_file, self.folder, self.shm_dir_path = json_file, folder, shm_dir_path
        self.frame_size = int(frame_size)
        self.json_storage = self.read_json(json_file)
        if not all(isinstance(entry, dict) for entry in self.json_storage.values()):
            raise ListFileError("an entry is no {...}", file=json_file)

    def read_json(self, json_file: str) -> dict[str, Any]:
        """Video ids to their entries."""
        return _table(read_json(json_file), json_file)

    def video_id(self, vid_file: str) -> str:
        """The id in a file's name."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.vid_storage)

    def get_bursted_frames(self, vid_file: str) -> list[Any]:
        """The frames of a video, resized."""
        return video_frames(os.path.join(self.folder, vid_file), self.frame_size)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        """Iterate over the items."""
        for vid_file in self.vid_storage[slice_element or slice(None)]:
            vid_id = self.video_id(vid_file)
            if vid_id not in self.json_storage:
                raise KeyError(f"{self.json_file} has no entry {vid_id!r} for the video {vid_file}")
            yield {"meta": self.json_storage[vid_id], "frames": self.get_bursted_frames(vid_file), "id": vid_id}


class ActivitynetAdapter(_Videos):
    """A JSON file with a `database` of ids, and `folder/<id>.<suffix>` for those of a subset."""

    def __init__(
        self,
        json_file: str,
        folder: str,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: str = "/dev/shm",
        phase: str = "training",
    ) -> None:
        super().__init__(json_file, folder, frame_size, shm_dir_path)
        self.set_video_storage(phase)
        if shuffle:
            random.shuffle(self.vid_storage)

    def set_video_storage(self, phase: str = "training") -> None:
        """Find the videos of a subset: `training`, `validation` or `testing`."""
        self.vid_storage = [
            name
            for name in sorted(os.listdir(self.folder))
            if os.path.isfile(os.path.join(self.folder, name))
            and not name.endswith("part")
            and self.json_storage.get(self.video_id(name), {}).get("subset") == phase
        ]

    def read_json(self, json_file: str) -> dict[str, Any]:
        """Video ids to their entries."""
        return _table(super().read_json(json_file).get("database"), json_file, "`database` of ")

    def video_id(self, vid_file: str) -> str:
        """A file's name up to the first dot."""
        return vid_file.split(".")[0]


class KineticsAdapter(_Videos):
    """A JSON file with the ids, and `folder/<class>/<id>_<start>_<end>.mp4`, both in seconds of six digits."""

    def __init__(
        self,
        json_file: str,
        folder: str,
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: str = "/dev/shm",
    ) -> None:
        super().__init__(json_file, folder, frame_size, shm_dir_path)
        self.set_video_storage()
        if shuffle:
            random.shuffle(self.vid_storage)

    def set_video_storage(self) -> None:
        """Find the videos."""
        found = glob.glob(os.path.join(glob.escape(self.folder), "*", "*.mp4"))
        self.vid_storage = [os.path.relpath(path, self.folder) for path in sorted(found)]

    def video_id(self, vid_file: str) -> str:
        """A file's name without the seconds."""
        name = os.path.splitext(os.path.basename(vid_file))[0]
        whole = _CUT.sub("", name)
        return whole if whole in self.json_storage else name.split("_00")[0]


def _table(found: Any, path: str, which: str = "") -> dict[str, Any]:
    """What was found, if it is a mapping."""
    if not isinstance(found, dict):
        raise ListFileError(f"expected a {which}{{id: {{...}}, ...}}, found a {type(found).__name__}", file=path)
    return found
