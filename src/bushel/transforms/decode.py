"""Carry out a `DecodePlan`: encoded images into the slots of a batch array."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel import kernels
from bushel.codecs.base import Buffer, codec_error, found_bytes
from bushel.codecs.image import ImageReading, decode_image
from bushel.errors import CodecError
from bushel.transforms.fuse import DecodePlan
from bushel.transforms.geometry import Geometry, Image

__all__ = ["decode_into", "image_size", "is_upright"]

_ORIENTATION = 0x0112  # Exif's tag


def _is_jpeg(data: Buffer) -> bool:
    return bytes(data[:2]) == b"\xff\xd8"


def image_size(data: Buffer, *, orient: bool = False) -> tuple[int, int]:
    """Width and height of an encoded image, from its header.

    Args:
        data: The encoded image, of any format that Bushel reads.
        orient: Whether it is to be turned as its Exif orientation says.

    Raises:
        CodecError: That is no image.
    """
    width, height, orientation = _header(data)
    return (height, width) if orient and orientation >= 5 else (width, height)


def is_upright(data: Buffer) -> bool:
    """Whether an encoded image is to be shown as it decodes; else its Exif orientation says how it is to be turned.

    Raises:
        CodecError: That is no image.
    """
    return _header(data)[2] == 1


def _header(data: Buffer) -> tuple[int, int, int]:
    """Width, height and Exif orientation, which is 1 for an image that is upright."""
    if _is_jpeg(data):
        try:
            width, height, _, orientation = kernels.jpeg_header(data)
        except kernels.JpegError as error:
            raise _bad_jpeg(data, str(error)) from error
        return width, height, orientation
    from PIL import Image as Pillow

    try:
        with Pillow.open(io.BytesIO(data)) as image:
            noted = 1 if image.format == "TIFF" else image.getexif().get(_ORIENTATION, 1)  # it turns TIFFs itself
            return image.width, image.height, noted if noted in range(1, 9) else 1
    except Exception as error:  # Pillow names no set of errors for damaged files
        raise codec_error("image", "an image", f"{found_bytes(data)} ({error})") from error


def _bad_jpeg(data: Buffer, problem: str) -> CodecError:
    return codec_error("jpg", "a whole image (JPEG)", f"{found_bytes(data)}: {problem}")


def _with_channels(image: npt.NDArray[Any], channels: int) -> Image:
    if image.dtype != np.uint8:
        raise codec_error("image", "8 bits per channel", f"an image of dtype {image.dtype}")
    pixels: Image = image[:, :, None] if image.ndim == 2 else image
    if pixels.shape[2] in (2, 4) and pixels.shape[2] != channels:
        pixels = pixels[:, :, :-1]  # without alpha
    if pixels.shape[2] == 1 and channels == 3:
        pixels = np.repeat(pixels, 3, axis=2)
    if pixels.shape[2] != channels:
        raise codec_error("image", f"{channels} channels", f"an image of shape {image.shape}")
    return np.ascontiguousarray(pixels)


def decode_into(
    plan: DecodePlan,
    datas: Sequence[Buffer],
    geometries: Sequence[Geometry],
    out: npt.NDArray[Any],
    *,
    reducing_gap: float | None = 2.0,
    orient: bool = False,
    tolerant: bool = False,
) -> dict[int, CodecError]:
    """Decode encoded images into a batch array, without holding the interpreter lock.

    JPEGs are decoded only where it matters; other formats are decoded whole, then take the same way.

    Args:
        plan: Its layout and normalisation.
        datas: The encoded images.
        geometries: What is wanted of each: `plan.geometry` of its `image_size`.
        out: C-contiguous, one slot for each image, of `plan.array_shape` and `plan.dtype`. Grey images fill three
            channels, alpha is dropped where it has no channel.
        reducing_gap: Let a JPEG's inverse DCT shrink it as long as it stays so many times larger than the result, as
            Pillow does; None for never, which agrees with the transforms called one by one within one level.
        orient: Turn images as their Exif orientation says.
        tolerant: Let damaged JPEGs pass as far as they go.

    Returns:
        What was wrong, by number of image. The slots of these images are as they were.
    """
    table = plan.normalise.table if plan.normalise else None
    rows = np.array([geometry.row for geometry in geometries], np.int32).reshape(-1, 10)
    decode_jpegs = partial(
        kernels.decode_jpegs,
        layout=plan.layout,
        table=table,
        reducing_gap=reducing_gap,
        orient=orient,
        tolerant=tolerant,
    )
    if all(map(_is_jpeg, datas)):
        return {number: _bad_jpeg(datas[number], problem) for number, problem in decode_jpegs(datas, rows, out)}
    errors: dict[int, CodecError] = {}
    for number, data in enumerate(datas):
        one = slice(number, number + 1)
        try:
            if _is_jpeg(data):
                for _, problem in decode_jpegs([data], rows[one], out[one]):
                    errors[number] = _bad_jpeg(data, problem)
            else:
                whole = decode_image(data, ImageReading(orient))
                image = _with_channels(whole, out.shape[1 if plan.layout == "CHW" else 3])
                kernels.resize(image, rows[one], out[one], plan.layout, table)
        except CodecError as error:
            errors[number] = error
    return errors
