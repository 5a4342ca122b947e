"""Affine maps and padding: geometry that cannot be fused into decoding, and is applied to decoded images.

`Warp` and `Padding` are steps, as `Crop` is: values from which the source of each pixel follows. So
masks, boxes and points can follow them (see `bushel.transforms.moves`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal, get_args

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import F64, Array

from .geometry import Image, check_image
from .values import frozen_transform, two_numbers

Fill = int | tuple[int, ...]
"""Level of the pixels that have no source: one for all channels, or one for each."""

PadMode = Literal["constant", "edge", "reflect", "symmetric"]
"""The contents of padding, as in `numpy.pad`."""


class Warp(Struct, frozen=True):
    """Apply an affine map with bilinear interpolation, as Pillow does.

    Places are in pixels from the upper left corner, so that the centre of the first pixel is (0.5,
    0.5).
    """

    size: tuple[int, int]  # width and height of the result
    # a, b, c, d, e, f: the place (x, y) of the result shows the place (a x + b y + c, d x + e y +
    # f) of the image
    matrix: tuple[float, float, float, float, float, float]
    fill: Fill = 0  # level of pixels whose place is outside the image

    def apply(self, image: Image) -> Image:
        """Return an image after the map: uint8, HxW or HxWxC."""
        from PIL import Image as Pillow

        check_image(image)
        if image.ndim == 3 and image.shape[2] not in (3, 4):
            planes = [
                self.apply(np.ascontiguousarray(image[:, :, place]))
                for place in range(image.shape[2])
            ]
            return np.stack(planes, axis=2)
        fill = _levels(self.fill, image)
        picture = Pillow.fromarray(image).transform(
            self.size,
            Pillow.Transform.AFFINE,
            self.matrix,
            Pillow.Resampling.BILINEAR,
            fillcolor=fill,
        )
        return np.array(picture)

    def nearest(self, mask: Array, fill: int) -> Array:
        """Return an array HxW or HxWxC of any dtype after the map, by the pixel on which each centre falls."""
        width, height = self.size
        a, b, c, d, e, f = self.matrix
        x, y = np.arange(width) + 0.5, np.arange(height)[:, None] + 0.5
        columns = np.floor(a * x + b * y + c).astype(np.int64)
        rows = np.floor(d * x + e * y + f).astype(np.int64)
        inside = (columns >= 0) & (columns < mask.shape[1]) & (rows >= 0) & (rows < mask.shape[0])
        out = np.full((height, width, *mask.shape[2:]), fill, mask.dtype)
        out[inside] = mask[rows[inside], columns[inside]]
        return out

    def points(self, points: F64) -> F64:
        """Return where points (n, 2) of the image are in the result."""
        a, b, c, d, e, f = self.matrix
        inverse = np.linalg.inv(np.array([[a, b], [d, e]]))
        return np.asarray((points - (c, f)) @ inverse.T)


class Padding(Struct, frozen=True):
    """Add pixels at the edges."""

    left: int  # columns at the left
    top: int  # rows at the top
    right: int  # columns at the right
    bottom: int  # rows at the bottom
    source: tuple[int, int]  # width and height of the image
    mode: PadMode = "constant"  # which pixels are added
    fill: Fill = 0  # level of the pixels that the mode `"constant"` adds

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the result."""
        return self.source[0] + self.left + self.right, self.source[1] + self.top + self.bottom

    def apply(self, image: Image) -> Image:
        """Return an image with the padding: HxW or HxWxC."""
        check_image(image)
        if self.mode != "constant":
            return np.pad(image, self._widths(image), mode=self.mode)
        width, height = self.size
        out = np.empty((height, width, *image.shape[2:]), image.dtype)
        out[...] = _levels(self.fill, image)
        out[self.top : self.top + image.shape[0], self.left : self.left + image.shape[1]] = image
        return out

    def nearest(self, mask: Array, fill: int) -> Array:
        """Return an array HxW or HxWxC of any dtype with the padding."""
        if self.mode == "constant":
            return np.pad(mask, self._widths(mask), mode="constant", constant_values=fill)
        return np.pad(mask, self._widths(mask), mode=self.mode)

    def points(self, points: F64) -> F64:
        """Return where points (n, 2) of the image are in the result."""
        return points + (self.left, self.top)

    def _widths(self, array: Array) -> list[tuple[int, int]]:
        return [(self.top, self.bottom), (self.left, self.right), *[(0, 0)] * (array.ndim - 2)]


