"""Datasets of images."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from bushel.compat.mxnet.gluon.data.datasets import RecordFileDataset
from bushel.compat.mxnet.image.functions import imdecode
from bushel.compat.mxnet.pixels import COLOUR
from bushel.compat.mxnet.recordio import unpack

__all__ = ["ImageRecordDataset"]


class ImageRecordDataset(RecordFileDataset):
    """The images and labels of a file of image records.

    Args:
        filename: The `.rec` file; its `.idx` file has the same name.
        flag: 1 for colour, HxWx3 RGB; 0 for grey, HxWx1.
        transform: Called with image and label; its result is the sample.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        flag: int = COLOUR,
        transform: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx: int) -> Any:
        header, data = unpack(super().__getitem__(idx))
        image = imdecode(data, self._flag)
        return (image, header.label) if self._transform is None else self._transform(image, header.label)
