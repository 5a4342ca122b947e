"""Transforms that blur or erase pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bushel.transforms.colour import check_grey_or_rgb
from bushel.transforms.spatial import Image


@dataclass(frozen=True, slots=True)
class GaussianBlur:
    """Blur with a Gaussian of random width, by Pillow's three box filters.

    Away from the edges, the result differs from a convolution with the Gaussian itself by less than two levels on
    average.

    Attributes:
        sigma: Standard deviation in pixels: a number, or (low, high) between which it is drawn.

    Examples:
        >>> from bushel.transforms import GaussianBlur
        >>> GaussianBlur((0.1, 2.0))(ds[0]["image"], np.random.default_rng(0)).shape
        (48, 64, 3)
    """

    sigma: float | tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        low, high = self._bounds()
        if not 0 < low <= high:
            raise ValueError(f"invalid sigma={self.sigma!r}: expected a number above 0, or (low, high)")

    def _bounds(self) -> tuple[float, float]:
        if isinstance(self.sigma, int | float):
            return (self.sigma, self.sigma)
        return self.sigma

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        from PIL import Image as Pillow
        from PIL import ImageFilter

        check_grey_or_rgb(image, "GaussianBlur")
        low, high = self._bounds()
        blur = ImageFilter.GaussianBlur(low + (high - low) * rng.random())
        return np.array(Pillow.fromarray(image).filter(blur))


@dataclass(frozen=True, slots=True)
class RandomErasing:
    """Replace a random box of the image, with probability `p` (Zhong et al., 2017), as torchvision does.

    If ten random boxes do not fit into the image, it stays as it is.

    Attributes:
        p: Probability.
        scale: Bounds of the box's area, as a share of the image's area.
        ratio: Bounds of height / width. Its logarithm is uniform between them.
        value: The contents of the box: a number, one for each channel, or `"random"`: a random value of each
            pixel and channel, uniform over all levels for uint8 and normal for floats.

    Examples:
        >>> from bushel.transforms import RandomErasing, RandomResizedCrop
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomResizedCrop(32), RandomErasing(0.25)])
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float | tuple[float, ...] | Literal["random"] = 0

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"invalid probability {self.p}: expected 0 to 1")
        if not 0 < self.scale[0] <= self.scale[1] <= 1 or not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"invalid scale or ratio in {self}: expected (lower, upper) above 0, and scale up to 1")
        if isinstance(self.value, str) and self.value != "random":
            raise ValueError(f'invalid value={self.value!r}: expected a number, one for each channel, or "random"')

    def __call__(self, image: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
        """Transform an image: HxW or HxWxC, uint8 or normalised; before `ToCHW`, not after it."""
        if not isinstance(image, np.ndarray) or image.ndim not in (2, 3):
            raise TypeError(f"RandomErasing cannot transform a {type(image).__name__}: expected HxW or HxWxC")
        if rng.random() >= self.p or (box := self._box(image.shape[0], image.shape[1], rng)) is None:
            return image
        top, left, height, width = box
        erased = image.copy()
        part = erased[top : top + height, left : left + width]
        if self.value != "random":
            part[...] = self.value
        elif image.dtype == np.uint8:
            part[...] = rng.integers(0, 256, part.shape, dtype=np.uint8)
        else:
            part[...] = rng.standard_normal(part.shape)
        return erased

    def _box(self, height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int] | None:
        least, most = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            part, shape, x, y = rng.random(4).tolist()
            area = height * width * (self.scale[0] + part * (self.scale[1] - self.scale[0]))
            ratio = math.exp(least + shape * (most - least))
            tall, wide = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < tall < height and 0 < wide < width:
                return int(y * (height - tall + 1)), int(x * (width - wide + 1)), tall, wide
        return None
