"""Crops, resizing and flips: as transforms, and as steps for an image of known size.

A transform is a frozen value that can be used in two ways. Calling it with an image transforms the
image. `steps` only returns the steps for an image of a given size. Both draw the same random
numbers, so a planned transform (see `bushel.transforms.fused`) gives the same crop as a call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from .geometry import Crop, Image, ScaleTo, Steps, apply_steps, check_image
from .values import frozen_transform, two_numbers

Size: TypeAlias = int | tuple[int, int]
"""Size in pixels: the side of a square, or (height, width)."""


@runtime_checkable
class Spatial(Protocol):
    """A geometric transform that can be fused into decoding.

    `steps` returns its steps for an image of a given size. Called with an image, it must do the
    same: see `apply_steps`.

    Examples:
        >>> from bushel.transforms import Crop, apply_steps
        >>> class LeftHalf:  # fused into decoding, so the right half is not decoded
        ...     resizes, output = False, None
        ...     def steps(self, width, height, rng):
        ...         return (Crop(0, 0, width // 2, height),)
        ...     def __call__(self, image, rng=None):
        ...         return apply_steps(self.steps(image.shape[1], image.shape[0], rng), image)
        >>> next(iter(bushel.Loader(ds, batch_size=4, transforms=[LeftHalf()])))["image"].shape
        (4, 48, 32, 3)
    """

    @property
    def resizes(self) -> bool:
        """Whether the transform may change the scale."""

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of the result; None if they depend on the image."""

    def steps(self, width: int, height: int, rng: Any) -> Steps:
        """Return the steps for an image of this size. Only random transforms use `rng`."""


class Drawn:
    """The base of random spatial transforms."""

    __slots__ = ()

    def __call__(self: Any, image: Image, rng: np.random.Generator | None) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        check_image(image)
        return apply_steps(self.steps(image.shape[1], image.shape[0], rng), image)


class Still:
    """The base of spatial transforms that are not random."""

    __slots__ = ()

    def __call__(self: Any, image: Image) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        return Drawn.__call__(self, image, None)


def size_pair(size: Size) -> tuple[int, int]:
    """Return height and width of a size. Raise TypeError or ValueError if it is neither an int nor two."""
    if type(size) is int and size > 0:  # it is asked for each image
        return size, size
    sides: Any = size if isinstance(size, Sequence) else (size, size)
    if len(sides) != 2 or any(type(side) is not int for side in sides):
        raise TypeError(f"invalid size {size!r}: expected an int or (height, width)")
    if min(sides) < 1:
        raise ValueError(f"invalid size {size!r}: expected an int or (height, width), 1 or more")
    return sides[0], sides[1]


def check_area(transform: Any) -> None:
    """Check bounds of a box's area and ratio.

    Raises:
        TypeError: One is not a sequence of numbers.
        ValueError: They are not two, or out of their range.
    """
    scale, ratio = transform.scale, transform.ratio
    two_numbers(f"{scale=!r}: expected (lower, upper), two numbers above 0, up to 1", scale, most=1)
    two_numbers(f"{ratio=!r}: expected (lower, upper), two numbers above 0", ratio)


def random_boxes(
    transform: Any, width: int, height: int, rng: np.random.Generator
) -> Iterator[tuple[tuple[int, int], float, float]]:
    """Yield ten random boxes of allowed areas and ratios, and fractions of the places where each fits.

    The square root of the ratio divides the first side and multiplies the second.
    """
    (smallest, largest), (low, high) = transform.scale, map(math.log, transform.ratio)
    for _ in range(10):
        # four calls are faster than one array of four
        part, shape, x, y = rng.random(), rng.random(), rng.random(), rng.random()
        area = width * height * (smallest + part * (largest - smallest))
        ratio = math.exp(low + shape * (high - low))
        yield (round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))), x, y


def _box(size: tuple[int, int], width: int, height: int, x: float, y: float) -> Crop:
    """Return the crop of a size (height, width) at fraction x, y (below 1) of the places where it fits."""
    tall, wide = size
    if tall > height or wide > width:
        raise ValueError(
            f"an image of {width}x{height} pixels is too small for "
            f"a crop of {wide}x{tall}: put Resize before it"
        )
    left = int(x * (width - wide + 1))
    top = int(y * (height - tall + 1))
    return Crop(left, top, wide, tall)


