"""Augmenters: callables of an image, HxWx3 in the order RGB, which draw random numbers as the original's do."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bushel.compat.errors import WrongUseError
from bushel.compat.mxnet.base import Array, NDArray
from bushel.compat.mxnet.resampling import CUBIC

from .functions import (
    center_crop,
    color_normalize,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
]

LUMA = np.array([0.299, 0.587, 0.114], np.float32)
# Eigenvalues and eigenvectors of the colours of ImageNet (Krizhevsky et al. 2012).
EIGENVALUES = np.array([55.46, 4.794, 1.148])
EIGENVECTORS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
)
# From RGB to YIQ and back, in the rounded numbers of the original.
YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
RGB = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
MEAN, STD = (123.68, 116.28, 103.53), (58.395, 57.12, 57.375)


def blended(image: Array, other: Any, alpha: float) -> NDArray:
    """Return `alpha` parts of an image and 1 - `alpha` parts of `other`."""
    return np.asarray(image * np.float32(alpha) + other * np.float32(1 - alpha)).view(NDArray)


def turned_hue(image: Array, alpha: float) -> NDArray:
    """Return an image whose hue is turned by `alpha` half circles, in YIQ."""
    cosine, sine = np.cos(alpha * np.pi), np.sin(alpha * np.pi)
    turn = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
    return np.asarray(image @ (RGB @ turn @ YIQ).T.astype(np.float32)).view(NDArray)


def varied(amount: float) -> float:
    """Return a random factor between 1 - `amount` and 1 + `amount`."""
    return 1.0 + random.uniform(-amount, amount)


class Augmenter:
    """Base class, which keeps its arguments for `dumps`. The subclasses here are dataclasses of their arguments."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in kwargs.items()
        }

    def __post_init__(self) -> None:
        arguments: Any = fields(self)  # type: ignore[arg-type]
        Augmenter.__init__(
            self, **{argument.name: getattr(self, argument.name) for argument in arguments}
        )

    def dumps(self) -> Any:
        """Return the name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Array) -> Array:
        raise NotImplementedError("Must override implementation.")


class SequentialAug(Augmenter):
    """Augmenters, applied one after the other."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Return the name, and the `dumps` of each augmenter."""
        return [type(self).__name__.lower(), [augmenter.dumps() for augmenter in self.ts]]

    def __call__(self, src: Array) -> Array:
        for augmenter in self.ts:
            src = augmenter(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters, applied in a random order."""

    def __call__(self, src: Array) -> Array:
        random.shuffle(self.ts)
        return super().__call__(src)


@dataclass(eq=False)
class _Sized(Augmenter):
    size: Any
    interp: int = CUBIC


class ResizeAug(_Sized):
    """Resize the shorter edge to `size`."""

    def __call__(self, src: Array) -> Array:
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(_Sized):
    """Resize to (width, height)."""

    def __call__(self, src: Array) -> Array:
        width, height = self.size
        return imresize(src, width, height, self.interp)


class RandomCropAug(_Sized):
    """`random_crop` to (width, height)."""

    def __call__(self, src: Array) -> Array:
        return random_crop(src, self.size, self.interp)[0]


@dataclass(eq=False)
class RandomSizedCropAug(Augmenter):
    """`random_size_crop` to (width, height)."""

    size: tuple[int, int]
    area: float | tuple[float, float]
    ratio: tuple[float, float]
    interp: int = CUBIC

    def __call__(self, src: Array) -> Array:
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(_Sized):
    """`center_crop` to (width, height)."""

    def __call__(self, src: Array) -> Array:
        return center_crop(src, self.size, self.interp)[0]


@dataclass(eq=False)
class BrightnessJitterAug(Augmenter):
    """Multiply all levels by a factor between 1 - `brightness` and 1 + `brightness`."""

    brightness: float

    def __call__(self, src: Array) -> Array:
        return blended(src, np.float32(0), varied(self.brightness))


@dataclass(eq=False)
class ContrastJitterAug(Augmenter):
    """Multiply distances from the mean grey by a factor between 1 - `contrast` and 1 + `contrast`."""

    contrast: float

    def __call__(self, src: Array) -> Array:
        alpha = varied(self.contrast)
        return blended(src, np.float32((np.asarray(src) @ LUMA).mean()), alpha)


@dataclass(eq=False)
class SaturationJitterAug(Augmenter):
    """Multiply distances from the pixel's grey by a factor between 1 - `saturation` and 1 + `saturation`."""

    saturation: float

    def __call__(self, src: Array) -> Array:
        return blended(src, (np.asarray(src) @ LUMA)[:, :, None], varied(self.saturation))


@dataclass(eq=False)
class HueJitterAug(Augmenter):
    """Turn the hue by up to `hue` half circles."""

    hue: float

    def __call__(self, src: Array) -> Array:
        return turned_hue(src, random.uniform(-self.hue, self.hue))


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in a random order."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        amounts = {
            BrightnessJitterAug: brightness,
            ContrastJitterAug: contrast,
            SaturationJitterAug: saturation,
        }
        super().__init__([kind(amount) for kind, amount in amounts.items() if amount > 0])


