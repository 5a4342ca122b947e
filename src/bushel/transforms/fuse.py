"""What of a list of transforms can be done while decoding, planned without pixels.

A leading run of crops, mirrorings and at most one resizing becomes one `Geometry` per image; a `Normalize` and a
`ToCHW` right behind it become the way in which pixels are written. What is left runs afterwards, as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from bushel.transforms.geometry import Geometry
from bushel.transforms.spatial import Spatial
from bushel.transforms.values import Compose, EachFrame, Normalize, ToCHW, Transform, takes_rng

__all__ = ["DecodePlan", "frame_geometries", "plan_decode", "plan_frames"]


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """How images are decoded, and what remains to be done.

    Attributes:
        spatial: What becomes the geometry, in order; maybe nothing.
        normalise: How levels are written, None as they are.
        layout: How pixels are laid out.
        rest: The transforms that follow.
    """

    spatial: tuple[Spatial, ...]
    normalise: Normalize | None
    layout: Literal["HWC", "CHW"]
    rest: tuple[Transform, ...]

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of every image, None where they depend on the image."""
        sizes = [transform.output for transform in self.spatial if transform.resizes or transform.output is not None]
        return sizes[-1] if sizes else None

    @property
    def random(self) -> bool:
        """Whether the geometry is drawn at random."""
        return any(takes_rng(cast("Transform", transform)) for transform in self.spatial)

    def geometry(self, width: int, height: int, rng: np.random.Generator | None = None) -> Geometry:
        """What is decoded of an image of that size.

        The random numbers are the same, in the same order, as those that the transforms draw when they are called.

        Args:
            width: Of the image, in pixels.
            height: Of the image, in pixels.
            rng: Needed when `random`.

        Raises:
            ValueError: The image is too small for a crop.
        """
        geometry = Geometry.whole(width, height)
        for transform in self.spatial:
            for step in transform.steps(*geometry.size, rng):
                geometry = geometry.then(step)
        return geometry

    def array_shape(self, images: int, size: tuple[int, int], channels: int = 3) -> tuple[int, int, int, int]:
        """The shape of a batch array for images of that height and width."""
        return (images, channels, *size) if self.layout == "CHW" else (images, *size, channels)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the batch array."""
        return np.dtype(self.normalise.dtype if self.normalise else np.uint8)


def _flat(transforms: Sequence[Transform]) -> list[Transform]:
    flat: list[Transform] = []
    for transform in transforms:
        flat.extend(_flat(transform.transforms) if isinstance(transform, Compose) else [transform])
    return flat


def plan_decode(transforms: Sequence[Transform]) -> DecodePlan:
    """Split a list of transforms into what is done while decoding and the rest."""
    flat = _flat(transforms)
    spatial: list[Spatial] = []
    resized = False
    while flat and isinstance(flat[0], Spatial) and not (resized and flat[0].resizes):
        resized = resized or flat[0].resizes
        spatial.append(flat.pop(0))
    normalise: Normalize | None = None
    layout: Literal["HWC", "CHW"] = "HWC"
    if flat and isinstance(flat[0], Normalize):
        normalise = flat[0]
        flat.pop(0)
    if flat and isinstance(flat[0], ToCHW):
        layout = "CHW"
        flat.pop(0)
    return DecodePlan(tuple(spatial), normalise, layout, tuple(flat))


def plan_frames(frames: EachFrame) -> DecodePlan | None:
    """The same for the frames of a sequence field.

    None when what is left draws random numbers: its draws come between those for one frame and the next.
    """
    plan = plan_decode(frames.transforms)
    return None if any(map(takes_rng, plan.rest)) else plan


def frame_geometries(
    frames: EachFrame, plan: DecodePlan, sizes: Iterable[tuple[int, int]], rng: np.random.Generator | None = None
) -> list[Geometry]:
    """What is decoded of each frame of a sample, given their widths and heights."""
    if not frames.same:
        return [plan.geometry(*size, rng) for size in sizes]
    # Frames of one size are decoded alike. The size of the last one is the last to be drawn for: so the generator is
    # left as it would be behind all frames.
    every = list(sizes)
    order = reversed(dict.fromkeys(reversed(every)))
    geometries = {size: plan.geometry(*size, rng) for size, rng in zip(order, frames.generators(rng), strict=False)}
    return [geometries[size] for size in every]
