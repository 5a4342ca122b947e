"""Random flips."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from bushel.transforms.spatial import Flip, Image, Steps, apply_to


@dataclass(frozen=True, slots=True)
class _RandomFlip:
    """Mirror in one direction with probability `p`."""

    p: float = 0.5
    horizontal: ClassVar[bool]
    resizes: ClassVar[bool] = False
    output: ClassVar[tuple[int, int] | None] = None

    def __post_init__(self) -> None:
        if not isinstance(self.p, Real) or not 0 <= self.p <= 1:
            raise ValueError(f"invalid probability {self.p}: expected 0 to 1")

    def steps(self, width: int, height: int, rng: np.random.Generator) -> Steps:
        """Return the steps for an image of this size."""
        return (Flip(horizontal=self.horizontal),) if rng.random() < self.p else ()

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        """Transform an image: uint8, HxW or HxWxC."""
        return apply_to(self, image, rng)


@dataclass(frozen=True, slots=True)
class RandomHorizontalFlip(_RandomFlip):
    """Mirror left to right with probability `p`.

    Examples:
        >>> from bushel.transforms import RandomHorizontalFlip
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomHorizontalFlip(p=0.5)])
    """

    horizontal: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RandomVerticalFlip(_RandomFlip):
    """Mirror top to bottom with probability `p`.

    Examples:
        >>> from bushel.transforms import RandomVerticalFlip
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomVerticalFlip()])
    """

    horizontal: ClassVar[bool] = False
