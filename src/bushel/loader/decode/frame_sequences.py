"""Decoding of the frames of a sequence field, with the transforms that are fused into decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs.image import ImageReading, Seekable
from bushel.errors import CodecError
from bushel.loader.values.applied import apply_calls
from bushel.transforms.fused import DecodePlan, bytes_of, decode_into, frame_geometries, image_size, is_image
from bushel.transforms.values import Call, EachFrame


def is_sequence(value: Any) -> bool:
    """Return whether a value is a list of images that are still encoded."""
    return isinstance(value, list) and all(map(is_image, value))


def decode_sequence(
    frames: EachFrame,
    plan: DecodePlan,
    stored: Sequence[Any],
    rng: np.random.Generator | None,
    gap: float | None,
    reading: ImageReading,
    out: npt.NDArray[Any],
    refused: list[int],
) -> list[npt.NDArray[Any]]:
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
    tables = [one.table if isinstance(one, Seekable) else None for one in stored]
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
