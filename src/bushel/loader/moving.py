"""Fields that move together: the geometry of a sample is drawn once, and its masks, boxes and points follow."""

from __future__ import annotations

from typing import Any

import numpy as np

from bushel.codecs.image import ImageReading, decode_image
from bushel.loader.collate import Sample
from bushel.loader.sample_transforms import FieldTransforms
from bushel.transforms.fused import DecodePlan, bytes_of, image_size, is_image
from bushel.transforms.spatial import Geometry
from bushel.transforms.together import moved_image

__all__ = ["decoded_and_moved", "draw_together"]


def draw_together(
    step: FieldTransforms, plan: DecodePlan, sample: Sample, rng: np.random.Generator | None
) -> tuple[Geometry, dict[str, Any]] | None:
    """Draw the geometry of a sample.

    Returns:
        The geometry, and the fields that follow it as they are afterwards; None if the sample has none of the fields.

    Raises:
        ValueError: An image is missing or has another size than the first one, or a field does not fit its image.
    """
    if not (there := [name for name in step.fields if name in sample]):
        return None
    if missing := [name for name in step.images if name not in sample]:
        raise ValueError(f"there is no {missing[0]!r}, with which {there[0]!r} moves")
    reading = step.reading or ImageReading()
    sizes = {name: _size(sample[name], reading) for name in step.images}
    size = sizes[step.field]
    for name, other in sizes.items():
        if other != size:
            raise ValueError(f"{name!r} has {other} pixels, but {step.field!r}, with which it moves, has {size}")
    geometry = plan.geometry(*size, rng)
    moved: dict[str, Any] = {}
    for one in [one for one in step.followers if one.field in sample]:
        value = sample[one.field]
        own = {**sample, one.field: decode_image(bytes_of(value), reading)} if is_image(value) else sample
        moved |= one.follow(own, geometry, size)
    return geometry, moved


def decoded_and_moved(value: Any, geometry: Geometry, reading: ImageReading) -> Any:
    """Return an image, encoded or decoded, or a list of decoded ones, after a geometry."""
    return moved_image(decode_image(bytes_of(value), reading) if is_image(value) else value, geometry)


def _size(value: Any, reading: ImageReading) -> tuple[int, int]:
    """Return width and height of an image, encoded or decoded, or of all decoded ones of a list."""
    if is_image(value):
        return image_size(bytes_of(value), orient=reading.orient)
    images = value if isinstance(value, list) else [value]
    shapes = {one.shape[:2] for one in images if isinstance(one, np.ndarray) and one.ndim in (2, 3)}
    if len(shapes) != 1 or not all(isinstance(one, np.ndarray) for one in images):
        raise ValueError(
            f"expected an image HxW or HxWxC, or a list of images of one size, not a {type(value).__name__}"
        )
    [(height, width)] = shapes
    return width, height
