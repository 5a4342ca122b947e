"""Transforms of colours, with Pillow's `ImageEnhance` and HSV conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bushel.transforms.spatial import Image, check_image

if TYPE_CHECKING:
    import PIL.Image

_Range = float | tuple[float, float]


def _bounds(name: str, value: _Range, centre: float, least: float, most: float) -> tuple[float, float]:
    low, high = (max(centre - value, least), centre + value) if isinstance(value, float | int) else value
    if not least <= low <= high <= most:
        raise ValueError(f"invalid {name}={value!r}: expected a number or (low, high) between {least} and {most}")
    return low, high


def check_grey_or_rgb(image: Image, transform: str) -> None:
    """Check that an image is uint8, HxW or HxWx3. Raise TypeError if it is not; the error names the transform."""
    check_image(image)
    if image.ndim == 3 and image.shape[2] != 3:
        raise TypeError(f"{transform} cannot transform shape {image.shape}: expected HxW or HxWx3")


@dataclass(frozen=True, slots=True)
class ColorJitter:
    """Change brightness, contrast, saturation and hue at random, in random order, as torchvision does.

    Each value is a pair of bounds, or a number x: then the factor lies between max(0, 1 - x) and 1 + x, and the shift
    of the hue between -x and x. Saturation and hue of grey images do not change.

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
        factors = {"brightness": self.brightness, "contrast": self.contrast, "saturation": self.saturation}
        rows = [_bounds(name, value, 1, 0, float("inf")) for name, value in factors.items()]
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
                enhance = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[number]
                picture = enhance(picture).enhance(value)
        return np.array(picture)


def _shift_hue(picture: PIL.Image.Image, shift: float) -> PIL.Image.Image:
    from PIL import Image as Pillow

    hue, saturation, value = picture.convert("HSV").split()
    turned = np.asarray(hue) + np.uint8(round(shift * 255) % 256)
    return Pillow.merge("HSV", (Pillow.fromarray(turned), saturation, value)).convert("RGB")


@dataclass(frozen=True, slots=True)
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
        grey = image if image.ndim == 2 else np.array(Pillow.fromarray(image).convert("L"))
        return grey if self.channels == 1 else np.repeat(grey[:, :, None], 3, axis=2)
