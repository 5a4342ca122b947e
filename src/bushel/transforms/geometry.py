"""The geometry of crops, a resizing and flips: its steps, and what it does to images, masks and points."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel import kernels
from bushel._runtime.arrays import F64, I64, U8, Array
from bushel.codecs.base import describe

Image: TypeAlias = U8
"""Pixels, uint8: HxW, or HxWxC with 1 to 4 channels."""


class Crop(Struct, frozen=True):
    """Keep a box. It is given in pixels and must be inside the image.

    Examples:
        >>> from bushel.transforms import Crop, apply_steps
        >>> apply_steps((Crop(left=8, top=4, width=32, height=24),), ds[0]["image"]).shape
        (24, 32, 3)
    """

    left: int
    top: int
    width: int
    height: int


class ScaleTo(Struct, frozen=True):
    """Resize to `width` x `height` pixels.

    Examples:
        >>> from bushel.transforms import ScaleTo, apply_steps
        >>> apply_steps((ScaleTo(width=32, height=24),), ds[0]["image"]).shape
        (24, 32, 3)
    """

    width: int
    height: int


class Flip(Struct, frozen=True):
    """Mirror left to right if `horizontal`, else top to bottom.

    Examples:
        >>> from bushel.transforms import Flip, apply_steps
        >>> apply_steps((Flip(horizontal=True),), np.arange(6).reshape(2, 3))
        array([[2, 1, 0],
               [5, 4, 3]])
    """

    horizontal: bool


Step: TypeAlias = Crop | ScaleTo | Flip
Steps: TypeAlias = tuple[Step, ...]


class Geometry(Struct, frozen=True):
    """The combined effect of crops, at most one resizing, more crops, and flips."""

    # left, top, right, bottom: the region of the image that is resized
    box: tuple[int, int, int, int]
    scaled: tuple[int, int]  # width and height to which the box is resized
    # left, top, right, bottom: the region of the resized box that is kept
    window: tuple[int, int, int, int]
    flip_horizontal: bool = False  # whether the result is mirrored left to right
    flip_vertical: bool = False  # whether the result is mirrored top to bottom

    @classmethod
    def whole(cls, width: int, height: int) -> Geometry:
        """Return the geometry that keeps an image of this size unchanged."""
        return cls((0, 0, width, height), (width, height), (0, 0, width, height))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the result."""
        left, top, right, bottom = self.window
        return right - left, bottom - top

    @property
    def row(self) -> tuple[int, ...]:
        """The geometry as ten numbers, as the kernels take it."""
        flips = int(self.flip_horizontal), int(self.flip_vertical)
        return (*self.box, *self.scaled, *self.window[:2], *flips)

    @property
    def resizes(self) -> bool:
        """Whether the scale changes."""
        left, top, right, bottom = self.box
        return self.scaled != (right - left, bottom - top)

    def then(self, step: Step) -> Geometry:
        """Return this geometry followed by a step.

        Raises:
            ValueError: A crop is not inside the image, or the step is a second resizing.
        """
        if isinstance(step, Flip):
            horizontal = self.flip_horizontal != step.horizontal
            vertical = self.flip_vertical == step.horizontal
            return replace(self, flip_horizontal=horizontal, flip_vertical=vertical)
        if isinstance(step, Crop):
            return self._cropped(step)
        scaled = (step.width, step.height)
        if scaled == self.size:
            return self
        if self.resizes:
            raise ValueError("a second resizing cannot be combined with the first")
        return replace(self, scaled=scaled, window=(0, 0, *scaled))

    def _cropped(self, crop: Crop) -> Geometry:
        width, height = self.size
        if (
            crop.left < 0
            or crop.top < 0
            or crop.left + crop.width > width
            or crop.top + crop.height > height
        ):
            raise ValueError(f"{crop} is not inside an image of {width}x{height} pixels")
        left = width - crop.left - crop.width if self.flip_horizontal else crop.left
        top = height - crop.top - crop.height if self.flip_vertical else crop.top
        if self.resizes:
            left, top = left + self.window[0], top + self.window[1]
            window = (left, top, left + crop.width, top + crop.height)
            return replace(self, window=window)
        left, top = left + self.box[0], top + self.box[1]
        box, scaled = (left, top, left + crop.width, top + crop.height), (crop.width, crop.height)
        return replace(self, box=box, scaled=scaled, window=(0, 0, *scaled))

    def apply(self, image: Array) -> Array:
        """Return a decoded image after the geometry, C-contiguous. The kernel that decodes crops resizes, too.

        Raises:
            ValueError: An image is resized that is not uint8.
        """
        if self == Geometry.whole(image.shape[1], image.shape[0]):
            return np.ascontiguousarray(image)
        if not self.resizes:
            left, top, right, bottom = self.box
            x_step, y_step = 1 - 2 * self.flip_horizontal, 1 - 2 * self.flip_vertical
            return np.ascontiguousarray(image[top:bottom, left:right][::y_step, ::x_step])
        if image.dtype != np.uint8:
            raise ValueError(
                f"an image of {image.dtype} cannot be resized: expected uint8. Name it as a Mask"
            )
        width, height = self.size
        pixels = image.reshape(*image.shape[:2], -1)
        out = np.empty((1, height, width, pixels.shape[2]), np.uint8)
        kernels.resize(np.ascontiguousarray(pixels), np.array([self.row], np.int32), out)
        return out.reshape(height, width, *image.shape[2:])

    def nearest(self, mask: Array, fill: int) -> Array:
        """Return an array HxW or HxWxC of any dtype after the geometry, by the pixel on which each centre falls."""
        rows = self._sources(1, flipped=self.flip_vertical)
        columns = self._sources(0, flipped=self.flip_horizontal)
        return np.ascontiguousarray(mask[rows][:, columns])

    def points(self, points: F64) -> F64:
        """Return where points (n, 2) of the image are in the result."""
        left, top, right, bottom = self.box
        factor = np.array(self.scaled, np.float64) / (right - left, bottom - top)
        moved = (points - (left, top)) * factor - self.window[:2]
        for axis, flipped in enumerate((self.flip_horizontal, self.flip_vertical)):
            if flipped:
                moved[:, axis] = self.size[axis] - moved[:, axis]
        return np.asarray(moved)

    def _sources(self, axis: int, *, flipped: bool) -> I64:
        """Return the column (axis 0) or row of the image under the centre of each column or row of the result."""
        first, size = self.box[axis], self.box[axis + 2] - self.box[axis]
        places = np.arange(self.window[axis], self.window[axis + 2])
        sources: I64 = first + (2 * places + 1) * size // (2 * self.scaled[axis])
        return sources[:: 1 - 2 * flipped]


