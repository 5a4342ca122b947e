"""Transforms that say where pixels go: crop, resize, mirror.

Each is a frozen value with two ways to use it: called with an image, it transforms it; `steps` only says what it would
do to an image of that size. Both make the same draws from `rng`, so a planned transform (see `bushel.transforms.fuse`)
does exactly what a call does. Sizes are an int for a square, or (height, width).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from bushel.transforms.geometry import Crop, Flip, Image, ScaleTo, Step, check_image, run

__all__ = [
    "CenterCrop",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "Size",
    "Spatial",
]

Size: TypeAlias = int | tuple[int, int]
"""Pixels: the side of a square, or (height, width)."""

Steps: TypeAlias = tuple[Step, ...]


@runtime_checkable
class Spatial(Protocol):
    """A transform that can be planned without pixels."""

    @property
    def resizes(self) -> bool:
        """Whether it may change the scale."""

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of what it returns, None where they depend on the image."""

    def steps(self, width: int, height: int, rng: Any) -> Steps:
        """What it does to an image of that size, and that generator (which only the random ones use)."""


def _apply(transform: Spatial, image: Image, rng: np.random.Generator | None = None) -> Image:
    check_image(image)
    return run(transform.steps(image.shape[1], image.shape[0], rng), image)


def _pair(size: Size) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ValueError(f"a size is an int or (height, width), from 1 on; found {size!r}")
    return height, width


def _box(size: tuple[int, int], width: int, height: int, x: float, y: float) -> Crop:
    """A crop of that size at the fraction x, y (both below 1) of the places that it can have."""
    if size[0] > height or size[1] > width:
        raise ValueError(
            f"an image of {width}x{height} pixels has no crop of {size[1]}x{size[0]}: put a Resize before it"
        )
    return Crop(int(x * (width - size[1] + 1)), int(y * (height - size[0] + 1)), size[1], size[0])


@dataclass(frozen=True, slots=True)
class Resize:
    """Resize to (height, width), or so that the shorter edge has `size` pixels: bilinear, antialiased, as Pillow.

    Attributes:
        size: (height, width), or the shorter edge; the other edge is rounded down, as in torchvision.
    """

    size: Size
    resizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _pair(self.size)

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of what it returns, None where they depend on the image."""
        return None if isinstance(self.size, int) else self.size

    def steps(self, width: int, height: int, rng: np.random.Generator | None = None) -> Steps:
        """What it does to an image of that size."""
        if not isinstance(self.size, int):
            return (ScaleTo(self.size[1], self.size[0]),)
        if width <= height:
            return (ScaleTo(self.size, int(self.size * height / width)),)
        return (ScaleTo(int(self.size * width / height), self.size),)

    def __call__(self, image: Image) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        return _apply(self, image)


@dataclass(frozen=True, slots=True)
class CenterCrop:
    """Keep the middle. The image must be large enough."""

    size: Size
    resizes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _pair(self.size)

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of what it returns."""
        return _pair(self.size)

    def steps(self, width: int, height: int, rng: np.random.Generator | None = None) -> Steps:
        """What it does to an image of that size."""
        size = _pair(self.size)
        _box(size, width, height, 0, 0)
        return (Crop(round((width - size[1]) / 2), round((height - size[0]) / 2), size[1], size[0]),)

    def __call__(self, image: Image) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        return _apply(self, image)


@dataclass(frozen=True, slots=True)
class RandomCrop:
    """Keep a box of that size at any place, each as probable. The image must be large enough."""

    size: Size
    resizes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _pair(self.size)

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of what it returns."""
        return _pair(self.size)

    def steps(self, width: int, height: int, rng: np.random.Generator) -> Steps:
        """What it does to an image of that size."""
        x, y = rng.random(2).tolist()
        return (_box(_pair(self.size), width, height, x, y),)

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        return _apply(self, image, rng)


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """Keep a box of random area, shape and place, resized to `size` (the crop of Inception, as in torchvision).

    Up to ten draws; when none fits into the image, the largest box in its middle with an allowed shape.

    Attributes:
        size: Of the result.
        scale: Bounds of the box's area, as a part of the image's.
        ratio: Bounds of width / height, between which its logarithm is uniform.
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    resizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _pair(self.size)
        if not 0 < self.scale[0] <= self.scale[1] <= 1 or not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"scale and ratio are pairs of bounds, the lower first, scale up to 1; found {self}")

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of what it returns."""
        return _pair(self.size)

    def steps(self, width: int, height: int, rng: np.random.Generator) -> Steps:
        """What it does to an image of that size."""
        to = _pair(self.size)
        return (self._crop(width, height, rng), ScaleTo(to[1], to[0]))

    def _crop(self, width: int, height: int, rng: np.random.Generator) -> Crop:
        least, most = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            part, shape, x, y = rng.random(), rng.random(), rng.random(), rng.random()  # faster than an array of them
            area = width * height * (self.scale[0] + part * (self.scale[1] - self.scale[0]))
            ratio = math.exp(least + shape * (most - least))
            box = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < box[0] <= height and 0 < box[1] <= width:
                return _box(box, width, height, x, y)
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        box = min(height, max(1, round(width / ratio))), min(width, max(1, round(height * ratio)))
        return Crop((width - box[1]) // 2, (height - box[0]) // 2, box[1], box[0])

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        return _apply(self, image, rng)


@dataclass(frozen=True, slots=True)
class _RandomFlip:
    """Mirror one way with probability `p`."""

    p: float = 0.5
    across: ClassVar[bool]
    resizes: ClassVar[bool] = False
    output: ClassVar[tuple[int, int] | None] = None

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"a probability lies between 0 and 1, found {self.p}")

    def steps(self, width: int, height: int, rng: np.random.Generator) -> Steps:
        """What it does to an image of that size."""
        return (Flip(across=self.across),) if rng.random() < self.p else ()

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        return _apply(self, image, rng)


@dataclass(frozen=True, slots=True)
class RandomHorizontalFlip(_RandomFlip):
    """Mirror from left to right with probability `p`."""

    across: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RandomVerticalFlip(_RandomFlip):
    """Mirror from top to bottom with probability `p`."""

    across: ClassVar[bool] = False
