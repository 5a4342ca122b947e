"""`gulpio.dataset` of the first GulpIO: datasets of clips and of images with labels."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .fileio import GulpDirectory


class GulpIOEmptyFolder(Exception):  # GulpIO's name
    """A folder has no chunks."""


class _Labelled:
    """The items of a gulp directory, and the numbers of their labels from its `label2idx.json`."""

    def __init__(
        self, data_path: str | os.PathLike[str], target_transform: Callable[[int], Any] | None
    ) -> None:
        self.data_path = data_path
        self.gd = GulpDirectory(data_path)
        self.num_chunks = self.gd.num_chunks
        if self.num_chunks == 0:
            raise GulpIOEmptyFolder(
                f"Found 0 data binaries in subfolders of: {os.fspath(data_path)}"
            )
        with open(os.path.join(data_path, "label2idx.json"), encoding="utf-8") as file:
            self.label2idx: dict[str, int] = json.load(file)
        self.classes = self.label2idx.keys()
        self.items = list(self.gd.merged_meta_dict.items())
        self.target_transform = target_transform

    def __len__(self) -> int:
        return len(self.items)

    def target(self, index: int) -> Any:
        """Return the number of an item's label, transformed."""
        number = self.label2idx[self.items[index][1]["meta_data"][0]["label"]]
        return self.target_transform(number) if self.target_transform else number


class GulpVideoDataset(_Labelled):
    """Clips of `num_frames` frames (-1: all; shorter videos repeat the last one), and their labels' numbers."""

    def __init__(
        self,
        data_path: str | os.PathLike[str],
        num_frames: int,
        step_size: int,
        is_val: bool,
        transform: Callable[[list[Any]], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        stack: bool = True,
        random_offset: bool = True,
    ) -> None:
        super().__init__(data_path, target_transform)
        self.num_frames, self.step_size = num_frames, step_size
        self.is_val, self.stack, self.random_offset = is_val, stack, random_offset
        self.transform_video = transform

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        id_, entry = self.items[index]
        length = len(entry["frame_info"])
        needed = self.num_frames * self.step_size if self.num_frames > -1 else length
        offset = 0
        if needed < length and self.random_offset and not self.is_val:
            offset = int(np.random.randint(0, length - needed))
        frames: Any = self.gd[id_, slice(offset, offset + needed, self.step_size)][0]
        if not frames:
            raise ValueError(f"item {id_!r} of {os.fspath(self.data_path)} has no frames")
        frames += frames[-1:] * (self.num_frames - len(frames))
        if self.transform_video:
            frames = self.transform_video(frames)
        return np.stack(frames) if self.stack else frames, self.target(index)


class GulpImageDataset(_Labelled):
    """Images, which are items of one frame, and their labels' numbers."""

    def __init__(
        self,
        data_path: str | os.PathLike[str],
        is_val: bool = False,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
    ) -> None:
        super().__init__(data_path, target_transform)
        self.is_val, self.transform = is_val, transform

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        id_, entry = self.items[index]
        if len(entry["frame_info"]) != 1:
            raise ValueError(
                f"item {id_!r} is not an image: it has {len(entry['frame_info'])} frames"
            )
        [image] = self.gd[id_][0]
        return self.transform(image) if self.transform else image, self.target(index)
