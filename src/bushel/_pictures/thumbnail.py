"""Small pictures of images and stored values. A JPEG is decoded straight to the size of its thumbnail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel import kernels
from bushel._kinds import IMAGES, JPEG_START, WEAK, kind_of
from bushel._runtime.arrays import U8
from bushel.codecs import get_codec, holds_image, holds_sound
from bushel.codecs.base import Buffer, describe
from bushel.codecs.image import ImageReading, decode_image, image_reading
from bushel.errors import CodecError
from bushel.transforms.fused import decode_into, geometry_rows, image_size, plan_decode
from bushel.transforms.geometry import Crop, Geometry, ScaleTo

from .pixels import array_pixels, displayable, encode_png

_QUALITY = 82
_SMALL = 64  # pictures with both sides up to this many pixels are stored without loss


class Picture(Struct, frozen=True):
    """An encoded picture."""

    data: bytes  # the encoded picture
    media_type: str  # `image/jpeg` or `image/png`
    width: int  # width in pixels
    height: int  # height in pixels


def fitted(width: int, height: int, side: int) -> tuple[int, int]:
    """Return the size of an image that is shrunk to fit into a square. Small images keep their size."""
    scale = min(1.0, side / max(width, height, 1))
    return max(1, round(width * scale)), max(1, round(height * scale))


def thumbnail_pixels(data: Buffer, side: int, reading: ImageReading | None = None) -> U8:
    """Decode an image at the size of its thumbnail.

    Args:
        data: The encoded image, in any format that Bushel reads.
        side: Largest width and height of the thumbnail in pixels.
        reading: How to decode it. By default, upright by its Exif orientation.

    Returns:
        HxWx3, uint8.

    Raises:
        CodecError: The bytes are not an image, or are damaged.
    """
    how = ImageReading(exif_rotate=True) if reading is None else reading
    if bytes(data[:2]) != JPEG_START:
        return shrunk(displayable(decode_image(data, how)), side)
    width, height = image_size(data, exif_rotate=how.exif_rotate)
    target = fitted(width, height, side)
    out = np.empty((1, target[1], target[0], 3), np.uint8)
    geometry = Geometry.whole(width, height).then(ScaleTo(*target))
    errors = decode_into(plan_decode([]), [data], [geometry], out, reading=how)
    if errors:
        raise errors[0]
    pixels: U8 = out[0]
    return pixels


def shrunk(pixels: U8, side: int) -> U8:
    """Return an image HxWx3 that is shrunk to fit into a square, with an antialiasing filter."""
    height, width = pixels.shape[:2]
    target = fitted(width, height, side)
    if target == (width, height):
        return np.ascontiguousarray(pixels)
    return _resized(pixels, Geometry.whole(width, height).then(ScaleTo(*target)))


def _resized(pixels: U8, geometry: Geometry) -> U8:
    width, height = geometry.size
    out = np.empty((1, height, width, 3), np.uint8)
    kernels.resize(np.ascontiguousarray(pixels), geometry_rows([geometry]), out)
    small: U8 = out[0]
    return small


def encoded(pixels: U8) -> Picture:
    """Encode an image HxWx3: as JPEG, or without loss if it is small."""
    height, width = pixels.shape[:2]
    if max(width, height) <= _SMALL:
        return Picture(encode_png(pixels), "image/png", width, height)
    return Picture(
        kernels.encode_jpeg(np.ascontiguousarray(pixels), _QUALITY), "image/jpeg", width, height
    )


def covering(pixels: U8, side: int) -> U8:
    """Return the square in the middle of an image HxWx3, resized to `side` pixels."""
    height, width = pixels.shape[:2]
    edge = min(width, height)
    crop = Crop((width - edge) // 2, (height - edge) // 2, edge, edge)
    return _resized(pixels, Geometry.whole(width, height).then(crop).then(ScaleTo(side, side)))


def mosaic(pictures: Sequence[U8], side: int, columns: int) -> U8:
    """Arrange the middle squares of images in a grid.

    Returns:
        HxWx3; cells without an image are grey.
    """
    rows = max(1, -(-len(pictures) // columns))
    out = np.full((rows * side, columns * side, 3), 128, np.uint8)
    for number, picture in enumerate(pictures):
        top, left = number // columns * side, number % columns * side
        out[top : top + side, left : left + side] = covering(picture, side)
    return out


FRAMES = 3_000_000
"""Number of frames of a sound that are drawn at most: a minute at 48 kHz."""


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
        sound = np.asarray(ranged.decode(data, slice(0, FRAMES)))
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


def arrays_in(value: Any) -> Mapping[str, np.ndarray]:
    """Return the arrays of a decoded value by name: an array itself has an empty name.

    Raises:
        CodecError: It has none.
    """
    if isinstance(value, np.ndarray):
        return {"": value}
    if isinstance(value, list | tuple):
        members: Mapping[Any, Any] = dict(enumerate(value))
    else:
        members = value if isinstance(value, Mapping) else {}
    arrays = {
        str(name): member for name, member in members.items() if isinstance(member, np.ndarray)
    }
    if not arrays:
        raise CodecError(f"expected arrays, found {describe(value)}")
    return arrays
