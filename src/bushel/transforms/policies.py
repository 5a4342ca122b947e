"""Policies that draw a few of many operations for each image: RandAugment, TrivialAugment and choices.

Operations, their ranges and their order follow torchvision's `transforms.v2`, on Pillow images with
bilinear interpolation; only the random numbers differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from .colour import check_grey_or_rgb
from .geometry import Image
from .values import Transform, chained, frozen_transform
from .warp import Fill, affine

if TYPE_CHECKING:
    import PIL.Image

_ENHANCERS = ("Brightness", "Color", "Contrast", "Sharpness")
_SIGNED = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", *_ENHANCERS)
"""Operations whose magnitude is negative in half of the draws."""
_NAMES = ("Identity", *_SIGNED, "Posterize", "Solarize", "AutoContrast", "Equalize")
"""All operations, in the order in which random numbers choose them."""


class Space(Struct, frozen=True):
    """The strongest magnitudes of the operations of a policy.

    Attributes:
        shear: Radians' tangent.
        shift: A share of width or height, or pixels if it is 1 or more.
        turn: Degrees.
        colour: Factor - 1 of brightness, colour, contrast and sharpness.
        bits: How many fewer than 8 bits a level may have.
    """

    shear: float
    shift: float
    turn: float
    colour: float
    bits: int

    def magnitude(self, name: str, bins: int, number: int, size: tuple[int, int]) -> float:
        """Return the magnitude of an operation in one of the bins, for an image of this width and height."""
        if name == "Posterize":
            return 8 - round(number / ((bins - 1) / self.bits))
        shift = self.shift
        if shift < 1:
            shift *= size[name == "TranslateY"]
        strongest = {
            **dict.fromkeys(_ENHANCERS, self.colour),
            **{"ShearX": self.shear, "ShearY": self.shear, "Rotate": self.turn},
            **{"TranslateX": shift, "TranslateY": shift},
        }
        first = 255 if name == "Solarize" else 0
        return float(np.linspace(first, strongest.get(name, 0), bins)[number])


_RAND = Space(0.3, 150 / 331, 30, 0.9, 4)
_TRIVIAL = Space(0.99, 32, 135, 0.99, 6)


@frozen_transform
class RandomApply:
    """Apply transforms, all of them or none, with probability `p`.

    Examples:
        >>> from bushel.transforms import ColorJitter, RandomApply, RandomResizedCrop
        >>> jitter = RandomApply([ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomResizedCrop(32), jitter])
    """

    transforms: Sequence[Transform]
    p: float = 0.5

    def __call__(self, value: Any, rng: np.random.Generator) -> Any:
        """Transform a value of any kind that the transforms take."""
        if rng.random() < self.p:
            return chained(self.transforms, value, rng)
        return value


@frozen_transform
class RandomChoice:
    """Apply one transform, drawn at random. It may be a transform of a field, of samples or of batches.

    Attributes:
        transforms: The transforms to choose from.
        weights: How often each is drawn, relative to the others; None for all alike.

    Examples:
        >>> from bushel.transforms import CutMix, MixUp, RandomChoice
        >>> either = RandomChoice([MixUp("image", "label", 10), CutMix("image", "label", 10)])
        >>> batch = {"image": np.zeros((4, 8, 8, 3), np.uint8), "label": np.arange(4)}
        >>> either(batch, np.random.default_rng(0))["label"].shape
        (4, 10)
    """

    transforms: Sequence[Transform]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not self.transforms:
            raise ValueError("RandomChoice needs at least one transform")
        shares = self._shares()
        if len(shares) != len(self.transforms) or min(shares) < 0 or not sum(shares):
            raise ValueError(
                f"weights={self.weights!r}: expected one number of 0 or more for each transform"
            )

    def _shares(self) -> Sequence[float]:
        return [1.0] * len(self.transforms) if self.weights is None else self.weights

    def __call__(self, value: Any, rng: np.random.Generator) -> Any:
        """Transform a value of any kind that the transforms take."""
        shares = np.array(self._shares())
        ends = np.cumsum(shares / shares.sum())
        chosen = min(int(np.searchsorted(ends, rng.random(), side="right")), len(ends) - 1)
        return chained([self.transforms[chosen]], value, rng)


@frozen_transform
class MultiCrop:
    """Make several views of one image, which is decoded once, as self-supervised training needs them.

    As `sample_transform=` of a loader, it adds a field for each group of views: arrays of shape
    (views, ...), so that a batch has arrays of shape (samples, views, ...). The image itself goes,
    unless a group has its name.

    Attributes:
        field: The field of the image.
        groups: Name of a new field → number of views, and the transforms that make one.

    Examples:
        >>> from bushel.transforms import MultiCrop, RandomHorizontalFlip, RandomResizedCrop
        >>> large = [RandomResizedCrop(32, scale=(0.4, 1)), RandomHorizontalFlip()]
        >>> small = [RandomResizedCrop(16, scale=(0.05, 0.4)), RandomHorizontalFlip()]
        >>> views = MultiCrop("image", {"large": (2, large), "small": (6, small)})
        >>> batch = bushel.Loader(ds, 4, sample_transform=views).peek()
        >>> batch["large"].shape, batch["small"].shape
        ((4, 2, 32, 32, 3), (4, 6, 16, 16, 3))
    """

    field: str
    groups: Mapping[str, tuple[int, Sequence[Transform]]]

    def __post_init__(self) -> None:
        groups = self.groups.values() if isinstance(self.groups, Mapping) else ()
        pairs = [group for group in groups if isinstance(group, Sequence) and len(group) == 2]
        are_counts = all(isinstance(views, int) and views >= 1 for views, _ in pairs)
        if not groups or len(pairs) < len(groups) or not are_counts:
            raise ValueError(
                f"groups={self.groups!r}: expected at least one group, and one view or more in each"
            )

    def __call__(self, sample: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Return the sample with the views, and without the image.

        Raises:
            KeyError: The sample has no such field.
            ValueError: The views of a group differ in shape.
        """
        if self.field not in sample:
            raise KeyError(
                f"the sample has no field {self.field!r}, from "
                f"which MultiCrop makes views: {sorted(sample)}"
            )
        image = sample[self.field]
        views_by_name = {name: value for name, value in sample.items() if name != self.field}
        for name, (views, transforms) in self.groups.items():
            views_by_name[name] = np.stack([chained(transforms, image, rng) for _ in range(views)])
        return views_by_name


