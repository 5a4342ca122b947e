"""Transforms of colours and pixels, with Pillow's `ImageEnhance`, HSV conversion and blur."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bushel._runtime.arrays import Array

from .geometry import Image, check_image
from .spatial import check_area, random_boxes
from .values import frozen_transform, two_numbers

if TYPE_CHECKING:
    import PIL.Image

_Range = float | tuple[float, float]


def _bounds(
    name: str, value: _Range, centre: float, least: float, most: float
) -> tuple[float, float]:
    problem = f"{name}={value!r}: expected a number or (low, high) between {least} and {most}"
    if isinstance(value, float | int):
        value = max(centre - value, least), centre + value
    return two_numbers(problem, value, least, most)


def check_grey_or_rgb(image: Image, transform: str) -> None:
    """Check that an image is uint8, HxW or HxWx3. Raise TypeError if it is not; the error names the transform."""
    check_image(image)
    if image.ndim == 3 and image.shape[2] != 3:
        raise TypeError(f"{transform} cannot transform shape {image.shape}: expected HxW or HxWx3")


@frozen_transform
class ColorJitter:
    """Change brightness, contrast, saturation and hue at random, in random order, as torchvision does.

    Each value is a pair of bounds, or a number x: then the factor is between max(0, 1 - x) and 1
    + x, and the shift of the hue between -x and x. Saturation and hue of grey images do not change.

    Attributes:
        brightness: Factor of all levels.
        contrast: Factor of the distance from the mean grey level of the image.
        saturation: Factor of the distance from the grey level of the pixel.
        hue: Shift as a share of the full circle, between -0.5 and 0.5.

    Examples:
        >>> from bushel.transforms import ColorJitter
        >>> jitter = ColorJitter(brightness=0.4, hue=0.1)
        >>> jitter(ds[0]["image"], np.random.default_rng(0)).dtype
        dtype('uint8')
    """

    brightness: _Range = 0.0
    contrast: _Range = 0.0
    saturation: _Range = 0.0
    hue: _Range = 0.0

    def __post_init__(self) -> None:
        self._all_bounds()

    def _all_bounds(self) -> NDArray[np.float64]:
        rows = [
            _bounds(name, getattr(self, name), 1, 0, math.inf)
            for name in ("brightness", "contrast", "saturation")
        ]
        return np.array([*rows, _bounds("hue", self.hue, 0, -0.5, 0.5)])

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        from PIL import Image as Pillow
        from PIL import ImageEnhance

        check_grey_or_rgb(image, "ColorJitter")
        bounds = self._all_bounds()
        values = (bounds[:, 0] + rng.random(4) * (bounds[:, 1] - bounds[:, 0])).tolist()
        picture = Pillow.fromarray(image)
        for number in rng.permutation(4).tolist():
            value = values[number]
            if value == (0 if number == 3 else 1) or (number >= 2 and picture.mode == "L"):
                continue
            if number == 3:
                picture = _shift_hue(picture, value)
            else:
                enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[
                    number
                ]
                picture = enhance(picture).enhance(value)
        return np.array(picture)


def _shift_hue(picture: PIL.Image.Image, shift: float) -> PIL.Image.Image:
    from PIL import Image as Pillow

    hue, saturation, value = picture.convert("HSV").split()
    turned = np.asarray(hue) + np.uint8(round(shift * 255) % 256)
    return Pillow.merge("HSV", (Pillow.fromarray(turned), saturation, value)).convert("RGB")


@frozen_transform
class Grayscale:
    """Convert RGB to grey with the luma of ITU-R 601, as Pillow does.

    Attributes:
        channels: 1 for a result HxW, 3 for HxWx3 with three equal channels.

    Examples:
        >>> from bushel.transforms import Grayscale
        >>> Grayscale()(ds[0]["image"]).shape
        (48, 64)
    """

    channels: Literal[1, 3] = 1

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise ValueError(f"invalid channels={self.channels!r}: expected 1 or 3")

    def __call__(self, image: Image) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        from PIL import Image as Pillow

        check_image(image)
        if image.ndim == 2:
            grey = image
        else:
            grey = np.array(Pillow.fromarray(image).convert("L"))
        if self.channels == 1:
            return grey
        return np.repeat(grey[:, :, None], 3, axis=2)


@frozen_transform
class GaussianBlur:
    """Blur with a Gaussian of random width, by Pillow's three box filters.

    Away from the edges, the result differs from a convolution with the Gaussian itself by less than
    two levels on average.

    Attributes:
        sigma: Standard deviation in pixels: a number, or (low, high) between which it is drawn.

    Examples:
        >>> from bushel.transforms import GaussianBlur
        >>> GaussianBlur((0.1, 2.0))(ds[0]["image"], np.random.default_rng(0)).shape
        (48, 64, 3)
    """

    sigma: float | tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        self._bounds()

    def _bounds(self) -> tuple[float, float]:
        sigma = self.sigma
        problem = f"{sigma=!r}: expected a number above 0, or (low, high)"
        if isinstance(sigma, int | float):
            sigma = sigma, sigma
        return two_numbers(problem, sigma)

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        from PIL import Image as Pillow
        from PIL import ImageFilter

        check_grey_or_rgb(image, "GaussianBlur")
        low, high = self._bounds()
        blur = ImageFilter.GaussianBlur(low + (high - low) * rng.random())
        return np.array(Pillow.fromarray(image).filter(blur))


@frozen_transform
class RandomErasing:
    """Replace a random box of the image, with probability `p` (Zhong et al., 2017), as torchvision does.

    If ten random boxes do not fit into the image, it stays as it is.

    Attributes:
        p: Probability.
        scale: Bounds of the box's area, as a share of the image's area.
        ratio: Bounds of height / width. Its logarithm is uniform between them.
        value: The contents of the box: a number, one for each channel, or `"random"`: a random
            value of each pixel and channel, uniform over all levels for uint8 and normal for
            floats.

    Examples:
        >>> from bushel.transforms import RandomErasing, RandomResizedCrop
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomResizedCrop(32), RandomErasing(0.25)])
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float | tuple[float, ...] | Literal["random"] = 0

    def __post_init__(self) -> None:
        check_area(self)
        if isinstance(self.value, str) and self.value != "random":
            raise ValueError(
                f"invalid value={self.value!r}: expected a "
                'number, one for each channel, or "random"'
            )

    def __call__(self, image: Array, rng: np.random.Generator) -> Array:
        """Transform an image: HxW or HxWxC, uint8 or normalised; before `ToCHW`, not after it."""
        if not isinstance(image, np.ndarray) or image.ndim not in (2, 3):
            raise TypeError(
                f"RandomErasing cannot transform a {type(image).__name__}: expected HxW or HxWxC"
            )
        if rng.random() >= self.p:
            return image
        height, width = image.shape[:2]
        for (wide, tall), x, y in random_boxes(self, width, height, rng):
            if 0 < tall < height and 0 < wide < width:
                top, left = int(y * (height - tall + 1)), int(x * (width - wide + 1))
                return self._erased(image, slice(top, top + tall), slice(left, left + wide), rng)
        return image

    def _erased(self, image: Array, rows: slice, columns: slice, rng: np.random.Generator) -> Array:
        erased = image.copy()
        part = erased[rows, columns]
        if self.value != "random":
            part[...] = self.value
        elif image.dtype == np.uint8:
            part[...] = rng.integers(0, 256, part.shape, dtype=np.uint8)
        else:
            part[...] = rng.standard_normal(part.shape)
        return erased
