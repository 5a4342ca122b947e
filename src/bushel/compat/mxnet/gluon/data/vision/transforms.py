"""`mxnet.gluon.data.vision.transforms` on NumPy arrays: images HxWxC, RGB, uint8 until something makes them floats.

Each transform is a callable value. Random transforms draw from `rng`, which `bushel.Loader`,
`bushel.pack` and `im2rec` give them, so that results do not depend on the number of threads;
without one they draw from the module `random`.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

import numpy as np

from bushel.compat.mxnet.base import Array, NDArray, SizeError
from bushel.compat.mxnet.image.augment import EIGENVALUES, EIGENVECTORS, LUMA, blended
from bushel.compat.mxnet.image.functions import (
    center_crop,
    imresize,
    imrotate,
    random_rotate,
    random_size_crop,
)
from bushel.compat.mxnet.resampling import BILINEAR

Size = int | tuple[int, int]
"""Pixels: the side of a square, or (width, height)."""
Rng = np.random.Generator | None


def _draws(rng: Rng) -> Any:
    """Return the module `random`, or a generator with its functions that is seeded from `rng`."""
    return random if rng is None else random.Random(int(rng.integers(1 << 63)))


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _like(values: Array, image: Array) -> NDArray:
    """Return values in the type of an image; as in MXNet, uint8 is clipped, and rounded down."""
    clipped = np.clip(values, 0, 255) if image.dtype == np.uint8 else values
    return clipped.astype(image.dtype).view(NDArray)


def shifted_hue(image: Array, turns: float) -> Array:
    """Turn the hue of an image (0 to 255) by whole circles, in the colour space HLS (Joblove and Greenberg 1978)."""
    rgb = image.astype(np.float32) / 255
    high, low = rgb.max(2), rgb.min(2)
    chroma = high - low
    lightness = (high + low) / 2
    red, green, blue = np.moveaxis(rgb, 2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sixths = np.select(
            [chroma == 0, high == red, high == green],
            [np.float32(0), (green - blue) / chroma, (blue - red) / chroma + 2],
            (red - green) / chroma + 4,
        )
    sixths = (sixths + np.float32(6 * turns)) % 6
    # Over the circle, each channel is a trapezoid whose height is the chroma, centred at the
    # lightness.
    place = (sixths[:, :, None] + np.array([0, 4, 2], np.float32)) % 6
    shape = np.clip(np.abs(place - 3) - 1, 0, 1)
    shifted: Array = (lightness[:, :, None] + chroma[:, :, None] * (shape - np.float32(0.5))) * 255
    return shifted


class Compose:
    """Transforms of this module, or any callables, applied one after the other."""

    def __init__(self, transforms: Iterable[Callable[..., Any]]) -> None:
        self.transforms = [step for step in transforms if step is not None]

    def __call__(self, x: Any, rng: Rng = None) -> Any:
        for transform in self.transforms:
            drawn = "rng" in inspect.signature(transform).parameters
            x = transform(x, rng=rng) if drawn else transform(x)
        return x

    def __len__(self) -> int:
        return len(self.transforms)

    def __getitem__(self, position: int) -> Callable[..., Any]:
        return self.transforms[position]


@dataclass(frozen=True)
class RandomApply:
    """A transform, or several, with probability `p`."""

    transforms: Any
    p: float = 0.5

    def __call__(self, x: Array, rng: Rng = None) -> Any:
        if self.p < _draws(rng).random():
            return x
        steps = self.transforms if isinstance(self.transforms, list | tuple) else [self.transforms]
        return Compose(steps)(x, rng)


@dataclass(frozen=True)
class Cast:
    """Convert to another type."""

    dtype: Any = "float32"

    def __call__(self, x: Array) -> NDArray:
        return np.asarray(x).astype(self.dtype).view(NDArray)


@dataclass(frozen=True)
class ToTensor:
    """Convert HxWxC of 0 to 255 to CxHxW of 0 to 1, float32; or NxHxWxC to NxCxHxW."""

    def __call__(self, x: Array) -> NDArray:
        return np.ascontiguousarray(
            np.moveaxis(np.asarray(x), -1, -3).astype(np.float32) / 255
        ).view(NDArray)


@dataclass(frozen=True)
class Normalize:
    """(value - mean) / std of each channel: of a tensor CxHxW or NxCxHxW of floats, or of an image HxWxC of uint8."""

    mean: Any = 0.0
    std: Any = 1.0

    def __call__(self, x: Array) -> NDArray:
        values = np.asarray(x)
        shape = (-1,) if values.dtype == np.uint8 else (-1, 1, 1)
        mean, std = (
            np.asarray(levels, np.float32).reshape(shape) for levels in (self.mean, self.std)
        )
        return ((values.astype(np.float32) - mean) / std).view(NDArray)


@dataclass(frozen=True)
class Resize:
    """Resize to (width, height) or a square; with `keep_ratio` and an int, the shorter edge. Takes NxHxWxC too."""

    size: Size
    keep_ratio: bool = False
    interpolation: int = BILINEAR

    def __call__(self, x: Array) -> NDArray:
        if x.ndim == 4:
            return np.stack([self(image) for image in x]).view(NDArray)
        (width, height), (rows, columns) = _pair(self.size), x.shape[:2]
        if self.keep_ratio and isinstance(self.size, int):
            short = min(rows, columns)
            width, height = max(columns * width // short, 1), max(rows * height // short, 1)
        return imresize(x, width, height, self.interpolation)


@dataclass(frozen=True)
class CropResize:
    """Keep a box, then resize it to (width, height) if a size is given. Takes NxHxWxC too."""

    x: int
    y: int
    width: int
    height: int
    size: Size | None = None
    interpolation: int | None = None

    def __call__(self, image: Array) -> NDArray:
        if image.ndim == 4:
            return np.stack([self(frame) for frame in image]).view(NDArray)
        rows, columns = image.shape[:2]
        if min(self.x, self.y) < 0 or self.x + self.width > columns or self.y + self.height > rows:
            raise SizeError(f"{self} is not inside an image of {columns}x{rows} pixels")
        box = np.asarray(image)[self.y : self.y + self.height, self.x : self.x + self.width]
        if self.size is None:
            return box.view(NDArray)
        return imresize(
            box,
            *_pair(self.size),
            interp=BILINEAR if self.interpolation is None else self.interpolation,
        )


@dataclass(frozen=True)
class CenterCrop:
    """Keep the middle, of (width, height); a smaller image is enlarged."""

    size: Size
    interpolation: int = BILINEAR

    def __call__(self, x: Array) -> NDArray:
        return center_crop(x, _pair(self.size), self.interpolation)[0]


@dataclass(frozen=True)
class RandomResizedCrop:
    """Keep a box of random area and aspect ratio, resized to (width, height)."""

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: int = BILINEAR

    def __call__(self, x: Array, rng: Rng = None) -> NDArray:
        return random_size_crop(
            x, _pair(self.size), self.scale, self.ratio, self.interpolation, draw=_draws(rng)
        )[0]


class _RandomFlip:
    _axis: ClassVar[int]

    def __call__(self, x: Array, rng: Rng = None) -> NDArray:
        return (np.flip(x, self._axis) if _draws(rng).random() < 0.5 else x).view(NDArray)


@dataclass(frozen=True)
class RandomFlipLeftRight(_RandomFlip):
    """Mirror half of the images from left to right."""

    _axis = 1


@dataclass(frozen=True)
class RandomFlipTopBottom(_RandomFlip):
    """Mirror half of the images from top to bottom."""

    _axis = 0


class _Jitter:
    """Base class of changes by a random factor between max(0, 1 - amount) and 1 + amount, their only field."""

    __slots__ = ()

    def __call__(self, x: Array, rng: Rng = None) -> NDArray:
        return self.drawn(np.asarray(x), _draws(rng))

    def drawn(self, image: Array, draw: Any) -> NDArray:
        [amount] = astuple(self)  # type: ignore[call-overload]
        return self.apply(image, draw.uniform(max(0.0, 1 - amount), 1 + amount))

    def apply(self, image: Array, factor: float) -> NDArray:
        raise NotImplementedError


@dataclass(frozen=True)
class RandomBrightness(_Jitter):
    """Multiply all levels by a factor between max(0, 1 - brightness) and 1 + brightness."""

    brightness: float

    def apply(self, image: Array, factor: float) -> NDArray:
        return _like(blended(image, np.float32(0), factor), image)


@dataclass(frozen=True)
class RandomContrast(_Jitter):
    """Multiply distances from the mean grey by a factor between max(0, 1 - contrast) and 1 + contrast."""

    contrast: float

    def apply(self, image: Array, factor: float) -> NDArray:
        grey = np.float32((image @ LUMA if image.shape[2] == 3 else image).mean())
        return _like(blended(image, grey, factor), image)


@dataclass(frozen=True)
class RandomSaturation(_Jitter):
    """Multiply distances from the pixel's grey by a factor between max(0, 1 - saturation) and 1 + saturation."""

    saturation: float

    def apply(self, image: Array, factor: float) -> NDArray:
        if image.shape[2] != 3:
            return image.view(NDArray)
        return _like(blended(image, (image @ LUMA)[:, :, None], factor), image)


