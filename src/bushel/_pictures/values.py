"""Pictures of stored values of any codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from bushel._kinds import IMAGES, WEAK, kind_of
from bushel._runtime.arrays import U8
from bushel.codecs import get_codec, holds_image, holds_sound
from bushel.codecs.base import Buffer, describe
from bushel.codecs.image import image_reading
from bushel.errors import CodecError

from .pixels import array_pixels, displayable
from .thumbnail import Picture, encoded, image_thumbnail, shrunk, thumbnail_pixels

_FRAMES = 3_000_000  # number of frames of a sound that are drawn at most: a minute at 48 kHz


def value_pixels(codec: str, data: Buffer, side: int) -> U8:
    """Return a small picture of a stored value: an image, an array, the first of some frames, or the curve of a sound.

    Pickles are never opened. `side` is the largest width and height of the picture.

    Returns:
        HxWx3, uint8.

    Raises:
        CodecError: The value cannot be decoded, or has no picture.
    """
    if holds_image(codec):
        return thumbnail_pixels(data, side, replace(image_reading(codec), exif_rotate=True))
    if holds_sound(codec) and (ranged := get_codec(codec).ranged) is not None:
        sound = np.asarray(ranged.decode(data, slice(0, _FRAMES)))
        if (drawn := array_pixels(sound.mean(axis=1), side)) is None:
            raise CodecError("an empty sound")
        return shrunk(drawn[0], side)
    base = codec.partition("(")[0]
    if base == "frames" and (ranged := get_codec(codec).ranged) is not None:  # not all of them
        return shrunk(displayable(np.asarray(ranged.decode(data, slice(0, 1)))[0]), side)
    if base == "frame":
        return shrunk(displayable(np.asarray(get_codec(codec).decode(data))), side)
    kind = kind_of(data)
    if kind in IMAGES and kind not in WEAK:
        return thumbnail_pixels(data, side)
    if base not in ("bytes", "pickle", "utf8", "json"):
        for array in arrays_in(get_codec(codec).decode(data)).values():
            if (drawn := array_pixels(array, side)) is not None:
                return shrunk(drawn[0], side)
    raise CodecError(f"a value of codec {codec!r} has no picture")


def value_picture(codec: str, data: Buffer, side: int) -> Picture:
    """Return `value_pixels`, encoded."""
    if holds_image(codec):
        return image_thumbnail(data, side, replace(image_reading(codec), exif_rotate=True))
    return encoded(value_pixels(codec, data, side))


def arrays_in(value: Any) -> Mapping[str, np.ndarray]:
    """Return the arrays of a decoded value by name: an array itself has an empty name.

    Raises:
        CodecError: It has none.
    """
    if isinstance(value, np.ndarray):
        return {"": value}
    if isinstance(value, Mapping):
        arrays = {
            str(name): member for name, member in value.items() if isinstance(member, np.ndarray)
        }
    elif isinstance(value, list | tuple):
        arrays = {
            str(number): member
            for number, member in enumerate(value)
            if isinstance(member, np.ndarray)
        }
    else:
        arrays = {}
    if not arrays:
        raise CodecError(f"expected arrays, found {describe(value)}")
    return arrays
