"""Decoding to OpenCV's pixels, and encoding to OpenCV's bytes, but with colours in the order RGB."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from bushel import jpeg
from bushel.codecs import Buffer, get_codec
from bushel.errors import CodecError, SpecError

from .base import Array, ImageError

UNCHANGED, GREY, COLOUR = -1, 0, 1
"""OpenCV's flags: the pixels of the file; HxW; HxWx3. The last two are rotated upright."""
ANY_DEPTH, ANY_COLOUR, AS_STORED = 2, 4, 128
"""Bits of OpenCV's flags: keep 16 bits a level; HxWx3 if the file has colours, else HxW; do not rotate."""

_PNG = b"\x89PNG"
_LUMA, _PNG_LUMA = (9798, 19235, 3735, 1 << 14), (9797, 19234, 3737, 0)
"""Shares of red, green and blue, and an offset before rounding down, in 32768ths: of OpenCV, and of libpng."""
_UPRIGHT: dict[int, Callable[[Array], Array]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: image.swapaxes(0, 1)[:, ::-1],
    7: lambda image: image[::-1, ::-1].swapaxes(0, 1),
    8: lambda image: image.swapaxes(0, 1)[::-1],
}
"""Functions that undo the Exif orientations."""


def decode(data: Buffer, flag: int = COLOUR, *, tolerant: bool = True) -> Array:
    """Decode a JPEG, PNG, WebP, BMP, GIF, TIFF or PPM.

    The flag is 1 for HxWx3, 0 for HxW, both uint8 and upright, to which bits can be added; -1 for
    the pixels of the file, with alpha and 16 bits.
    If `tolerant`, damage that only makes libjpeg warn is accepted, as by OpenCV: the rest of a
    truncated JPEG is grey.
    """
    if flag != UNCHANGED and flag & ~(COLOUR | ANY_DEPTH | ANY_COLOUR | AS_STORED):
        raise ValueError(
            "flag must be 1 (colour), 0 (grey), with 2, 4 "
            f"or 128 added, or -1 (unchanged), not {flag}"
        )
    try:
        if bytes(data[:2]) == b"\xff\xd8":
            return _jpeg(data, flag, tolerant)
        luma = _PNG_LUMA if bytes(data[:4]) == _PNG else _LUMA
        return _converted(np.asarray(get_codec("image").decode(data)), flag, luma)
    except CodecError as error:
        raise ImageError(f"no image can be decoded from {len(data)} bytes: {error}") from error


def _jpeg(data: Buffer, flag: int, tolerant: bool) -> Array:
    header, upright = jpeg.read_header(data), flag != UNCHANGED and not flag & AS_STORED
    if (
        _is_grey(flag, header.components)
        and header.components == 3
        and (luma := _luma(data)) is not None
    ):
        turn = _UPRIGHT.get(header.orientation) if upright else None
        return luma if turn is None else np.ascontiguousarray(turn(luma))
    image = jpeg.decode(data, exif_rotate=upright, allow_truncated=tolerant)
    return image if flag == UNCHANGED else _converted(image, flag)


def _is_grey(flag: int, channels: int) -> bool:
    return not (flag & COLOUR or (flag & ANY_COLOUR and channels > 2))


def _luma(data: Buffer) -> Array | None:
    """Return the luma that a colour JPEG stores, which RGB only approximates; None for a damaged JPEG."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            image.draft("L", None)
            return np.array(image if image.mode == "L" else image.convert("L"))
    except Exception:  # Pillow raises many kinds of errors; the kernel reports this one
        return None


def _converted(image: Array, flag: int, luma: tuple[int, int, int, int] = _LUMA) -> Array:
    channels = 1 if image.ndim == 2 else image.shape[2]
    if flag == UNCHANGED:
        return np.dstack([image[:, :, :1]] * 3 + [image[:, :, 1]]) if channels == 2 else image
    if image.dtype == np.uint16:
        image = image if flag & ANY_DEPTH else (image >> 8).astype(np.uint8)
    elif image.dtype != np.uint8:
        raise CodecError(f"expected pixels of 8 or 16 bits, not {image.dtype}")
    if channels in (2, 4):
        image = image[:, :, :-1]
    if channels in (1, 2):
        grey = image.reshape(image.shape[:2])
        return np.repeat(grey[:, :, None], 3, axis=2) if flag & COLOUR else grey
    return _grey(image, luma) if _is_grey(flag, channels) else np.ascontiguousarray(image)


def _grey(image: Array, luma: tuple[int, int, int, int]) -> Array:
    summed: Array = image.astype(np.int32) @ np.array(luma[:3], np.int32) + luma[3]
    return (summed >> 15).astype(image.dtype)


def encode(image: Any, suffix: str = ".jpg", quality: int | None = None) -> bytes:
    """Encode uint8 HxW, HxWx1, HxWx3 or HxWx4 (whose alpha a JPEG drops); a PNG also holds uint16 HxW.

    For `.jpg`, `quality` is 1 to 100, by default 95; for `.png` the compression, 0 to 9, by default
    3. Other values mean the nearest of these, as in OpenCV. Other suffixes are names of Bushel's
       codecs.
    """
    pixels = np.asarray(image)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    kind = suffix.lower()
    try:
        if kind in (".jpg", ".jpeg"):
            if pixels.ndim == 3 and pixels.shape[2] == 4:
                pixels = pixels[:, :, :3]
            level = min(max(95 if quality is None else quality, 1), 100)
            return bytes(get_codec(f"jpg({level})").encode(pixels))
        if kind == ".png":
            return _png(pixels, min(max(3 if quality is None else quality, 0), 9))
        return bytes(get_codec(kind.removeprefix(".")).encode(pixels))
    except SpecError as error:
        raise ValueError(f"cannot write images as {suffix!r}: use .jpg or .png") from error
    except CodecError as error:
        raise ImageError(str(error)) from error


def _png(pixels: Array, level: int) -> bytes:
    from PIL import Image

    deep = pixels.ndim == 2 and pixels.dtype == np.uint16
    if not (deep or pixels.dtype == np.uint8) or pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise CodecError(f"a PNG holds uint8, not {pixels.dtype} of shape {pixels.shape}")
    stream = io.BytesIO()
    try:
        Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "PNG", compress_level=level)
    except (TypeError, ValueError, OSError) as error:
        raise CodecError(f"a PNG cannot hold an image of shape {pixels.shape}: {error}") from error
    return stream.getvalue()


def swapped(image: Array) -> Array:
    """Convert RGB to BGR, or back; alpha stays last, and grey images are unchanged."""
    if image.ndim == 2 or image.shape[2] < 3:
        return image
    return np.ascontiguousarray(image[:, :, [2, 1, 0, *range(3, image.shape[2])]])
