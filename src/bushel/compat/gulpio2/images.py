"""Frames as GulpIO2 stores them, to the byte, and decodes them, to the pixel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from bushel.kernels import decode_jpeg, encode_jpeg, jpeg_header

__all__ = ["ColorSpace", "Image", "decoder_of", "img_to_jpeg_bytes", "is_own", "jpeg_bytes_to_img"]

Image = npt.NDArray[np.uint8]
ColorSpace = Literal["RGB", "GRAY"]

_QUALITY = 90


def img_to_jpeg_bytes(img: Any) -> bytes:
    """Encode a frame: quality 90, 4:4:4, the same bytes as GulpIO2's.

    Args:
        img: uint8 of shape HxW (grey) or HxWx3 (RGB), or an image of Pillow.

    Raises:
        ValueError: It is none of these.
    """
    array = np.asarray(img)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or 0 in array.shape:
        raise ValueError(f"Unsupported img shape: {array.shape}, {array.dtype}; expected uint8 of shape HxW or HxWx3")
    if array.ndim == 3 and array.shape[2] != 3:
        raise ValueError(f"Unsupported img shape: {array.shape}; expected HxW or HxWx3")
    return encode_jpeg(np.ascontiguousarray(array), _QUALITY, (1, 1), fast=True)


def jpeg_bytes_to_img(jpeg_bytes: Buffer) -> Image:
    """Decode a frame as it is stored.

    Returns:
        uint8 of shape HxWx3 (RGB), or HxW where the JPEG is grey.

    Raises:
        ValueError: These bytes are no whole JPEG.
    """
    return decode_jpeg(jpeg_bytes, fast=True)


def jpeg_bytes_to_rgb(jpeg_bytes: Buffer) -> Image:
    """Decode a frame to HxWx3, whatever is stored."""
    image = decode_jpeg(jpeg_bytes, fast=True)
    return np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image


def jpeg_bytes_to_gray(jpeg_bytes: Buffer) -> Image:
    """Decode the luma of a frame to HxW, whatever is stored."""
    if jpeg_header(jpeg_bytes)[2] == 4:
        from PIL import Image as Pillow

        return np.asarray(Pillow.fromarray(decode_jpeg(jpeg_bytes, fast=True)).convert("L"))
    return decode_jpeg(jpeg_bytes, fast=True, grey=True)


_DECODERS: dict[str, Callable[[Buffer], Image]] = {"RGB": jpeg_bytes_to_rgb, "GRAY": jpeg_bytes_to_gray}


def decoder_of(jpeg_decoder: Callable[[bytes], Any], colorspace: ColorSpace | None) -> Callable[[bytes], Any]:
    """The decoder for a colour space, or the one given where none is asked for.

    Raises:
        ValueError: There is no such colour space, or it is asked of a decoder of the user's.
    """
    if colorspace is None:
        return jpeg_decoder
    if colorspace not in _DECODERS:
        raise ValueError(f"colorspace is 'RGB' or 'GRAY', not {colorspace!r}")
    decoder = _DECODERS[colorspace]
    if jpeg_decoder not in (jpeg_bytes_to_img, decoder):
        raise ValueError("give a jpeg_decoder or a colorspace, not both")
    return decoder


def is_own(jpeg_decoder: Callable[[bytes], Any]) -> bool:
    """Whether a decoder is one of these, which may run in several threads."""
    return jpeg_decoder is jpeg_bytes_to_img or jpeg_decoder in _DECODERS.values()