def _levels(fill: Fill, image: Image) -> Any:
    """Return the fill for the channels of an image. Raise ValueError if there is not one level for each channel."""
    channels = 1 if image.ndim == 2 else image.shape[2]
    if isinstance(fill, int):
        if channels == 1:
            return fill
        return (fill,) * channels
    if len(fill) != channels:
        raise ValueError(
            f"fill={fill!r} does not fit an image of "
            f"{channels} channels: expected one level for each"
        )
    if image.ndim == 2:
        return fill[0]
    return fill


class Warping(ABC):
    """The base of transforms whose step is a `Warp` or a `Padding`. Called with an image, they apply it."""

    __slots__ = ()

    @abstractmethod
    def step(self, width: int, height: int, rng: Any) -> Warp | Padding:
        """Return the step for an image of this size."""

    def __call__(self, image: Image, rng: Any) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        check_image(image)
        return self.step(image.shape[1], image.shape[0], rng).apply(image)


@frozen_transform
class Pad(Warping):
    """Add pixels at the edges, as torchvision does.

    Attributes:
        padding: Pixels on all sides; (left and right, top and bottom); or (left, top, right,
            bottom).
        fill: Level of the pixels that the mode `"constant"` adds: one number, or one for each
            channel.
        mode: Which pixels are added: `"constant"`, or `"edge"`, `"reflect"` or `"symmetric"` as in
            `numpy.pad`.

    Examples:
        >>> from bushel.transforms import Pad, RandomCrop
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[Pad(4), RandomCrop(48)])
        >>> next(iter(loader))["image"].shape
        (4, 48, 48, 3)
    """

    padding: int | tuple[int, int] | tuple[int, int, int, int]
    fill: Fill = 0
    mode: PadMode = "constant"

    def __post_init__(self) -> None:
        if self.mode not in get_args(PadMode):
            raise ValueError(
                f"unknown mode {self.mode!r} of padding: expected {', '.join(get_args(PadMode))}"
            )
        sides = self._sides()
        if len(sides) != 4 or not all(isinstance(side, int) and side >= 0 for side in sides):
            raise ValueError(
                f"invalid padding={self.padding!r}: expected an int, (left and "
                "right, top and bottom) or (left, top, right, bottom), 0 or more"
            )

    def _sides(self) -> tuple[int, ...]:
        if isinstance(self.padding, int):
            return (self.padding,) * 4
        if len(self.padding) == 2:
            return (*self.padding, *self.padding)
        return tuple(self.padding)

    def step(self, width: int, height: int, rng: Any = None) -> Padding:
        """Return the step for an image of this size."""
        left, top, right, bottom = self._sides()
        return Padding(left, top, right, bottom, (width, height), self.mode, self.fill)

    def __call__(self, image: Image) -> Image:  # type: ignore[override]  # nothing is random
        """Transform an image: uint8, HxW or HxWxC."""
        return Warping.__call__(self, image, None)


def _symmetric(name: str, value: Any, four: str = "") -> tuple[float, float]:
    """Return (low, high) of a range that may be given as one number x, for (-x, x)."""
    problem = f"{name}={value!r}: expected a number of 0 or more, or (low, high){four}"
    if isinstance(value, int | float):
        value = -value, value
    return two_numbers(problem, value, -math.inf)


@frozen_transform
class RandomRotation(Warping):
    """Rotate about the centre by a random angle, as torchvision does.

    Attributes:
        degrees: Bounds of the angle, counter-clockwise; a number x means (-x, x).
        expand: Whether the result is as large as it must be to hold the whole image. If not, it has
            the image's size.
        fill: Level of the corners that have no source: one number, or one for each channel.

    Examples:
        >>> from bushel.transforms import RandomRotation
        >>> RandomRotation(15)(ds[0]["image"], np.random.default_rng(0)).shape
        (48, 64, 3)
    """

    degrees: float | tuple[float, float]
    expand: bool = False
    fill: Fill = 0

    def __post_init__(self) -> None:
        _symmetric("degrees", self.degrees)

    def step(self, width: int, height: int, rng: np.random.Generator) -> Warp:
        """Return the step for an image of this size."""
        low, high = _symmetric("degrees", self.degrees)
        return rotation(
            low + (high - low) * rng.random(), width, height, expand=self.expand, fill=self.fill
        )


