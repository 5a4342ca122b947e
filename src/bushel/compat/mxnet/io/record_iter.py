"""`ImageRecordIter`: batches of images from a record file, by `bushel.Loader`."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

import bushel
from bushel.compat.errors import raised_as
from bushel.compat.mxnet.base import (
    Array,
    DamagedError,
    DataBatch,
    DataIter,
    NDArray,
    NoFileError,
    UnsupportedOptionError,
)
from bushel.compat.mxnet.gluon.data.vision.transforms import RandomLighting
from bushel.compat.mxnet.lists import read_list
from bushel.compat.mxnet.steps import Still
from bushel.loader import Loader
from bushel.spec import KEY
from bushel.transforms import (
    CenterCrop,
    ColorJitter,
    Crop,
    Flip,
    Grayscale,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToCHW,
)

_NO_EFFECT = (
    "verbose",
    "device_id",
    "ctx",
    "prefetch_buffer",
    "shuffle_chunk_size",
    "aug_seq",
    "shuffle_chunk_seed",
)
"""Options that change how the original works, but not its results."""


@dataclass(frozen=True)
class _Middle(CenterCrop):
    """Keep the middle of an image; an odd pixel is cut off at the end."""

    size: tuple[int, int]

    def steps(self, width: int, height: int, rng: Any = None) -> tuple[Crop]:
        rows, columns = self.size
        if columns > width or rows > height:
            raise ValueError(
                f"an image of {width}x{height} pixels is smaller than {columns}x{rows}: use resize="
            )
        return (Crop((width - columns) // 2, (height - rows) // 2, columns, rows),)


@dataclass(frozen=True)
class _Mirror(Still):
    """Mirror every image from left to right."""

    def steps(self, width: int, height: int, rng: Any = None) -> tuple[Flip]:
        return (Flip(horizontal=True),)


class ImageRecordIter(DataIter):
    """Iterates over a file of image records, through `bushel.Loader`.

    One `for`, or `next` until StopIteration, is an epoch; `reset` starts the next one. The last
    batch is filled with samples from the start of the epoch, whose number is in `pad`.
    `path_imgidx` and `seed_aug` are not needed, and `round_batch` is always on. Other options that
    change the result raise an `UnsupportedOptionError`.
    """

    def __init__(
        self,
        path_imgrec: Any,
        data_shape: tuple[int, int, int],
        batch_size: int,
        path_imgidx: Any = None,
        path_imglist: Any = None,
        label_width: int = 1,
        preprocess_threads: int = 4,
        num_parts: int = 1,
        part_index: int = 0,
        shuffle: bool = False,
        seed: int = 0,
        seed_aug: int | None = None,
        round_batch: bool = True,
        dtype: str | None = "float32",
        resize: int = -1,
        rand_crop: bool = False,
        random_resized_crop: bool = False,
        min_random_area: float = 1.0,
        max_random_area: float = 1.0,
        min_aspect_ratio: float | None = None,
        max_aspect_ratio: float = 0.0,
        mirror: bool = False,
        rand_mirror: bool = False,
        brightness: float = 0.0,
        contrast: float = 0.0,
        saturation: float = 0.0,
        pca_noise: float = 0.0,
        mean_r: float = 0.0,
        mean_g: float = 0.0,
        mean_b: float = 0.0,
        std_r: float = 1.0,
        std_g: float = 1.0,
        std_b: float = 1.0,
        scale: float = 1.0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **others: Any,
    ) -> None:
        super().__init__(batch_size)
        if undone := [name for name in others if name not in _NO_EFFECT]:
            option = f"{undone[0]}={others[undone[0]]!r}"
            raise UnsupportedOptionError(f"{option}: use ImageIter for this augmentation")
        channels, height, width = data_shape
        if channels not in (1, 3):
            raise ValueError(
                f"data_shape must be (3, height, width) or (1, height, width), not {data_shape}"
            )
        steps: list[Any] = [Resize(resize)] if resize > 0 else []
        if random_resized_crop:
            least = 1 - max_aspect_ratio if min_aspect_ratio is None else min_aspect_ratio
            most = 1 + max_aspect_ratio if min_aspect_ratio is None else max_aspect_ratio
            area = (min_random_area, max_random_area)
            steps.append(RandomResizedCrop((height, width), scale=area, ratio=(least, most)))
        else:
            steps.append(RandomCrop((height, width)) if rand_crop else _Middle((height, width)))
        if mirror or rand_mirror:
            steps.append(_Mirror() if mirror else RandomHorizontalFlip())
        if brightness or contrast or saturation:
            steps.append(ColorJitter(brightness, contrast, saturation))
        if pca_noise:
            steps.append(RandomLighting(pca_noise))
        if channels == 1:
            steps.append(Grayscale())
        if dtype != "uint8":
            mean, std = (mean_r, mean_g, mean_b)[:channels], (std_r, std_g, std_b)[:channels]
            levels = (
                tuple(level / 255 for level in mean),
                tuple(level / 255 / scale for level in std),
            )
            steps.append(Normalize(*levels, "float16" if dtype == "float16" else "float32"))
        steps.append(ToCHW())
        dataset = _images(path_imgrec)
        if num_parts > 1:
            dataset = dataset.shard(part_index, num_parts)
        self._labels = None if path_imglist is None else _listed(path_imglist)
        self._loader = Loader(
            dataset,
            batch_size,
            shuffle=bool(shuffle),
            seed=seed,
            transforms={"image": steps},
            rank=0,
            world_size=1,
            threads=preprocess_threads,
            pad="wrap",
        )
        self._samples = len(dataset)
        self._label_width = label_width
        self._provide(data_shape, label_width, data_name, label_name)
        self._given = 0
        self._epoch: Generator[Any] | None = None

    def reset(self) -> None:
        """Start the next epoch."""
        if self._epoch is not None:
            self._epoch.close()
            self._epoch = None

    def next(self) -> DataBatch:
        if self._epoch is None:
            self._epoch, self._given = iter(self._loader), 0
        batch = next(self._epoch)
        self._given += self.batch_size
        pad = max(self._given - self._samples, 0)
        image = batch["image"]
        if not isinstance(image, np.ndarray):
            raise DamagedError("the images of a batch have different shapes")
        ids = np.asarray(batch["id"] if "id" in batch else list(map(int, batch[KEY])))
        labels = self._label(batch["label"], ids)
        return DataBatch([image.view(NDArray)], [labels.view(NDArray)], pad=pad, index=ids)

    def _label(self, labels: Any, ids: Array) -> Array:
        if self._labels is not None:
            try:
                labels = [self._labels[number] for number in ids.tolist()]
            except KeyError as error:
                raise KeyError(f"path_imglist has no image {error.args[0]}") from None
        rows = np.array(
            [np.asarray(label, np.float32).reshape(-1)[: self._label_width] for label in labels],
            np.float32,
        )
        return rows if self._label_width > 1 else rows[:, 0]


def _images(path: Any) -> bushel.Dataset:
    try:
        with raised_as(DamagedError):
            dataset = bushel.open(path, container="recordio", index="memory", on_damage="raise")
    except FileNotFoundError as error:
        raise NoFileError(*error.args) from error
    if not {"image", "label"} <= set(dataset.spec):
        raise DamagedError("the file holds no image records", file=str(path))
    return dataset.select_fields(
        [name for name in ("image", "label", "id") if name in dataset.spec]
    )


def _listed(path: Any) -> dict[int, Array]:
    """Return the labels of a list by image id."""
    return {line.index: np.array(line.labels, np.float32) for line in read_list(path)}
