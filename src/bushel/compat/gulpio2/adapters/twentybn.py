"""Datasets of Twenty Billion Neurons: a list of ids and labels, and a video or a folder of frames for each id."""

from __future__ import annotations

import csv
import json
import os
import random
from collections.abc import Iterator
from typing import Any

from bushel.compat.gulpio2.adapters.abstract import (
    AbstractDatasetAdapter,
    Item,
    number_labels,
    read_json,
    video_frames,
    write_labels,
)
from bushel.compat.gulpio2.errors import ListFileError, ListNameError, VideoNotFoundError
from bushel.compat.gulpio2.utils import (
    find_images_in_folder,
    get_single_video_path,
    remove_entries_with_duplicate_ids,
    resize_images,
)

__all__ = [
    "Custom20BNAdapterMixin",
    "Custom20BNCsvJpegAdapter",
    "Custom20BNCsvWebmAdapter",
    "Custom20BNJsonVideoAdapter",
]


class Custom20BNAdapterMixin:
    """Entries of `data` with a label, and their numbers in the output folder's `label2idx.json`."""

    data: list[dict[str, Any]]
    output_folder: str
    labels2idx: dict[str, int]
    label_name: str = "label"

    def check_if_label2idx_exists(self) -> bool:
        """Whether the output folder has numbers for labels."""
        return os.path.exists(os.path.join(self.output_folder, "label2idx.json"))

    def read_label2idx(self) -> dict[str, int]:
        """The output folder's numbers."""
        with open(os.path.join(self.output_folder, "label2idx.json"), encoding="utf-8") as file:
            labels: dict[str, int] = json.load(file)
        return labels

    def create_label2idx_dict(self, label_name: str) -> dict[str, int]:
        """The output folder's numbers, and new ones for new labels."""
        return number_labels((item[label_name] for item in self.data), self.output_folder)

    def write_label2idx_dict(self) -> None:
        """Write the numbers to the output folder."""
        write_labels(self.labels2idx, self.output_folder)

    def get_meta(self) -> list[dict[str, Any]]:
        """The metadata of every entry."""
        return [
            {"id": entry["id"], "label": entry[self.label_name], "idx": self.labels2idx[entry[self.label_name]]}
            for entry in self.data
        ]


class _Listed(AbstractDatasetAdapter, Custom20BNAdapterMixin):
    """Entries of a list, each with frames of its own."""

    def __init__(
        self,
        data: list[dict[str, Any]],
        folder: str,
        output_folder: str,
        *,
        label_name: str,
        shuffle: bool,
        remove_duplicate_ids: bool,
    ) -> None:
        self.data, self.folder, self.output_folder, self.label_name = data, folder, output_folder, label_name
        self.labels2idx = self.create_label2idx_dict(label_name)
        self.shuffle = bool(shuffle)
        self.all_meta: list[Any] = self.get_meta()
        if remove_duplicate_ids:
            self.all_meta = remove_entries_with_duplicate_ids(output_folder, self.all_meta)
        if self.shuffle:
            random.shuffle(self.all_meta)

    def __len__(self) -> int:
        return len(self.all_meta)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        """Iterate over the items, and write `label2idx.json` in the end."""
        for meta in self.all_meta[slice_element or slice(None)]:
            yield {"meta": meta, "frames": self.frames_of(os.path.join(self.folder, str(meta["id"]))), "id": meta["id"]}
        self.write_label2idx_dict()

    def frames_of(self, path: str) -> list[Any]:
        """The frames of the item whose files are at this path, or begin with it."""
        raise NotImplementedError


class Custom20BNJsonVideoAdapter(_Listed):
    """A JSON list of `{"id", label_name}` (`.json` or `.json.gz`), and `folder/<id>/` with one MP4.

    `shm_dir_path` is taken and not used: frames are decoded in memory.

    Raises:
        ListNameError: Its name ends in neither suffix (a `RuntimeError`).
        ListFileError: It is no such list (a `ValueError` and a `KeyError`).
    """

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
        if json_file.endswith(".json.gz"):
            data = self.read_gz_json(json_file)
        elif json_file.endswith(".json"):
            data = self.read_json(json_file)
        else:
            raise ListNameError(f"Wrong data file format (.json.gz or .json): {json_file}")
        _check_entries(json_file, data, label_name)
        super().__init__(
            data,
            folder,
            output_folder,
            label_name=label_name,
            shuffle=shuffle,
            remove_duplicate_ids=remove_duplicate_ids,
        )

    def read_json(self, json_file: str) -> Any:
        """The entries of a `.json`."""
        return read_json(json_file)

    def read_gz_json(self, gz_json_file: str) -> Any:
        """The entries of a `.json.gz`."""
        return read_json(gz_json_file)

    def frames_of(self, path: str) -> list[Any]:
        """The frames of the MP4 in a folder."""
        return video_frames(get_single_video_path(path, format_="mp4"), self.frame_size, self.frame_rate)


class Custom20BNCsvWebmAdapter(_Listed):
    """Lines of `id;label` (or `id`, for a test set: label "dummy"), and `folder/<id>.webm`.

    `shm_dir_path` is taken and not used: frames are decoded in memory.
    """

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
        self.label_name = label_name
        self.shm_dir_path = shm_dir_path
        self.frame_size, self.frame_rate = int(frame_size), int(frame_rate)
        super().__init__(
            self.read_csv(csv_file),
            folder,
            output_folder,
            label_name=label_name,
            shuffle=shuffle,
            remove_duplicate_ids=remove_duplicate_ids,
        )

    def read_csv(self, csv_file: str) -> list[dict[str, Any]]:
        """The entries of a list."""
        return _read_csv(csv_file, self.label_name)

    def get_single_video_file_path(self, folder_name: str, format_: str = "webm") -> str:
        """Path of a video, from its path without the suffix."""
        path = f"{folder_name}.{format_}"
        if not os.path.isfile(path):
            raise VideoNotFoundError(f"there is no video {path}")
        return path

    def frames_of(self, path: str) -> list[Any]:
        """The frames of a WebM."""
        return video_frames(self.get_single_video_file_path(path), self.frame_size, self.frame_rate)


class Custom20BNCsvJpegAdapter(_Listed):
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
        self.shm_dir_path = shm_dir_path
        self.frame_size = int(frame_size)
        super().__init__(
            self.read_csv(csv_file),
            folder,
            output_folder,
            label_name="label",
            shuffle=shuffle,
            remove_duplicate_ids=False,
        )

    def read_csv(self, csv_file: str) -> list[dict[str, Any]]:
        """The entries of a list."""
        return _read_csv(csv_file, "label")

    def frames_of(self, path: str) -> list[Any]:
        """The JPEGs of a folder."""
        return list(resize_images(find_images_in_folder(path, formats=["jpg"]), self.frame_size))


def _check_entries(path: str, data: Any, label_name: str) -> None:
    if not isinstance(data, list):
        raise ListFileError(f"expected a list of entries, found a {type(data).__name__}", file=path)
    for number, entry in enumerate(data):
        missing = [key for key in ("id", label_name) if not isinstance(entry, dict) or key not in entry]
        if missing:
            raise ListFileError(
                f"entry {number} has no {missing[0]!r}: {str(entry)[:100]}",
                file=path,
                hint=f"entries are like {{'id': 1, {label_name!r}: 'Picking [something] up'}}; --label_name says which "
                "key has the label",
            )


def _read_csv(path: str, label_name: str) -> list[dict[str, Any]]:
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {"id": row[0], label_name: row[1] if len(row) > 1 else "dummy"}
            for row in csv.reader(file, delimiter=";")
            if row
        ]