def rotation(angle: float, width: int, height: int, *, expand: bool, fill: Fill) -> Warp:
    """Return the counter-clockwise rotation about the centre by an angle in degrees, as `PIL.Image.rotate` does it."""
    radians = -math.radians(angle % 360)
    cos, sin = round(math.cos(radians), 15), round(math.sin(radians), 15)
    c, f = (width - cos * width - sin * height) / 2, (height + sin * width - cos * height) / 2
    size = (width, height)
    if expand:
        corners = [(x, y) for x in (0, width) for y in (0, height)]
        x = [cos * left + sin * top + c for left, top in corners]
        y = [-sin * left + cos * top + f for left, top in corners]
        size = (math.ceil(max(x)) - math.floor(min(x)), math.ceil(max(y)) - math.floor(min(y)))
        left, top = (width - size[0]) / 2, (height - size[1]) / 2
        c, f = cos * left + sin * top + c, -sin * left + cos * top + f
    return Warp(size, (cos, sin, c, -sin, cos, f), fill)


@frozen_transform
class RandomAffine(Warping):
    """Rotate, shift, scale and shear about the centre at random, as torchvision does. The size stays.

    Attributes:
        degrees: Bounds of the angle, clockwise; a number x means (-x, x).
        translate: Largest shift in x and y, as shares of width and height.
        scale: Bounds of the factor.
        shear: Bounds of the angles of shearing in degrees: x for (-x, x) of the x axis, (low, high)
            of the x axis, or (low, high, low, high) of both axes.
        fill: Level of what has no source: one number, or one for each channel.

    Examples:
        >>> from bushel.transforms import RandomAffine
        >>> affine = RandomAffine(10, translate=(0.1, 0.1), scale=(0.9, 1.1))
        >>> affine(ds[0]["image"], np.random.default_rng(0)).shape
        (48, 64, 3)
    """

    degrees: float | tuple[float, float]
    translate: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 1.0)
    shear: float | tuple[float, float] | tuple[float, float, float, float] = 0.0
    fill: Fill = 0

    def __post_init__(self) -> None:
        _symmetric("degrees", self.degrees)
        self._shears()
        shares = f"translate={self.translate!r}: expected (x, y), two shares between 0 and 1"
        two_numbers(shares, self.translate, 0, 1, ordered=False)
        two_numbers(f"scale={self.scale!r}: expected (low, high) above 0", self.scale)

    def _shears(self) -> tuple[tuple[float, float], tuple[float, float]]:
        if isinstance(self.shear, tuple) and len(self.shear) == 4:
            return _symmetric("shear", self.shear[:2]), _symmetric("shear", self.shear[2:])
        return _symmetric("shear", self.shear, " or (low, high, low, high)"), (0.0, 0.0)

    def step(self, width: int, height: int, rng: np.random.Generator) -> Warp:
        """Return the step for an image of this size."""
        drawn = rng.random(6).tolist()
        shifts = [
            round((2 * part - 1) * share * size)
            for part, share, size in zip(drawn[1:3], self.translate, (width, height), strict=True)
        ]
        ranges = (_symmetric("degrees", self.degrees), self.scale, *self._shears())
        angle, scale, shear_x, shear_y = (
            low + (high - low) * part
            for (low, high), part in zip(ranges, (drawn[0], *drawn[3:]), strict=True)
        )
        return affine(
            (width, height), angle, (shifts[0], shifts[1]), scale, (shear_x, shear_y), self.fill
        )


def affine(
    size: tuple[int, int],
    angle: float = 0.0,
    shift: tuple[float, float] = (0.0, 0.0),
    scale: float = 1.0,
    shear: tuple[float, float] = (0.0, 0.0),
    fill: Fill = 0,
    centre: tuple[float, float] | None = None,
) -> Warp:
    """Return the map that shears, scales and rotates about a centre and then shifts, as torchvision composes them.

    Args:
        size: Width and height of the image and of the result.
        angle: Clockwise rotation, in degrees.
        shift: Shift in x and y, in pixels.
        scale: Factor.
        shear: Angles of shearing of the x and y axes, in degrees.
        fill: Level of what has no source.
        centre: The place that shearing, scaling and rotating keep; None for the middle.
    """
    turn, x_shear, y_shear = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    # the map from the image to the result is scale * [[a, b], [c, d]]; its determinant without the
    # scale is 1
    a = math.cos(turn - y_shear) / math.cos(y_shear)
    b = -a * math.tan(x_shear) - math.sin(turn)
    c = math.sin(turn - y_shear) / math.cos(y_shear)
    d = -c * math.tan(x_shear) + math.cos(turn)
    inverse = (d / scale, -b / scale, -c / scale, a / scale)
    middle = (size[0] / 2, size[1] / 2) if centre is None else centre
    x, y = middle[0] + shift[0], middle[1] + shift[1]
    left = middle[0] - inverse[0] * x - inverse[1] * y
    top = middle[1] - inverse[2] * x - inverse[3] * y
    return Warp(size, (inverse[0], inverse[1], left, inverse[2], inverse[3], top), fill)