@dataclass(frozen=True)
class RandomHue(_Jitter):
    """Turn the hue by between max(0, 1 - hue) and 1 + hue whole circles."""

    hue: float

    def apply(self, image: Array, factor: float) -> NDArray:
        return (
            image.view(NDArray) if image.shape[2] != 3 else _like(shifted_hue(image, factor), image)
        )


@dataclass(frozen=True)
class RandomColorJitter:
    """Brightness, contrast, saturation and hue in a random order."""

    brightness: float = 0
    contrast: float = 0
    saturation: float = 0
    hue: float = 0

    def __call__(self, x: Array, rng: Rng = None) -> NDArray:
        draw = _draws(rng)
        kinds = (RandomBrightness, RandomContrast, RandomSaturation, RandomHue)
        amounts = (self.brightness, self.contrast, self.saturation, self.hue)
        jitters: list[_Jitter] = [
            kind(amount) for kind, amount in zip(kinds, amounts, strict=True) if amount
        ]
        draw.shuffle(jitters)
        for jitter in jitters:
            x = jitter.drawn(np.asarray(x), draw)
        return x.view(NDArray)


@dataclass(frozen=True)
class RandomLighting:
    """Add noise along the principal colours, with standard deviation `alpha`."""

    alpha: float

    def __call__(self, x: Array, rng: Rng = None) -> NDArray:
        draw, image = _draws(rng), np.asarray(x)
        if image.shape[2] == 1:
            return image.view(NDArray)
        alphas = np.array([draw.gauss(0, self.alpha) for _ in range(3)])
        return _like(image + (EIGENVECTORS * alphas @ EIGENVALUES).astype(np.float32), image)


