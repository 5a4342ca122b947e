"""`gulpio.transforms` of the first GulpIO, without OpenCV: for images (HxW or HxWxC) and lists of frames.

Random transforms draw from Python's global generator, as in GulpIO. Transforms of videos treat all
frames alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Padding = int | Sequence[int]
"""Pixels on every side; or left, top, right and bottom."""

_JITTER = (256, 224, 192, 168)
# OpenCV's interpolations (nearest, linear, cubic, area, Lanczos) as Pillow's
_PILLOW = {0: 0, 1: 2, 2: 3, 3: 4, 4: 1}


class Compose:
    """Transforms, applied one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img


class ComposeVideo:
    """Transforms of images, called with every frame, and then transforms of the whole video."""

    def __init__(
        self,
        img_transforms: Sequence[Callable[[Any], Any]] = (),
        video_transforms: Sequence[Callable[[Any], Any]] = (),
    ) -> None:
        self.img_transforms, self.video_transforms = img_transforms, video_transforms

    def __call__(self, imgs: Sequence[Any]) -> Any:
        frames: Any = list(imgs)
        for transform in self.img_transforms:
            frames = [transform(frame) for frame in frames]
        for transform in self.video_transforms:
            frames = transform(frames)
        return frames


class RandHorFlipVideo:
    """Mirror half of the videos from left to right."""

    _axis = 1

    def __call__(self, imgs: Sequence[Array]) -> list[Array]:
        if random.random() >= 0.5:
            return list(imgs)
        return [np.ascontiguousarray(np.flip(img, self._axis)) for img in imgs]


class RandVerFlipVideo(RandHorFlipVideo):
    """Mirror half of the videos from top to bottom."""

    _axis = 0


class Normalize:
    """(image - mean) / std of each channel, as float64."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = np.array(mean), np.array(std)

    def __call__(self, tensor: Array) -> Array:
        return np.asarray((tensor - self.mean) / (self.std + 1e-8))


class UnitNorm:
    """(image - its mean) / its standard deviation, as float64."""

    def __call__(self, tensor: Array) -> Array:
        return np.asarray((tensor - tensor.mean()) / (tensor.std() + 1e-8))


class Scale:
    """Resize the shorter edge to `size`, or to (width, height), with Pillow's antialiased filters."""

    def __init__(self, size: int | Sequence[int], interpolation: int = 1) -> None:
        if not isinstance(size, int) and len(size) != 2:
            raise ValueError(f"size must be a number or (width, height), not {size!r}")
        self.size, self.interpolation = size, interpolation

    def __call__(self, img: Array) -> Array:
        height, width = img.shape[:2]
        if not isinstance(self.size, int):
            return self._resize(img, (self.size[0], self.size[1]))
        if min(height, width) == self.size:
            return img
        if width < height:
            return self._resize(img, (self.size, int(self.size * height / width)))
        return self._resize(img, (int(self.size * width / height), self.size))

    def _resize(self, img: Array, size: tuple[int, int]) -> Array:
        from PIL import Image

        return np.asarray(
            Image.fromarray(img).resize(size, Image.Resampling(_PILLOW[self.interpolation]))
        )


class CenterCrop:
    """Keep the middle: a square, or (height, width). Smaller images are scaled up first."""

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _pair(size)

    def __call__(self, img: Array) -> Array:
        (high, wide), (height, width) = self.size, img.shape[:2]
        if high > height or wide > width:
            factor = max(high / height, wide / width)
            img = Scale((max(wide, round(width * factor)), max(high, round(height * factor))))(img)
            height, width = img.shape[:2]
        left, top = round((width - wide) / 2), round((height - high) / 2)
        return img[top : top + high, left : left + wide]


class RandomCropVideo:
    """Keep a box at a random place, the same of all frames, which are padded with zeros first."""

    def __init__(self, size: int | Sequence[int], padding: Padding = 0) -> None:
        self.size, self.padding = _pair(size), padding

    def __call__(self, imgs: Sequence[Array]) -> list[Array]:
        return _crop_anywhere(imgs, self.size, self.padding)


class _OfImage:
    """A transform of videos, called with one image."""

    def __call__(self: Any, img: Any) -> Any:
        return super().__call__([img])[0]  # type: ignore[misc]


class RandomCrop(_OfImage, RandomCropVideo):
    """Keep a box at a random place."""


class JitterCropVideo:
    """Keep a box at a random place, the same of all frames, with a width and height drawn from `sample_sizes`."""

    def __init__(self, sample_sizes: Sequence[int] = _JITTER, padding: Padding = 0) -> None:
        self.sample_sizes, self.padding = sample_sizes, padding

    def __call__(self, imgs: Sequence[Array]) -> list[Array]:
        wide, high = random.choice(self.sample_sizes), random.choice(self.sample_sizes)
        return _crop_anywhere(imgs, (high, wide), self.padding)


class JitterCrop(_OfImage, JitterCropVideo):
    """Keep a box at a random place, with a width and height drawn from `sample_sizes`."""


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    return (size[0], size[1]) if isinstance(size, Sequence) else (int(size), int(size))


def _crop_anywhere(imgs: Sequence[Array], size: tuple[int, int], padding: Padding) -> list[Array]:
    """Return the same box of all frames."""
    left, top, right, bottom = (padding,) * 4 if isinstance(padding, int) else padding
    if left or top or right or bottom:
        imgs = [
            np.pad(img, ((top, bottom), (left, right)) + ((0, 0),) * (img.ndim - 2)) for img in imgs
        ]
    high, wide = size
    height, width = imgs[0].shape[:2]
    if high > height or wide > width:
        raise ValueError(
            f"frames of {width}x{height} pixels have no crop of {wide}x{high}: scale them up first"
        )
    x, y = random.randint(0, width - wide), random.randint(0, height - high)
    return [img[y : y + high, x : x + wide] for img in imgs]