@dataclass(eq=False)
class LightingAug(Augmenter):
    """Add noise along the principal colours, drawn from `numpy.random`, as in the original."""

    alphastd: float
    eigval: Any
    eigvec: Any

    def __call__(self, src: Array) -> Array:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        noise = np.asarray(self.eigvec) * alpha @ np.asarray(self.eigval)
        return np.asarray(src + noise.astype(np.float32)).view(NDArray)


@dataclass(eq=False)
class ColorNormalizeAug(Augmenter):
    """`color_normalize`."""

    mean: Any
    std: Any

    def __call__(self, src: Array) -> Array:
        return color_normalize(src, self.mean, self.std)


@dataclass(eq=False)
class RandomGrayAug(Augmenter):
    """Grey in three channels, with probability `p`."""

    p: float

    def __call__(self, src: Array) -> Array:
        if random.random() >= self.p:
            return src
        grey = np.asarray(src) @ np.array([0.21, 0.72, 0.07], np.float32)
        return np.repeat(grey[:, :, None], 3, axis=2).view(NDArray)


@dataclass(eq=False)
class HorizontalFlipAug(Augmenter):
    """Mirror from left to right, with probability `p`."""

    p: float

    def __call__(self, src: Array) -> Array:
        return src[:, ::-1] if random.random() < self.p else src


class CastAug(Augmenter):
    """Another type, by default float32."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: Array) -> Array:
        return src.astype(self.typ)


def CreateAugmenter(
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = CUBIC,
) -> list[Augmenter]:
    """Return the augmenters that an `ImageIter` has by default. True for `mean` or `std` means ImageNet's."""
    size = (data_shape[2], data_shape[1])
    chosen: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if rand_resize:
        if not rand_crop:
            raise WrongUseError("rand_resize needs rand_crop=True")
        chosen.append(RandomSizedCropAug(size, 0.08, (3 / 4, 4 / 3), inter_method))
    else:
        chosen.append(
            RandomCropAug(size, inter_method) if rand_crop else CenterCropAug(size, inter_method)
        )
    if rand_mirror:
        chosen.append(HorizontalFlipAug(0.5))
    chosen.append(CastAug())
    if brightness or contrast or saturation:
        chosen.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        chosen.append(HueJitterAug(hue))
    if pca_noise > 0:
        chosen.append(LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS))
    if rand_gray > 0:
        chosen.append(RandomGrayAug(rand_gray))
    mean, std = _channels("mean", mean, MEAN), _channels("std", std, STD)
    if mean is not None or std is not None:
        chosen.append(ColorNormalizeAug(mean, std))
    return chosen


def _channels(name: str, value: Any, usual: tuple[float, float, float]) -> Array | None:
    if value is None:
        return None
    numbers = np.asarray(usual, np.float32) if value is True else np.asarray(value)
    if numbers.shape not in ((1,), (3,)):
        raise WrongUseError(f"{name} must have one or three numbers, not the shape {numbers.shape}")
    return numbers
