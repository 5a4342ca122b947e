"""Datasets of images: in a record file, and in folders named after classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

from bushel.compat.mxnet.gluon.data.dataset import Dataset, RecordFileDataset
from bushel.compat.mxnet.image.functions import imdecode, imread
from bushel.compat.mxnet.pixels import COLOUR
from bushel.compat.mxnet.recordio import unpack

_SUFFIXES = (".jpg", ".jpeg", ".png")

Transform: TypeAlias = Callable[[Any, Any], Any] | None
"""A function of an image and its label."""


class ImageRecordDataset(RecordFileDataset):
    """The images (HxWx3 RGB, or HxWx1 with `flag=0`) and labels of a file of image records."""

    def __init__(
        self, filename: str | os.PathLike[str], flag: int = COLOUR, transform: Transform = None
    ) -> None:
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: int) -> Any:
        header, data = unpack(super().__getitem__(idx))
        image = imdecode(data, self._flag)
        return (
            (image, header.label)
            if self._transform is None
            else self._transform(image, header.label)
        )


class ImageFolderDataset(Dataset):
    """The images of `root/CLASS/NAME` and the numbers of their classes, in the order of the names.

    Attributes:
        synsets: Names of the classes in the order of their numbers.
        items: Path and class of each image. Files in `root`, and files in the folder of a class
            that are neither JPEG nor PNG, are left out with a warning.
    """

    def __init__(
        self, root: str | os.PathLike[str], flag: int = COLOUR, transform: Transform = None
    ) -> None:
        self._root, self._flag, self._transform = os.path.expanduser(root), flag, transform
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        with os.scandir(self._root) as entries:
            folders = sorted(entries, key=lambda entry: entry.name)
        for folder in folders:
            if not folder.is_dir():
                warnings.warn(f"Ignoring {folder.path}, which is not a directory.", stacklevel=2)
                continue
            self._add(folder)

    def _add(self, folder: os.DirEntry[str]) -> None:
        label = len(self.synsets)
        self.synsets.append(folder.name)
        with os.scandir(folder.path) as entries:
            for path in sorted(entry.path for entry in entries):
                suffix = os.path.splitext(path)[1]
                if suffix.lower() in _SUFFIXES:
                    self.items.append((path, label))
                else:
                    text = f"Ignoring {path} of type {suffix}. Only support {', '.join(_SUFFIXES)}"
                    warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, idx: int) -> Any:
        path, label = self.items[idx]
        image = imread(path, self._flag)
        return (image, label) if self._transform is None else self._transform(image, label)