@frozen_transform
class Resize(Still):
    """Resize to (height, width), or the shorter edge to `size` pixels: bilinear and antialiased, as Pillow does.

    Attributes:
        size: (height, width), or the length of the shorter edge. The other edge is rounded down, as
            in torchvision.

    Examples:
        >>> from bushel.transforms import Resize
        >>> Resize(24)(ds[0]["image"]).shape, Resize((20, 20))(ds[0]["image"]).shape
        ((24, 32, 3), (20, 20, 3))
    """

    size: Size
    resizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        size_pair(self.size)

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of the result; None if they depend on the image."""
        return None if isinstance(self.size, int) else self.size

    def steps(self, width: int, height: int, rng: np.random.Generator | None = None) -> Steps:
        """Return the steps for an image of this size."""
        if not isinstance(self.size, int):
            return (ScaleTo(self.size[1], self.size[0]),)
        if width <= height:
            return (ScaleTo(self.size, int(self.size * height / width)),)
        return (ScaleTo(int(self.size * width / height), self.size),)


@frozen_transform
class _ToSize:
    """A crop to a given size."""

    size: Size

    def __post_init__(self) -> None:
        size_pair(self.size)

    @property
    def output(self) -> tuple[int, int] | None:
        """Height and width of the result."""
        return size_pair(self.size)


@frozen_transform
class CenterCrop(_ToSize, Still):
    """Keep a box in the middle. The image must be large enough.

    Examples:
        >>> from bushel.transforms import CenterCrop
        >>> CenterCrop(32)(ds[0]["image"]).shape
        (32, 32, 3)
    """

    resizes: ClassVar[bool] = False

    def steps(self, width: int, height: int, rng: np.random.Generator | None = None) -> Steps:
        """Return the steps for an image of this size."""
        tall, wide = size_pair(self.size)
        _box((tall, wide), width, height, 0, 0)  # which refuses small images
        left, top = round((width - wide) / 2), round((height - tall) / 2)
        return (Crop(left, top, wide, tall),)


@frozen_transform
class RandomCrop(_ToSize, Drawn):
    """Keep a box at a uniformly random place. The image must be large enough.

    Examples:
        >>> from bushel.transforms import RandomCrop
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomCrop(32)])
        >>> next(iter(loader))["image"].shape
        (4, 32, 32, 3)
    """

    resizes: ClassVar[bool] = False

    def steps(self, width: int, height: int, rng: np.random.Generator) -> Steps:
        """Return the steps for an image of this size."""
        x, y = rng.random(2).tolist()
        return (_box(size_pair(self.size), width, height, x, y),)


@frozen_transform
class RandomResizedCrop(_ToSize, Drawn):
    """Keep a box of random area, aspect ratio and place, resized to `size` (the Inception crop, as in torchvision).

    If ten random boxes do not fit into the image, the largest centred box with an allowed aspect
    ratio is kept.

    Attributes:
        size: Size of the result.
        scale: Bounds of the box's area, as a share of the image's area.
        ratio: Bounds of width / height. Its logarithm is uniform between them.

    Examples:
        >>> from bushel.transforms import RandomResizedCrop
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomResizedCrop(32, scale=(0.35, 1))])
        >>> next(iter(loader))["image"].shape
        (4, 32, 32, 3)
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    resizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        size_pair(self.size)
        check_area(self)

    def steps(self, width: int, height: int, rng: np.random.Generator) -> Steps:
        """Return the steps for an image of this size."""
        to = size_pair(self.size)
        return (self._crop(width, height, rng), ScaleTo(to[1], to[0]))

    def _crop(self, width: int, height: int, rng: np.random.Generator) -> Crop:
        for (tall, wide), x, y in random_boxes(self, width, height, rng):
            if 0 < tall <= height and 0 < wide <= width:
                return _box((tall, wide), width, height, x, y)
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        tall = min(height, max(1, round(width / ratio)))
        wide = min(width, max(1, round(height * ratio)))
        return Crop((width - wide) // 2, (height - tall) // 2, wide, tall)
