"""Policies that draw a few of many operations for each image: RandAugment, TrivialAugment and AugMix.

Operations, their ranges and their order follow torchvision's `transforms.v2`, on Pillow images with bilinear
interpolation; only the random numbers differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel.transforms.colour import check_grey_or_rgb
from bushel.transforms.spatial import Image
from bushel.transforms.warp import Fill, affine, check_fill

if TYPE_CHECKING:
    import PIL.Image

_ENHANCERS = ("Brightness", "Color", "Contrast", "Sharpness")

Space = dict[str, tuple[Callable[[int, int, int], Any], bool]]
"""Operation → its magnitudes, a function of (bins, width, height) that gives `bins` of them, and whether half of
the draws are negative. An operation without a magnitude has None."""


def _none(bins: int, width: int, height: int) -> None:
    return None


def _to(last: float, first: float = 0.0) -> Callable[[int, int, int], Any]:
    return lambda bins, width, height: np.linspace(first, last, bins)


def _bits(most: int, less: int) -> Callable[[int, int, int], Any]:
    return lambda bins, width, height: most - np.round(np.arange(bins) / ((bins - 1) / less))


def _wide(share: float) -> Callable[[int, int, int], Any]:
    return lambda bins, width, height: np.linspace(0, share * width, bins)


def _high(share: float) -> Callable[[int, int, int], Any]:
    return lambda bins, width, height: np.linspace(0, share * height, bins)


def _space(shear: float, shift_x: Any, shift_y: Any, turn: float, colour: float | None, bits: Any) -> Space:
    coloured = {} if colour is None else {name: (_to(colour), True) for name in _ENHANCERS}
    return {
        "ShearX": (_to(shear), True),
        "ShearY": (_to(shear), True),
        "TranslateX": (shift_x, True),
        "TranslateY": (shift_y, True),
        "Rotate": (_to(turn), True),
        **coloured,
        "Posterize": (bits, False),
        "Solarize": (_to(0, 255), False),
        "AutoContrast": (_none, False),
        "Equalize": (_none, False),
    }


_IDENTITY: Space = {"Identity": (_none, False)}
_RAND = _IDENTITY | _space(0.3, _wide(150 / 331), _high(150 / 331), 30, 0.9, _bits(8, 4))
_TRIVIAL = _IDENTITY | _space(0.99, _to(32), _to(32), 135, 0.99, _bits(8, 6))
_AUGMIX = _space(0.3, _wide(1 / 3), _high(1 / 3), 30, 0.9, _bits(4, 4))


def apply_operation(picture: PIL.Image.Image, name: str, magnitude: float, fill: Fill = 0) -> PIL.Image.Image:
    """Apply one operation to a Pillow image of mode L or RGB.

    Args:
        picture: The image.
        name: Name of the operation, as torchvision calls it.
        magnitude: Its strength: radians' tangent of a shear, pixels of a shift, degrees of a counter-clockwise
            rotation, factor - 1 of a colour, bits or the threshold. Operations without one ignore it.
        fill: Level of pixels without a source.
    """
    from PIL import Image, ImageEnhance, ImageOps

    if name == "Identity":
        return picture
    if name in _ENHANCERS:
        enhanced: PIL.Image.Image = getattr(ImageEnhance, name)(picture).enhance(1 + magnitude)
        return enhanced
    if name == "Posterize":
        return ImageOps.posterize(picture, max(1, int(magnitude)))
    if name == "Solarize":
        return ImageOps.solarize(picture, magnitude)  # type: ignore[arg-type]  # Pillow compares levels with it
    if name in ("AutoContrast", "Equalize"):
        return (ImageOps.autocontrast if name == "AutoContrast" else ImageOps.equalize)(picture)
    level: Any = (fill,) * len(picture.getbands()) if isinstance(fill, int) and picture.mode != "L" else fill
    if name == "Rotate":
        return picture.rotate(magnitude, Image.Resampling.BILINEAR, fillcolor=level)
    if name.startswith("Shear"):
        angle = math.degrees(math.atan(magnitude))
        warp = affine(picture.size, shear=(angle, 0) if name == "ShearX" else (0, angle), centre=(0, 0))
    else:
        warp = affine(picture.size, shift=(int(magnitude), 0) if name == "TranslateX" else (0, int(magnitude)))
    return picture.transform(warp.size, Image.Transform.AFFINE, warp.matrix, Image.Resampling.BILINEAR, fillcolor=level)


def _drawn(
    space: Space, bins: int, bin_of: int, picture: PIL.Image.Image, fill: Fill, rng: np.random.Generator
) -> PIL.Image.Image:
    """Apply a random operation of a space, with the magnitude of one of its bins and a random sign."""
    name = list(space)[rng.integers(len(space))]
    magnitudes, signed = space[name]
    all_of_them = magnitudes(bins, *picture.size)
    magnitude = 0.0 if all_of_them is None else float(all_of_them[bin_of])
    if signed and rng.random() < 0.5:
        magnitude = -magnitude
    return apply_operation(picture, name, magnitude, fill)


@dataclass(frozen=True, slots=True)
class RandAugment:
    """Apply a few random operations of one magnitude (Cubuk et al., 2019), as torchvision does.

    Attributes:
        operations: Number of operations for each image.
        magnitude: Their magnitude, a number of a bin.
        bins: Number of magnitudes from none to the strongest.
        fill: Level of pixels without a source: one number, or one for each channel.

    Examples:
        >>> from bushel.transforms import RandAugment, RandomResizedCrop
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomResizedCrop(32), RandAugment(2, 9)])
        >>> next(iter(loader))["image"].shape
        (4, 32, 32, 3)
    """

    operations: int = 2
    magnitude: int = 9
    bins: int = 31
    fill: Fill = 0

    def __post_init__(self) -> None:
        check_fill(self.fill)
        if self.operations < 0 or self.bins < 2 or not 0 <= self.magnitude < self.bins:
            raise ValueError(f"invalid {self}: expected operations >= 0, bins >= 2 and 0 <= magnitude < bins")

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        picture = _picture(image, "RandAugment")
        for _ in range(self.operations):
            picture = _drawn(_RAND, self.bins, self.magnitude, picture, self.fill, rng)
        return np.array(picture)


@dataclass(frozen=True, slots=True)
class TrivialAugmentWide:
    """Apply one random operation of random magnitude (Mueller and Hutter, 2021), as torchvision does.

    Attributes:
        bins: Number of magnitudes from none to the strongest.
        fill: Level of pixels without a source: one number, or one for each channel.

    Examples:
        >>> from bushel.transforms import TrivialAugmentWide
        >>> TrivialAugmentWide()(ds[0]["image"], np.random.default_rng(0)).shape
        (48, 64, 3)
    """

    bins: int = 31
    fill: Fill = 0

    def __post_init__(self) -> None:
        check_fill(self.fill)
        if self.bins < 2:
            raise ValueError(f"invalid bins={self.bins}: expected 2 or more")

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        picture = _picture(image, "TrivialAugmentWide")
        return np.array(_drawn(_TRIVIAL, self.bins, int(rng.integers(self.bins)), picture, self.fill, rng))


@dataclass(frozen=True, slots=True)
class AugMix:
    """Mix the image with several chains of random operations on it (Hendrycks et al., 2020), as torchvision does.

    Attributes:
        severity: The strongest magnitude, 1 to 10.
        width: Number of chains.
        depth: Operations of a chain; None for 1 to 3 at random.
        alpha: Parameter of the Dirichlet distributions of the shares.
        fill: Level of pixels without a source: one number, or one for each channel.

    Examples:
        >>> from bushel.transforms import AugMix
        >>> AugMix()(ds[0]["image"], np.random.default_rng(0)).shape
        (48, 64, 3)
    """

    severity: int = 3
    width: int = 3
    depth: int | None = None
    alpha: float = 1.0
    fill: Fill = 0

    def __post_init__(self) -> None:
        check_fill(self.fill)
        if (
            not 1 <= self.severity <= 10
            or self.width < 1
            or self.alpha <= 0
            or (self.depth is not None and self.depth < 1)
        ):
            raise ValueError(f"invalid {self}: expected severity 1 to 10, width and depth >= 1, alpha above 0")

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        original = _picture(image, "AugMix")
        share_of_original, rest = rng.dirichlet([self.alpha] * 2).tolist()
        shares = rng.dirichlet([self.alpha] * self.width) * rest
        mixed = share_of_original * image.astype(np.float32)
        for share in shares.tolist():
            picture = original
            for _ in range(int(rng.integers(1, 4)) if self.depth is None else self.depth):
                picture = _drawn(_AUGMIX, 10, int(rng.integers(self.severity)), picture, self.fill, rng)
            mixed += share * np.asarray(picture, np.float32)
        return np.asarray(mixed.clip(0, 255), np.uint8)


def _picture(image: Image, transform: str) -> PIL.Image.Image:
    from PIL import Image as Pillow

    check_grey_or_rgb(image, transform)
    return Pillow.fromarray(image)