@dataclass(frozen=True)
class Rotate:
    """Rotate a tensor CxHxW, or a batch: see `imrotate`."""

    rotation_degrees: float
    zoom_in: bool = False
    zoom_out: bool = False

    def __call__(self, x: Array) -> NDArray:
        return imrotate(x, self.rotation_degrees, self.zoom_in, self.zoom_out)


@dataclass(frozen=True)
class RandomRotation:
    """Rotate a tensor by an angle between two limits, with a probability."""

    angle_limits: tuple[float, float]
    zoom_in: bool = False
    zoom_out: bool = False
    rotate_with_proba: float = 1.0

    def __post_init__(self) -> None:
        if self.angle_limits[0] >= self.angle_limits[1]:
            raise ValueError(
                f"angle_limits must be the lower and the higher angle, not {self.angle_limits}"
            )
        if not 0 <= self.rotate_with_proba <= 1:
            raise ValueError(
                f"rotate_with_proba must be between 0 and 1, not {self.rotate_with_proba}"
            )

    def __call__(self, x: Array, rng: Rng = None) -> NDArray:
        draw = _draws(rng)
        if draw.random() > self.rotate_with_proba:
            return x.view(NDArray)
        return random_rotate(x, self.angle_limits, self.zoom_in, self.zoom_out, draw=draw)


# The names in the design document of `im2rec`.
ResizedCrop, Brightness, Contrast = RandomResizedCrop, RandomBrightness, RandomContrast
Saturation, Hue = RandomSaturation, RandomHue