def apply_operation(
    picture: PIL.Image.Image, name: str, magnitude: float, fill: Fill = 0
) -> PIL.Image.Image:
    """Apply one operation to a Pillow image of mode L or RGB.

    Args:
        picture: The image.
        name: Name of the operation, as torchvision calls it.
        magnitude: Its strength: radians' tangent of a shear, pixels of a shift, degrees of a
            counter-clockwise rotation, factor - 1 of a colour, bits or the threshold. Operations
            without one ignore it.
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
    level: Any = fill
    if isinstance(fill, int) and picture.mode != "L":
        level = (fill,) * len(picture.getbands())
    if name == "Rotate":
        return picture.rotate(magnitude, Image.Resampling.BILINEAR, fillcolor=level)
    along = np.array([name.endswith("X"), name.endswith("Y")])
    if name.startswith("Shear"):
        angle = math.degrees(math.atan(magnitude))
        warp = affine(picture.size, shear=tuple(along * angle), centre=(0, 0))
    else:
        warp = affine(picture.size, shift=tuple(along * int(magnitude)))
    return picture.transform(
        warp.size, Image.Transform.AFFINE, warp.matrix, Image.Resampling.BILINEAR, fillcolor=level
    )


def _drawn(
    space: Space,
    bins: int,
    number: int,
    picture: PIL.Image.Image,
    fill: Fill,
    rng: np.random.Generator,
) -> PIL.Image.Image:
    """Apply a random operation of a space, with the magnitude of one of its bins and a random sign."""
    name = _NAMES[rng.integers(len(_NAMES))]
    magnitude = space.magnitude(name, bins, number, picture.size)
    if name in _SIGNED and rng.random() < 0.5:
        magnitude = -magnitude
    return apply_operation(picture, name, magnitude, fill)


@frozen_transform
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
        if self.operations < 0 or self.bins < 2 or not 0 <= self.magnitude < self.bins:
            raise ValueError(
                f"invalid {self}: expected operations >= 0, bins >= 2 and 0 <= magnitude < bins"
            )

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        picture = _picture(image, "RandAugment")
        for _ in range(self.operations):
            picture = _drawn(_RAND, self.bins, self.magnitude, picture, self.fill, rng)
        return np.array(picture)


@frozen_transform
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
        if self.bins < 2:
            raise ValueError(f"invalid bins={self.bins}: expected 2 or more")

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWx3."""
        picture = _picture(image, "TrivialAugmentWide")
        return np.array(
            _drawn(_TRIVIAL, self.bins, int(rng.integers(self.bins)), picture, self.fill, rng)
        )


def _picture(image: Image, transform: str) -> PIL.Image.Image:
    from PIL import Image as Pillow

    check_grey_or_rgb(image, transform)
    return Pillow.fromarray(image)
