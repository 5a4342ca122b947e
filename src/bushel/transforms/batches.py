"""Transforms of batches, for `batch_transform=`, which mix each sample with the previous one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from bushel._runtime.arrays import F32, Array

from .geometry import described
from .values import frozen_transform

Batch = dict[str, Any]
Mixed = tuple[Array, float]


@frozen_transform
class _Mixing(ABC):
    """Shared base of `MixUp` and `CutMix`."""

    image: str  # the field of images: an array of shape (samples, ...)
    # the field of labels: integers of shape (samples,), or shares of classes of shape (samples,
    # classes)
    label: str
    classes: int  # number of classes
    # parameter of the Beta distribution of the share that a sample keeps of itself
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.alpha <= 0 or self.classes < 1:
            raise ValueError(f"invalid {self}: expected alpha above 0 and at least one class")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        """Return the batch with other images and labels.

        Raises:
            KeyError: The batch lacks one of the fields.
            TypeError: The images are not one array, or the labels not integers.
            ValueError: A label is not below `classes`.
        """
        images, share = self._mixed(
            self._images(batch), float(rng.beta(self.alpha, self.alpha)), rng
        )
        shares = self._shares(batch)
        mixed: F32 = shares * np.float32(share) + np.roll(shares, 1, 0) * np.float32(1 - share)
        return batch | {self.image: images, self.label: mixed}

    @abstractmethod
    def _mixed(self, images: Array, kept: float, rng: np.random.Generator) -> Mixed:
        """Return the mixed images, and the share of its own pixels that each keeps, for a wanted share `kept`."""

    def _images(self, batch: Batch) -> Array:
        images = batch[self.image]
        if not isinstance(images, np.ndarray) or images.ndim < 3:
            raise TypeError(
                f"the field {self.image!r} of the batch is {described(images)}: expected an "
                "array of images of one size. Put a crop or resizing into transforms="
            )
        return images

    def _shares(self, batch: Batch) -> F32:
        """Return the labels of a batch as shares of classes, float32 of shape (samples, classes)."""
        labels = np.asarray(batch[self.label])
        if labels.ndim == 2 and labels.shape[1] == self.classes and labels.dtype.kind == "f":
            return labels.astype(np.float32)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise TypeError(
                f"the field {self.label!r} of the batch is {described(labels)}: "
                "expected integers, one for each sample"
            )
        if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < self.classes:
            raise ValueError(
                f"the field {self.label!r} has labels from {labels.min()} "
                f"to {labels.max()}, but classes={self.classes}"
            )
        return np.asarray(np.eye(self.classes, dtype=np.float32)[labels])


@frozen_transform
class MixUp(_Mixing):
    """Blend each sample's image and label with the sample before it (Zhang et al., 2018), as torchvision does.

    Labels become float32 of shape (samples, classes). Images keep their type; uint8 is rounded.

    Attributes:
        image: The field of images: an array of shape (samples, ...).
        label: The field of labels: integers of shape (samples,), or shares of classes of shape
            (samples, classes).
        classes: Number of classes.
        alpha: Parameter of the Beta distribution of the share that a sample keeps of itself.

    Examples:
        >>> from bushel.transforms import MixUp, RandomResizedCrop
        >>> loader = bushel.Loader(
        ...     ds, 4, transforms=[RandomResizedCrop(32)], batch_transform=MixUp("image", "label", 10, alpha=0.2)
        ... )
        >>> loader.peek()["label"].shape
        (4, 10)
    """

    def _mixed(self, images: Array, kept: float, rng: np.random.Generator) -> Mixed:
        number = np.float64 if images.dtype == np.float64 else np.float32
        mixed = images * number(kept) + np.roll(images, 1, 0) * number(1 - kept)
        if images.dtype.kind in "iu":
            mixed = np.rint(mixed)
        return mixed.astype(images.dtype), kept


@frozen_transform
class CutMix(_Mixing):
    """Replace a box of each image by the same box of the sample before it (Yun et al., 2019), as torchvision does.

    Labels become float32 of shape (samples, classes), by the areas.

    Attributes:
        image: The field of images: an array (samples, height, width) or (samples, height, width,
            channels).
        label: The field of labels: integers of shape (samples,), or shares of classes of shape
            (samples, classes).
        classes: Number of classes.
        alpha: Parameter of the Beta distribution of the share that a sample keeps of itself.
        chw: Whether images are (samples, channels, height, width), as after `ToCHW`.

    Examples:
        >>> from bushel.transforms import CutMix, RandomResizedCrop
        >>> loader = bushel.Loader(
        ...     ds, 4, transforms=[RandomResizedCrop(32)], batch_transform=CutMix("image", "label", 10)
        ... )
        >>> loader.peek()["label"].sum(axis=1)
        array([1., 1., 1., 1.], dtype=float32)
    """

    chw: bool = False

    def _mixed(self, images: Array, kept: float, rng: np.random.Generator) -> Mixed:
        height, width = images.shape[-2:] if self.chw else images.shape[1:3]
        x, y = int(rng.integers(width)), int(rng.integers(height))
        half = 0.5 * math.sqrt(1 - kept)
        left, right = max(0, x - int(half * width)), min(width, x + int(half * width))
        top, bottom = max(0, y - int(half * height)), min(height, y + int(half * height))
        box = (
            (..., slice(top, bottom), slice(left, right))
            if self.chw
            else (slice(None), slice(top, bottom), slice(left, right))
        )
        mixed = images.copy()
        mixed[box] = np.roll(images, 1, 0)[box]
        return mixed, 1 - (right - left) * (bottom - top) / (width * height)
