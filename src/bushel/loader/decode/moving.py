"""Fields that move together: the geometry of a sample is drawn once, and its masks, boxes and points follow.

Frames of a sequence, which share a geometry too, are decoded here with their fused transforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import Array
from bushel.codecs.image import ImageReading, Seekable, decode_image
from bushel.errors import CodecError
from bushel.loader.values.collate import Sample
from bushel.transforms.fused import (
    ENCODED,
    DecodePlan,
    bytes_of,
    decode_into,
    frame_geometries,
    image_size,
)
from bushel.transforms.geometry import Geometry
from bushel.transforms.moves import Moves, Stage, moved_image, names_of
from bushel.transforms.values import Call, EachFrame, apply_calls

from .sample_transforms import FieldTransforms


class Drawn(Struct, frozen=True):
    """The random geometry of one sample.

    Attributes:
        geometry: The geometry that can be fused into decoding.
        stages: The stages of each `Moves` among the transforms after it, in their order.
        fields: The fields that follow, as they are afterwards.
    """

    geometry: Geometry
    stages: tuple[tuple[Stage, ...], ...]
    fields: dict[str, Any]

    def calls(self, calls: Sequence[Call]) -> tuple[Call, ...]:
        """Return the transforms of the images of this sample. Random numbers are drawn once for all of them."""
        stages = iter(self.stages)
        return tuple(
            Call(partial(_through, next(stages)), random=False)
            if isinstance(call.function, Moves)
            else call
            for call in calls
        )


def _through(stages: tuple[Stage, ...], image: Any) -> Any:
    for stage in stages:
        image = moved_image(image, stage)
    return image


def draw_together(
    step: FieldTransforms, plan: DecodePlan, sample: Sample, rng: np.random.Generator | None
) -> Drawn | None:
    """Draw the geometry of a sample, and move the fields that follow it.

    Returns:
        The drawn geometry; None if the sample has none of the fields.

    Raises:
        ValueError: An image is missing or has another size than the first one, or a field does not
            fit its image.
    """
    if not (present := [name for name in step.fields if name in sample]):
        return None
    if missing := [name for name in step.images if name not in sample]:
        raise ValueError(f"field {missing[0]!r}, with which {present[0]!r} moves, is missing")
    reading = step.reading or ImageReading()
    sizes = {name: _size(sample[name], reading) for name in step.images}
    size = sizes[step.field]
    for name, other in sizes.items():
        if other != size:
            raise ValueError(
                f"{name!r} has {other} pixels, but {step.field!r}, with which it moves, has {size}"
            )
    geometry = plan.geometry(*size, rng)
    drawn: list[tuple[Stage, ...]] = []
    last = geometry.size
    for call in step.rest:
        if isinstance(call.function, Moves):
            drawn.append(call.function.draw(*last, rng))
            last = drawn[-1][-1].size
    moved: dict[str, Any] = {}
    for follower in [follower for follower in step.followers if follower.field in sample]:
        # boxes drop rows of points that moved before, and the other way round
        moving, before = sample | moved, size
        if isinstance(value := sample[follower.field], ENCODED):
            pixels, before = _decoded_mask(bytes_of(value), reading, geometry.box[3], size)
            moving = {**sample, follower.field: pixels}
        for stage in (geometry, *chain.from_iterable(drawn)):
            moving = {**moving, **follower.follow(moving, stage, before)}
            before = stage.size
        moved |= {name: moving[name] for name in names_of((follower,))}
    return Drawn(geometry, tuple(drawn), moved)


def _decoded_mask(
    data: Any, reading: ImageReading, rows: int, size: tuple[int, int]
) -> tuple[Any, tuple[int, int]]:
    """Decode at least these rows of a mask. Return them, and width and height of its image without the rows below."""
    # an error says so, with the size of the mask
    if image_size(data, exif_rotate=reading.exif_rotate) != size:
        return decode_image(data, reading), size
    pixels = decode_image(data, reading, rows=rows)
    return pixels, (size[0], len(pixels))


def decoded_and_moved(value: Any, geometry: Geometry, reading: ImageReading) -> Any:
    """Return an image, encoded or decoded, or a list of decoded ones, after a geometry."""
    if isinstance(value, ENCODED):
        value = decode_image(bytes_of(value), reading)
    return moved_image(value, geometry)


def _size(value: Any, reading: ImageReading) -> tuple[int, int]:
    """Return width and height of an image, encoded or decoded, or of all decoded ones of a list."""
    if isinstance(value, ENCODED):
        return image_size(bytes_of(value), exif_rotate=reading.exif_rotate)
    images = value if isinstance(value, list) else [value]
    shapes = {
        image.shape[:2]
        for image in images
        if isinstance(image, np.ndarray) and image.ndim in (2, 3)
    }
    if len(shapes) != 1 or not all(isinstance(image, np.ndarray) for image in images):
        raise ValueError(
            "expected an image HxW or HxWxC, or a list of "
            f"images of one size, not a {type(value).__name__}"
        )
    [(height, width)] = shapes
    return width, height


def is_sequence(value: Any) -> bool:
    """Return whether a value is a list of images that are still encoded."""
    return isinstance(value, list) and all(isinstance(image, ENCODED) for image in value)


def decode_sequence(
    frames: EachFrame,
    plan: DecodePlan,
    stored: Sequence[Any],
    rng: np.random.Generator | None,
    gap: float | None,
    reading: ImageReading,
    out: Array,
    refused: list[int],
) -> list[Array]:
    """Decode the frames of a sample, transformed by the plan of `frames`, into an array.

    Raises:
        CodecError: A frame cannot be decoded.
    """
    if not stored:
        return []
    datas = list(map(bytes_of, stored))
    geometries = frame_geometries(
        frames, plan, [image_size(data, exif_rotate=reading.exif_rotate) for data in datas], rng
    )
    tables = [image.table if isinstance(image, Seekable) else None for image in stored]
    errors = decode_into(
        plan,
        datas,
        geometries,
        out,
        reducing_gap=gap,
        reading=reading,
        seek_tables=None if all(table is None for table in tables) else tables,
        refused=refused,
    )
    for number, error in errors.items():
        raise CodecError(f"element {number}: {error}", **error.details)
    if not plan.rest:
        return list(out)
    calls = tuple(map(Call.of, plan.rest))
    return [apply_calls(calls, frame, None, "") for frame in out]
