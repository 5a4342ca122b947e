"""What `im2rec` packs: the images of a list, or of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from bushel.compat.mxnet.pixels import COLOUR, decode
from bushel.errors import SpecError
from bushel.sources import ListFile
from bushel.sources.base import Sample
from bushel.spec import KEY
from bushel.storage import AnyPath

__all__ = ["ArrayImages", "ListedImages"]


class ListedImages(ListFile):
    """The images of a list, decoded as OpenCV does it; or as they are.

    Args:
        path: The list.
        root: The folder of the images; by default that of the list.
        pack_label: Keep all labels of a line; otherwise the first.
        flag: 1 for colour, 0 for grey, -1 for what the file holds; None to leave images encoded.
    """

    def __init__(
        self, path: AnyPath, *, root: AnyPath | None = None, pack_label: bool = False, flag: int | None = COLOUR
    ) -> None:
        super().__init__(path, root=root, first_label=not pack_label)
        self.spec = {**self.spec, "label": "array" if pack_label else "float"}  # whatever this list has, to be added to
        self._flag = flag

    def __getitem__(self, position: int) -> Sample:
        sample = dict(super().__getitem__(position))
        label = np.asarray(sample["label"], np.float32)
        sample["label"] = label if label.size > 1 else float(label.reshape(-1)[0])  # one label is no vector
        if self._flag is not None:
            sample["image"] = decode(sample["image"], self._flag, tolerant=False)
        return sample


class ArrayImages:
    """Images in an array, with ids 0, 1, 2….

    Args:
        images: uint8[n, height, width] or uint8[n, height, width, channels], RGB.
        labels: Numbers, [n] or [n, labels]; 0 for all by default.

    Raises:
        SpecError: The shapes are others.
    """

    def __init__(self, images: Any, labels: Any = None) -> None:
        self._images = np.asanyarray(images)
        if self._images.ndim not in (3, 4) or self._images.dtype != np.uint8:
            raise SpecError(
                "an array of images is uint8[n, height, width] or uint8[n, height, width, channels], not "
                f"{self._images.dtype}{list(self._images.shape)}"
            )
        self._labels = np.zeros(len(self._images), np.int64) if labels is None else np.asarray(labels)
        if self._labels.ndim not in (1, 2) or len(self._labels) != len(self._images):
            raise SpecError(f"{len(self._images)} images have as many labels, not {list(self._labels.shape)}")
        whole = self._labels.dtype.kind in "biu"
        self.spec = {"image": "image", "label": "array" if self._labels.ndim == 2 else "int" if whole else "float"}

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, position: int) -> Sample:
        label = self._labels[position]
        return {
            KEY: str(position),
            "image": self._images[position],
            "label": label if self._labels.ndim == 2 else label.item(),
        }
