"""`ImageIter`: batches of images from a record file, or from the files of a list."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from bushel.compat.errors import WrongUseError
from bushel.compat.mxnet.base import (
    Array,
    DataBatch,
    DataIter,
    ImageError,
    MXNetError,
    NDArray,
    check_last_batch,
)
from bushel.compat.mxnet.lists import read_list
from bushel.compat.mxnet.recordio import MXIndexedRecordIO, MXRecordIO, unpack
from bushel.storage import as_path, read_whole

from .augment import Augmenter, CreateAugmenter
from .functions import imdecode

_Listed = dict[Any, tuple[Array, str]]


class ImageIter(DataIter):
    """Iterates over images in Python, with any augmenters: by default `CreateAugmenter` with the other arguments.

    `shuffle` draws from the module `random`. The sizes of parts differ by at most one.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, int, int],
        label_width: int = 1,
        path_imgrec: Any = None,
        path_imglist: Any = None,
        path_root: Any = None,
        path_imgidx: Any = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[Augmenter] | None = None,
        imglist: list[Any] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: Literal["pad", "discard", "roll_over"] = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise WrongUseError("nothing to read: give path_imgrec, path_imglist or imglist")
        if dtype not in ("int32", "float32", "int64", "float64"):
            raise WrongUseError(f"dtype must be int32, int64, float32 or float64, not {dtype}")
        self.imgrec: MXRecordIO | None = None
        keys: list[Any] | None = None
        if path_imgrec:
            indexed = MXIndexedRecordIO(path_imgidx, path_imgrec, "r") if path_imgidx else None
            self.imgrec = indexed or MXRecordIO(path_imgrec, "r")
            keys = None if indexed is None else list(indexed.keys)
        self.imglist = _listed(path_imglist, imglist, dtype)
        if self.imgrec is None and self.imglist is not None:
            keys = list(self.imglist)
        self.check_data_shape(data_shape)
        if not 0 <= part_index < num_parts:
            raise WrongUseError(
                f"part_index must be from 0 to num_parts - 1, not {part_index} of {num_parts}"
            )
        check_last_batch(last_batch_handle)
        if keys is None and (shuffle or num_parts > 1):
            raise WrongUseError("shuffle and num_parts need path_imgidx")
        self.seq = keys
        if keys is not None:
            self.seq = keys[
                len(keys) * part_index // num_parts : len(keys) * (part_index + 1) // num_parts
            ]
        self.path_root, self.shuffle = path_root, shuffle
        self.data_shape, self.label_width = tuple(data_shape), label_width
        self._provide(self.data_shape, label_width, data_name, label_name)
        self.auglist = (
            list(aug_list) if aug_list is not None else CreateAugmenter(data_shape, **kwargs)
        )
        self.last_batch_handle = last_batch_handle
        self.cur = 0
        self._over = False
        self._rest: list[tuple[Any, Array]] = []
        self.reset()

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Raise ValueError if the shape of an image is not (3, height, width)."""
        if len(data_shape) != 3 or data_shape[0] != 3:
            raise ValueError(f"data_shape must be (3, height, width), not {data_shape}")

    def reset(self) -> None:
        """Start an epoch, with the samples that `roll_over` kept back."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur, self._over = 0, False

    def hard_reset(self) -> None:
        """Start an epoch without the samples kept back."""
        self._rest = []
        self.reset()

    def next_sample(self) -> tuple[Any, bytes]:
        """Return the label and the encoded bytes of the next image, or raise StopIteration."""
        if self.seq is None:
            record = self.imgrec.read() if self.imgrec is not None else None
            if record is None:
                raise StopIteration
            self.cur += 1
            header, data = unpack(record)
            return header.label, data
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if isinstance(self.imgrec, MXIndexedRecordIO):
            header, data = unpack(self.imgrec.read_idx(key))
            return (header.label if self.imglist is None else self.imglist[key][0]), data
        assert self.imglist is not None  # without a record file, there is a list
        label, name = self.imglist[key]
        return label, self.read_image(name)

    def next(self) -> DataBatch:
        if self._over:
            raise StopIteration
        samples, self._rest = self._rest, []
        try:
            while len(samples) < self.batch_size:
                samples.append(self._sample())
        except StopIteration:
            self._over = True
            if not samples or self.last_batch_handle == "discard":
                raise StopIteration from None
            if self.last_batch_handle == "roll_over":
                self._rest = samples
                raise StopIteration from None
        pad = self.batch_size - len(samples)
        if pad:
            self._fill(samples)
        data = np.empty(self.provide_data[0].shape, np.float32)
        labels = np.empty(self.provide_label[0].shape, np.float32)
        for place, (label, image) in enumerate(samples):
            numbers = np.asarray(label, np.float32)
            if numbers.size != self.label_width:
                raise ValueError(
                    f"a label has {numbers.size} numbers, but label_width={self.label_width}"
                )
            data[place], labels[place] = image, numbers.reshape(labels.shape[1:])
        return DataBatch([data.view(NDArray)], [labels.view(NDArray)], pad=pad)

    def _fill(self, samples: list[tuple[Any, Array]]) -> None:
        """Fill a batch from the start of the epoch, several times if necessary."""
        while len(samples) < self.batch_size:
            self.cur = 0
            if self.imgrec is not None:
                self.imgrec.reset()
            try:
                while len(samples) < self.batch_size:
                    samples.append(self._sample())
            except StopIteration:
                continue

    def _sample(self) -> tuple[Any, Array]:
        label, data = self.next_sample()
        return label, self.postprocess_data(self.augmentation_transform(self.imdecode(data)))

    def imdecode(self, s: bytes) -> Array:
        """Decode an image. The error of a damaged one names the file or the key."""
        try:
            return imdecode(s)
        except ImageError as error:
            key = self.cur - 1 if self.seq is None else self.seq[self.cur - 1]
            where = f"index: {key}" if self.imglist is None else f"filename: {self.imglist[key][1]}"
            raise MXNetError(f"Broken image {where}, {error}") from error

    def read_image(self, fname: str) -> bytes:
        return read_whole(as_path(os.curdir if self.path_root is None else self.path_root) / fname)

    def augmentation_transform(self, data: Array) -> Array:
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: Array) -> Array:
        return datum.transpose(2, 0, 1)


def _listed(path: Any, rows: list[Any] | None, dtype: str) -> _Listed | None:
    """Return labels and path by key, from a list file, or from a list in memory, whose keys are 1, 2… as text.

    Raises:
        TypeError: A label of the list file is not a whole number, though `dtype` is one of
            integers.
    """
    if path:
        parsed = read_list(path)
        for line in parsed:
            if dtype.startswith("int") and not all(
                float(label).is_integer() for label in line.labels
            ):
                raise TypeError(
                    f"{path}: entry {line.index}: the labels {line.labels} are not {dtype}"
                )
        return {line.index: (np.array(line.labels, dtype), line.path) for line in parsed}
    if rows is None:
        return None
    listed: _Listed = {}
    for number, row in enumerate(rows, 1):
        labels = row[:-1] if len(row) > 2 else row[0]
        listed[str(number)] = (np.array(labels, dtype).reshape(-1), row[-1])
    return listed
