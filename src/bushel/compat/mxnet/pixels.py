"""Images to bytes and back as OpenCV does it, by Bushel's kernels and Pillow. Colours are in the order RGB here.

JPEGs decode to OpenCV's pixels, and encode to OpenCV's bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from bushel import kernels
from bushel.codecs import get_codec
from bushel.codecs.base import Buffer, found_bytes
from bushel.compat.mxnet.base import ImageError
from bushel.compat.mxnet.ndarray import Array
from bushel.errors import CodecError, SpecError

__all__ = ["COLOUR", "GREY", "UNCHANGED", "decode", "encode", "swapped"]

UNCHANGED, GREY, COLOUR = -1, 0, 1
"""OpenCV's flags: the pixels of the file; HxW, upright; HxWx3, upright."""

_PNG = b"\x89PNG"
_LUMA, _PNG_LUMA = (9798, 19235, 3735, 1 << 14), (9797, 19234, 3737, 0)
"""Parts of red, green and blue, and what is added before rounding down, in 32768ths: OpenCV's, and libpng's."""
_UPRIGHT: dict[int, Callable[[Array], Array]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: image.swapaxes(0, 1)[:, ::-1],
    7: lambda image: image[::-1, ::-1].swapaxes(0, 1),
    8: lambda image: image.swapaxes(0, 1)[::-1],
}
"""What undoes each Exif orientation."""


def decode(data: Buffer, flag: int = COLOUR, *, tolerant: bool = True) -> Array:
    """Decode an image.

    Args:
        data: A JPEG, PNG, WebP, BMP, GIF, TIFF or PPM.
        flag: 1 for colour, 0 for grey, both turned as Exif says; -1 for what the file holds, with alpha and 16 bits.
        tolerant: Let pass what libjpeg only warns of, as OpenCV does: of a JPEG that is cut, the rest is grey.

    Returns:
        HxWx3 uint8 for 1, HxW uint8 for 0; for -1 HxW, HxWx3 or HxWx4, uint8 or uint16.

    Raises:
        ImageError: It is no image, or a damaged one.
        ValueError: There is no such flag.
    """
    if flag not in (UNCHANGED, GREY, COLOUR):
        raise ValueError(f"the flag is 1 (colour), 0 (grey) or -1 (as it is), not {flag}")
    try:
        if bytes(data[:2]) == b"\xff\xd8":
            return _jpeg(data, flag, tolerant)
        luma = _PNG_LUMA if bytes(data[:4]) == _PNG else _LUMA
        return _converted(np.asarray(get_codec("image").decode(data)), flag, luma)
    except (kernels.JpegError, CodecError) as error:
        raise ImageError(f"no image can be decoded from {found_bytes(data)}: {error}") from error


def _jpeg(data: Buffer, flag: int, tolerant: bool) -> Array:
    header = kernels.jpeg_header(data)
    if flag == GREY and header.components == 3 and (luma := _luma(data)) is not None:
        turn = _UPRIGHT.get(header.orientation)
        return luma if turn is None else np.ascontiguousarray(turn(luma))
    image = kernels.decode_jpeg(data, orient=flag != UNCHANGED, tolerant=tolerant)
    return image if flag == UNCHANGED else _converted(image, flag)


def _luma(data: Buffer) -> Array | None:
    """The luma that a colour JPEG stores, which conversion from RGB only comes near to; None for a damaged one."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            image.draft("L", None)
            return np.array(image if image.mode == "L" else image.convert("L"))
    except Exception:
        return None


def _converted(image: Array, flag: int, luma: tuple[int, int, int, int] = _LUMA) -> Array:
    channels = 1 if image.ndim == 2 else image.shape[2]
    if flag == UNCHANGED:
        return np.dstack([image[:, :, :1]] * 3 + [image[:, :, 1]]) if channels == 2 else image
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    elif image.dtype != np.uint8:
        raise CodecError(f"pixels of type {image.dtype} are not 8 or 16 bits")
    if channels in (2, 4):
        image = image[:, :, :-1]
    if channels in (1, 2):
        grey = image.reshape(image.shape[:2])
        return grey if flag == GREY else np.repeat(grey[:, :, None], 3, axis=2)
    return np.ascontiguousarray(image) if flag == COLOUR else _grey(image, luma)


def _grey(image: Array, luma: tuple[int, int, int, int]) -> Array:
    summed: Array = image.astype(np.int32) @ np.array(luma[:3], np.int32) + luma[3]
    return (summed >> 15).astype(np.uint8)


def encode(image: Any, suffix: str = ".jpg", quality: int | None = None) -> bytes:
    """Encode an image.

    Args:
        image: uint8: HxW, HxWx1, HxWx3, or HxWx4 of which JPEG does not keep the last channel. PNG takes uint16 HxW.
        suffix: `.jpg`, `.jpeg`, `.png`, or another that Bushel has a codec for (`.webp`, `.bmp`).
        quality: Of a JPEG, 1 to 100, 95 by default; of a PNG how hard to compress, 0 to 9, 3 by default. What is
            beyond the bounds means the nearest, as in OpenCV.

    Raises:
        ImageError: It is no image, or not one of that kind.
        ValueError: There is no such kind.
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
        raise ValueError(f"no image is written as {suffix!r}: use .jpg or .png") from error
    except CodecError as error:
        raise ImageError(str(error)) from error


def _png(pixels: Array, level: int) -> bytes:
    from PIL import Image

    deep = pixels.ndim == 2 and pixels.dtype == np.uint16
    if not (deep or pixels.dtype == np.uint8) or pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise CodecError(f"a PNG holds images of uint8, not {pixels.dtype} of shape {pixels.shape}")
    stream = io.BytesIO()
    try:
        Image.fromarray(np.ascontiguousarray(pixels)).save(stream, "PNG", compress_level=level)
    except (TypeError, ValueError, OSError) as error:
        raise CodecError(f"a PNG does not hold an image of shape {pixels.shape}: {error}") from error
    return stream.getvalue()


def swapped(image: Array) -> Array:
    """RGB to BGR, or back; alpha stays behind, and grey is grey."""
    if image.ndim == 2 or image.shape[2] < 3:
        return image
    return np.ascontiguousarray(image[:, :, [2, 1, 0, *range(3, image.shape[2])]])
