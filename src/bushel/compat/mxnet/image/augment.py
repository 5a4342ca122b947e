"""Augmenters: callables of an image, HxWx3 in the order RGB. Random numbers are drawn as in the original."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel.compat.mxnet.image.functions import (
    center_crop,
    color_normalize,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)
from bushel.compat.mxnet.ndarray import Array, NDArray
from bushel.compat.mxnet.resampling import CUBIC

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
EIGENVALUES = np.array([55.46, 4.794, 1.148])
"""Of the colours of ImageNet (Krizhevsky et al. 2012), and the vectors that go with them."""
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
RGB = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
"""To YIQ and back, in the rounded numbers of the original."""
MEAN, STD = (123.68, 116.28, 103.53), (58.395, 57.12, 57.375)


def blended(image: Array, other: Any, alpha: float) -> NDArray:
    """`alpha` parts of the image, and the rest of something else."""
    return np.asarray(image * np.float32(alpha) + other * np.float32(1 - alpha)).view(NDArray)


def turned_hue(image: Array, alpha: float) -> NDArray:
    """The hue turned by `alpha` half circles, in YIQ."""
    cosine, sine = np.cos(alpha * np.pi), np.sin(alpha * np.pi)
    turn = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
    return np.asarray(image @ (RGB @ turn @ YIQ).T.astype(np.float32)).view(NDArray)


class Augmenter:
    """Base class: keeps its arguments, so that `dumps` can tell them."""

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {
            name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in kwargs.items()
        }

    def dumps(self) -> Any:
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        raise NotImplementedError("Must override implementation.")


class SequentialAug(Augmenter):
    """Augmenters one after the other."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Name, and what each of them tells."""
        return [type(self).__name__.lower(), [one.dumps() for one in self.ts]]

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        for one in self.ts:
            src = one(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters in a random order."""

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        random.shuffle(self.ts)
        return super().__call__(src)


class ResizeAug(Augmenter):
    """Resize the shorter edge to `size`."""

    def __init__(self, size: int, interp: int = CUBIC) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resize to (width, height)."""

    def __init__(self, size: tuple[int, int], interp: int = CUBIC) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return imresize(src, *self.size, interp=self.interp)


class RandomCropAug(Augmenter):
    """`random_crop` to (width, height)."""

    def __init__(self, size: tuple[int, int], interp: int = CUBIC) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """`random_size_crop` to (width, height)."""

    def __init__(
        self, size: tuple[int, int], area: float | tuple[float, float], ratio: tuple[float, float], interp: int = CUBIC
    ) -> None:
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """`center_crop` to (width, height)."""

    def __init__(self, size: tuple[int, int], interp: int = CUBIC) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return center_crop(src, self.size, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """All levels times 1 + up to `brightness`."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return blended(src, np.float32(0), 1.0 + random.uniform(-self.brightness, self.brightness))


class ContrastJitterAug(Augmenter):
    """Distances from the mean grey times 1 + up to `contrast`."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        return blended(src, np.float32((np.asarray(src) @ LUMA).mean()), alpha)


class SaturationJitterAug(Augmenter):
    """Distances from the pixel's own grey times 1 + up to `saturation`."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        return blended(src, (np.asarray(src) @ LUMA)[:, :, None], alpha)


class HueJitterAug(Augmenter):
    """The hue turned by up to `hue` half circles."""

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return turned_hue(src, random.uniform(-self.hue, self.hue))


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in a random order."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        jitters: list[Augmenter] = []
        if brightness > 0:
            jitters.append(BrightnessJitterAug(brightness))
        if contrast > 0:
            jitters.append(ContrastJitterAug(contrast))
        if saturation > 0:
            jitters.append(SaturationJitterAug(saturation))
        super().__init__(jitters)


class LightingAug(Augmenter):
    """Noise along the principal colours. Draws from `numpy.random`, as in the original."""

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, np.asarray(eigval), np.asarray(eigvec)

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        return np.asarray(src + (self.eigvec * alpha @ self.eigval).astype(np.float32)).view(NDArray)


class ColorNormalizeAug(Augmenter):
    """`color_normalize`."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean, self.std = mean, std

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Grey in three channels, with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        if random.random() >= self.p:
            return src
        grey = np.asarray(src) @ np.array([0.21, 0.72, 0.07], np.float32)
        return np.repeat(grey[:, :, None], 3, axis=2).view(NDArray)


class HorizontalFlipAug(Augmenter):
    """Mirror from left to right, with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
        return src[:, ::-1] if random.random() < self.p else src


class CastAug(Augmenter):
    """Another type, float32 by default."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: Array) -> Array:
        """Transform an image."""
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
    """The augmenters that an `ImageIter` has by default.

    Args:
        data_shape: Channels, height and width of the result.
        resize: Pixels of the shorter edge, before all else; 0 to leave it.
        rand_crop: Crop at a random place, not in the middle.
        rand_resize: Crop a random size; needs `rand_crop`.
        rand_mirror: Mirror half of the images.
        mean: To subtract: one or three numbers; True for ImageNet's.
        std: To divide by, likewise.
        brightness: See `BrightnessJitterAug`.
        contrast: See `ContrastJitterAug`.
        saturation: See `SaturationJitterAug`.
        hue: See `HueJitterAug`.
        pca_noise: See `LightingAug`.
        rand_gray: See `RandomGrayAug`.
        inter_method: As for `imresize`.

    Raises:
        ValueError: `rand_resize` without `rand_crop`; or a mean or deviation of another shape.
    """
    size = (data_shape[2], data_shape[1])
    chosen: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if rand_resize:
        if not rand_crop:
            raise ValueError("rand_resize needs rand_crop=True")
        chosen.append(RandomSizedCropAug(size, 0.08, (3 / 4, 4 / 3), inter_method))
    else:
        chosen.append(RandomCropAug(size, inter_method) if rand_crop else CenterCropAug(size, inter_method))
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
    if value is None or value is False:
        return None
    numbers = np.asarray(usual if value is True else value, np.float32)
    if numbers.shape not in ((1,), (3,)):
        raise ValueError(f"{name} has one or three numbers, not an array of shape {numbers.shape}")
    return numbers
