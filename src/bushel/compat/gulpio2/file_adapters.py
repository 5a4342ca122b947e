"""Adapters of files with labels: a list of images, and images or videos in a folder for each label."""

from __future__ import annotations

import glob
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .adapter_base import Labelled, number_labels, video_frames, write_labels
from .utils import resize_by_short_edge


class _Files(Labelled):
    """Files with labels: `data` has the `id`, `label` and `path` of each.

    Where several files have the same id, which a gulp file would merge, their ids become the label
    and the whole path.
    """

    def __init__(
        self, data: list[dict[str, str]], output_folder: str, *, shuffle: bool, size: int
    ) -> None:
        self.data, self.output_folder = data, output_folder
        self.shuffle, self.size = bool(shuffle), int(size)
        self.label2idx = self.create_label2idx_dict()
        self.all_meta = self.get_meta()
        if self.shuffle:
            random.shuffle(self.all_meta)

    def get_meta(self) -> list[dict[str, Any]]:
        return [{**entry, "idx": self.label2idx[entry["label"]]} for entry in self.data]

    def create_label2idx_dict(self) -> dict[str, int]:
        return number_labels((item["label"] for item in self.data), self.output_folder)

    def write_label2idx_dict(self) -> None:
        write_labels(self.label2idx, self.output_folder)


class ImageListAdapter(_Files):
    """Lines of `path,label`, the path relative to `root_folder`. The id is `label-<file name>`.

    An image that cannot be read is printed to standard error and left out.
    """

    leaves_out = "path"

    def __init__(
        self,
        input_file: str,
        output_folder: str,
        root_folder: str = "",
        shuffle: bool = False,
        img_size: int = -1,
    ) -> None:
        self.input_file, self.img_size = input_file, int(img_size)
        self.root_folder = self.folder = root_folder
        super().__init__(
            self.parse_paths(input_file), output_folder, shuffle=shuffle, size=img_size
        )

    @staticmethod
    def parse_paths(input_file: str) -> list[dict[str, str]]:
        """Return the id, label and path of each image of a list."""
        data = []
        with open(input_file, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                path, comma, label = line.strip().rpartition(",")
                if not comma:
                    raise ValueError(
                        f"{input_file}, line {number}: expected "
                        f"`path,label`, found {line.strip()!r}"
                    )
                path, label = path.strip(), label.strip()
                data.append(
                    {"id": os.path.basename(f"{label}-{path}"), "label": label, "path": path}
                )
        return _distinct(data, [f"{item['label']}-{item['path']}" for item in data])

    def frames_of(self, meta: dict[str, Any]) -> list[Any] | None:
        path = os.path.join(self.root_folder, meta["path"])
        try:
            return [resize_by_short_edge(path, self.size)]
        except OSError as error:
            print(f"{path} is left out: {error}", file=sys.stderr)
            return None


class _Folder(_Files):
    """Files anywhere below a folder. The folder that holds a file is its label. The id is `label-<file name>`."""

    def __init__(
        self,
        folder: str,
        output_folder: str,
        file_extensions: Sequence[str],
        *,
        shuffle: bool,
        size: int,
    ) -> None:
        self.folder = folder
        self.file_extensions = list(file_extensions)
        self._paths: dict[str, str] = {}
        super().__init__(self.parse_folder(folder), output_folder, shuffle=shuffle, size=size)

    def parse_folder(self, folder: str) -> list[dict[str, str]]:
        """Return the id, label and folder of each file, sorted by path."""
        root = os.path.join(folder, "")
        patterns = [f"{glob.escape(root)}**/*{extension}" for extension in self.file_extensions]
        paths = sorted(
            {path for pattern in patterns for path in glob.glob(pattern, recursive=True)}
        )
        data = []
        for path in paths:
            parent, name = os.path.split(path)
            label = os.path.basename(os.path.abspath(parent))
            data.append({"id": f"{label}-{name}", "label": label, "path": parent})
        data = _distinct(
            data,
            [
                f"{item['label']}-{path[len(root) :]}"
                for item, path in zip(data, paths, strict=True)
            ],
        )
        self._paths = {item["id"]: path for item, path in zip(data, paths, strict=True)}
        return data


class ImageFolderAdapter(_Folder):
    """Images below a folder, in a folder for each label."""

    def __init__(
        self,
        folder: str,
        output_folder: str,
        file_extensions: Sequence[str] = (".jpg", ".png"),
        shuffle: bool = False,
        img_size: int = -1,
    ) -> None:
        self.img_size = int(img_size)
        super().__init__(folder, output_folder, file_extensions, shuffle=shuffle, size=img_size)

    def frames_of(self, meta: dict[str, Any]) -> list[Any]:
        return [resize_by_short_edge(self._paths[meta["id"]], self.size)]


class VideoFolderAdapter(_Folder):
    """Videos below a folder, in a folder for each label, with all their frames."""

    def __init__(
        self,
        folder: str,
        output_folder: str,
        file_extensions: Sequence[str] = (".mp4", ".webm"),
        shuffle: bool = False,
        frame_size: int = -1,
        shm_dir_path: str = "/dev/shm",
    ) -> None:
        self.frame_size, self.shm_dir_path = int(frame_size), shm_dir_path
        super().__init__(folder, output_folder, file_extensions, shuffle=shuffle, size=frame_size)

    def frames_of(self, meta: dict[str, Any]) -> list[Any]:
        return self.get_bursted_frames(self._paths[meta["id"]])

    def get_bursted_frames(self, video_path: str) -> list[Any]:
        return video_frames(video_path, self.frame_size)


def _distinct(data: list[dict[str, str]], longer: Sequence[str]) -> list[dict[str, str]]:
    """Return the same entries, with longer ids where several have the same one."""
    taken = Counter(item["id"] for item in data)
    return [
        {**item, "id": long} if taken[item["id"]] > 1 else item
        for item, long in zip(data, longer, strict=True)
    ]