def check_image(image: Any) -> None:
    """Check that a value is an image. Raise TypeError if the value is not a uint8 array HxW or HxWxC."""
    is_array = isinstance(image, np.ndarray) and image.dtype == np.uint8
    if not is_array or image.ndim not in (2, 3) or not all(image.shape):
        raise TypeError(
            f"{described(image)} is not an image: expected a uint8 array of shape HxW or HxWxC; "
            "EachFrame([...]) applies transforms to each image of a clip or a sequence"
        )


def described(value: Any) -> str:
    """Return shape and dtype of an array, or else the type, which is the same in every run."""
    if hasattr(value, "dtype"):
        return describe(value)
    return f"a value of type {type(value).__name__}"


def apply_steps(steps: Steps, image: Image) -> Image:
    """Apply steps to an image, one after the other.

    Returns:
        A C-contiguous array; the image itself if nothing changes.

    Raises:
        ValueError: A crop is not inside the image.

    Examples:
        >>> from bushel.transforms import Resize, apply_steps
        >>> image = np.zeros((48, 64, 3), np.uint8)
        >>> apply_steps(Resize(24).steps(64, 48), image).shape
        (24, 32, 3)
    """
    geometry = Geometry.whole(image.shape[1], image.shape[0])
    for step in steps:
        if isinstance(step, ScaleTo) and geometry.resizes:
            image, geometry = geometry.apply(image), Geometry.whole(*geometry.size)
        geometry = geometry.then(step)
    return geometry.apply(image)
