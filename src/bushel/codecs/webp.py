"""WebP, decoded by the libwebp that comes with Pillow, in four fifths of Pillow's time and without the lock.

Pillow decodes every image as an animation with an alpha channel, and copies its pixels. Pillow
reads animations and damaged images, and raises their errors.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import U8

from .base import Buffer

_ABI = 0x0209
"""Version of the structure `WebPDecoderConfig` (`WEBP_DECODER_ABI_VERSION`): with 64 bits, 240 bytes.

A libwebp with another major version refuses it."""

_ALPHA = 0x10
"""A flag in the header of the extended format (RFC 9649, section 2.7)."""

_ROWS_BELOW = 2
"""Rows that those above depend on: a row of colours is shared by two, and smoothed with the next."""


class WebpHeader(Struct, frozen=True):
    """The header of an image that `decode_webp` may decode."""

    width: int  # pixels
    height: int  # pixels
    channels: int  # 4 with alpha, else 3


@cache
def _libwebp() -> Any:
    """Return Pillow's libwebp; None if Pillow has none, or one whose functions are hidden or differ."""
    try:
        from PIL import _webp

        library = ctypes.CDLL(_webp.__file__)
        address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        library.WebPInitDecoderConfigInternal.argtypes = address, number
        library.WebPGetFeaturesInternal.argtypes = address, size, address, number
        library.WebPDecode.argtypes = address, size, address
    except (ImportError, OSError, AttributeError):
        return None
    is_known = library.WebPInitDecoderConfigInternal(np.zeros(30, np.int64).ctypes.data, _ABI)
    return library if is_known and ctypes.sizeof(address) == 8 else None


def webp_header(data: Buffer) -> WebpHeader | None:
    """Return the header of a WebP; None if it is damaged, or if Pillow has to read the image."""
    head, library = bytes(data[:21]), _libwebp()
    # what a file lacks that ends early may be metadata, which libwebp would not miss
    is_whole = int.from_bytes(head[4:8], "little") + 8 <= len(data)
    if len(head) < 21 or head[:4] != b"RIFF" or not is_whole or library is None:
        return None
    is_extended = head[12:16] == b"VP8X"
    stored, features = np.frombuffer(data, np.uint8), np.zeros(10, np.int32)
    source = stored.ctypes.data, stored.size
    if library.WebPGetFeaturesInternal(*source, features.ctypes.data, _ABI):
        return None
    width, height, has_alpha, is_animation, *_ = features.tolist()
    # Pillow and libwebp differ about images with an alpha channel that the header does not mention
    if is_animation or (is_extended and has_alpha != bool(head[20] & _ALPHA)):
        return None
    return WebpHeader(width, height, 3 + has_alpha)


def decode_webp(data: Buffer, header: WebpHeader, rows: int | None = None) -> U8 | None:
    """Decode a WebP as Pillow does; None if Pillow has to do it.

    `rows` are decoded from the top; pixels below them are not checked.

    Returns:
        uint8 H×W×3, or H×W×4 with alpha.
    """
    rows = header.height if rows is None else max(1, min(rows, header.height))
    decoded_rows = min(rows + _ROWS_BELOW, header.height)
    pixels = np.empty((decoded_rows, header.width, header.channels), np.uint8)
    stored, config, library = np.frombuffer(data, np.uint8), np.zeros(30, np.int64), _libwebp()
    library.WebPInitDecoderConfigInternal(config.ctypes.data, _ABI)
    numbers = config.view(np.int32)
    # `output`: the mode (RGB is 0, RGBA 1), and where pixels are written: memory of the caller
    numbers[10], numbers[13] = header.channels - 3, 1
    config[7], numbers[16], config[9] = pixels.ctypes.data, pixels.strides[0], pixels.nbytes
    # `options`: cropped or not, and left, top, width and height
    numbers[42] = decoded_rows < header.height
    numbers[43:47] = 0, 0, header.width, decoded_rows
    if library.WebPDecode(stored.ctypes.data, stored.size, config.ctypes.data):
        return None
    return pixels[:rows]
