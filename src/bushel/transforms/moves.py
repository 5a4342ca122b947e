"""Consecutive geometric transforms of decoded images, which are drawn first and then combined.

Transforms that can be fused into decoding are a `Geometry` (see `bushel.transforms.fused`). Everything after it, such
as a rotation and the crop that follows it, is a list of stages: a crop or flip after a `Warp` becomes part of the warp,
so that no pixel is computed that a crop drops, and every pixel is interpolated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace

from bushel._runtime.structs import Struct
from bushel.transforms.spatial import Crop, Flip, Geometry, Spatial, resample
from bushel.transforms.values import Transform
from bushel.transforms.warp import Padding, Warp, Warping

Stage: TypeAlias = Geometry | Warp | Padding
"""A geometric step: the source of each pixel of the result."""


class Moves(Struct, frozen=True):
    """Transforms of places that follow each other, as one transform. It draws what they would draw, in their order."""

    transforms: tuple[Spatial | Warping, ...]

    def draw(self, width: int, height: int, rng: np.random.Generator | None) -> tuple[Stage, ...]:
        """Return the stages for an image of this size. Raise ValueError if the image is too small for a crop."""
        stages: list[Stage] = []
        size = (width, height)
        for transform in self.transforms:
            stage: Stage
            if isinstance(transform, Warping):
                stage = transform.step(*size, rng)
            else:
                stage = Geometry.whole(*size)
                for step in transform.steps(*size, rng):
                    stage = stage.then(step)
            size = stage.size
            stages += _folded(stages.pop(), stage) if stages else [stage]
        return tuple(stages)

    def __call__(self, image: Any, rng: np.random.Generator) -> Any:
        """Transform an image: uint8, HxW or HxWxC."""
        for stage in self.draw(image.shape[1], image.shape[0], rng):
            image = moved_image(image, stage)
        return image


def grouped(transforms: Sequence[Transform]) -> list[Transform]:
    """Return the transforms, with neighbouring geometric ones joined if one of them cannot be fused."""
    joined: list[Transform] = []
    run: list[Any] = []
    for transform in [*transforms, None]:
        if isinstance(transform, Spatial | Warping):
            run.append(transform)
            continue
        if any(isinstance(move, Warping) for move in run):
            joined.append(Moves(tuple(run)))
        else:
            joined += run
        run = []
        if transform is not None:
            joined.append(transform)
    return joined


def _folded(before: Stage, after: Stage) -> list[Stage]:
    """Return two stages. If the first one is a warp, crop and flips of the second become part of it."""
    if isinstance(before, Geometry) and isinstance(after, Geometry) and not after.resizes:
        return [_cropped(before, after)]
    if not isinstance(before, Warp) or not isinstance(after, Geometry):
        return [before, after]
    left, top, right, bottom = after.box
    flips = (False, False) if after.resizes else (after.flip_horizontal, after.flip_vertical)
    width, height = right - left, bottom - top
    a, b, c, d, e, f = before.matrix
    # place x of the result is place left + x of the warp, or right - x if the result is mirrored
    x_sign, x_start = (-1, right) if flips[0] else (1, left)
    y_sign, y_start = (-1, bottom) if flips[1] else (1, top)
    matrix = (
        a * x_sign,
        b * y_sign,
        a * x_start + b * y_start + c,
        d * x_sign,
        e * y_sign,
        d * x_start + e * y_start + f,
    )
    warp = replace(before, size=(width, height), matrix=matrix)
    if after.resizes:
        return [warp, replace(after, box=(0, 0, width, height))]
    return [warp]


def _cropped(before: Geometry, after: Geometry) -> Geometry:
    """Return a geometry followed by one that only crops and flips."""
    left, top, right, bottom = after.box
    geometry = before.then(Crop(left, top, right - left, bottom - top))
    for horizontal, flipped in ((True, after.flip_horizontal), (False, after.flip_vertical)):
        geometry = geometry.then(Flip(horizontal)) if flipped else geometry
    return geometry


def moved_image(image: Any, stage: Stage) -> Any:
    """Return a decoded image, or a list of them, after a stage.

    Raises:
        ValueError: An image is resized that is not uint8.
    """
    if isinstance(image, list):
        return [moved_image(frame, stage) for frame in image]
    if not isinstance(stage, Geometry):
        return stage.apply(image)
    if stage.resizes:
        if image.dtype != np.uint8:
            raise ValueError(f"an image of {image.dtype} cannot be resized: expected uint8. Name it as a Mask")
        return resample(image, stage)
    left, top, right, bottom = stage.box
    moved = image[top:bottom, left:right]
    left, top, right, bottom = stage.window
    moved = moved[top:bottom, left:right]
    moved = moved[:, ::-1] if stage.flip_horizontal else moved
    return np.ascontiguousarray(moved[::-1] if stage.flip_vertical else moved)
