"""Crops, resizings and mirrorings as values: what they do to pixels, and how several become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bushel import kernels

__all__ = ["Crop", "Flip", "Geometry", "Image", "ScaleTo", "Step", "check_image", "resample", "run"]

Image: TypeAlias = npt.NDArray[np.uint8]
"""Pixels, uint8: HxW, or HxWxC with 1 to 4 channels."""


@dataclass(frozen=True, slots=True)
class Crop:
    """Keep a box, in pixels, which must lie inside the image."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class ScaleTo:
    """Resize to so many pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Flip:
    """Mirror, from left to right if `across`, else from top to bottom."""

    across: bool


Step: TypeAlias = Crop | ScaleTo | Flip


@dataclass(frozen=True, slots=True)
class Geometry:
    """Any crops, then at most one resizing, then any crops; mirrored at the end.

    Attributes:
        box: Left, top, right, bottom: the pixels of the image that are resized.
        scaled: Width and height that the box is resized to.
        window: Left, top, right, bottom: the part of the resized box that is kept.
        flip_across: Whether that is mirrored from left to right.
        flip_down: Whether it is mirrored from top to bottom.
    """

    box: tuple[int, int, int, int]
    scaled: tuple[int, int]
    window: tuple[int, int, int, int]
    flip_across: bool = False
    flip_down: bool = False

    @classmethod
    def whole(cls, width: int, height: int) -> Geometry:
        """All of an image, as it is."""
        return cls((0, 0, width, height), (width, height), (0, 0, width, height))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the result."""
        left, top, right, bottom = self.window
        return right - left, bottom - top

    @property
    def row(self) -> tuple[int, ...]:
        """The ten numbers that the kernels take."""
        return (*self.box, *self.scaled, self.window[0], self.window[1], int(self.flip_across), int(self.flip_down))

    @property
    def resizes(self) -> bool:
        """Whether the box changes its size."""
        left, top, right, bottom = self.box
        return self.scaled != (right - left, bottom - top)

    def then(self, step: Step) -> Geometry:
        """This and a step behind it.

        Raises:
            ValueError: A crop does not lie inside, or it would be the second resizing.
        """
        if isinstance(step, Flip):
            flip = (not self.flip_across, self.flip_down) if step.across else (self.flip_across, not self.flip_down)
            return Geometry(self.box, self.scaled, self.window, *flip)
        if isinstance(step, Crop):
            return self._cropped(step)
        scaled = (step.width, step.height)
        if scaled == self.size:
            return self
        if self.resizes:
            raise ValueError("an image that is resized twice cannot be planned as one step")
        return Geometry(self.box, scaled, (0, 0, *scaled), self.flip_across, self.flip_down)

    def _cropped(self, crop: Crop) -> Geometry:
        width, height = self.size
        if crop.left < 0 or crop.top < 0 or crop.left + crop.width > width or crop.top + crop.height > height:
            raise ValueError(f"{crop} does not lie inside an image of {width}x{height} pixels")
        left = width - crop.left - crop.width if self.flip_across else crop.left
        top = height - crop.top - crop.height if self.flip_down else crop.top
        if self.resizes:
            left, top = left + self.window[0], top + self.window[1]
            window = (left, top, left + crop.width, top + crop.height)
            return Geometry(self.box, self.scaled, window, self.flip_across, self.flip_down)
        left, top = left + self.box[0], top + self.box[1]
        box, scaled = (left, top, left + crop.width, top + crop.height), (crop.width, crop.height)
        return Geometry(box, scaled, (0, 0, *scaled), self.flip_across, self.flip_down)


def check_image(image: Any) -> None:
    """Say no to what is not an image.

    Raises:
        TypeError: It is not a uint8 array HxW or HxWxC with 1 to 4 channels.
    """
    is_array = isinstance(image, np.ndarray)
    if not is_array or image.dtype != np.uint8 or image.ndim not in (2, 3) or not all(image.shape):
        found = f"{image.dtype} of shape {image.shape}" if is_array else type(image).__name__
        raise TypeError(f"expected an image: a uint8 array of shape HxW or HxWxC, found {found}")


def run(steps: tuple[Step, ...], image: Image) -> Image:
    """Apply steps to pixels, one after the other.

    Returns:
        A C-contiguous array; the image itself where nothing is to be done.

    Raises:
        ValueError: A crop does not lie inside it.
    """
    for step in steps:
        if isinstance(step, Flip):
            image = image[:, ::-1] if step.across else image[::-1]
        elif isinstance(step, Crop):
            Geometry.whole(image.shape[1], image.shape[0]).then(step)  # says no to a box that is not inside
            image = image[step.top : step.top + step.height, step.left : step.left + step.width]
        elif (step.width, step.height) != (image.shape[1], image.shape[0]):
            image = resample(image, Geometry.whole(image.shape[1], image.shape[0]).then(step))
    return np.ascontiguousarray(image)


def resample(image: Image, geometry: Geometry) -> Image:
    """What the geometry makes of an image that is decoded already, by the kernel that decodes crops."""
    width, height = geometry.size
    pixels = image[:, :, None] if image.ndim == 2 else image
    out = np.empty((1, height, width, pixels.shape[2]), np.uint8)
    kernels.resize(np.ascontiguousarray(pixels), np.array([geometry.row], np.int32), out)
    return out[0, :, :, 0] if image.ndim == 2 else out[0]
