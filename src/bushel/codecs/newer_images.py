"""AVIF, HEIC and JPEG XL: the Pillow parser that an image needs, and the package that provides it.

Each parser is called only for files that begin like its format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from bushel._kinds import JXL_CODESTREAM, kind_of
from bushel._runtime.arrays import U8
from bushel.errors import MissingPackageError, needed_by

from .base import Buffer

NEWER_FORMATS = {"AVIF": "avif", "HEIF": "heic", "JXL": "jxl"}
"""Pillow's name of each format, and the codec."""

_PILLOWS_NAME = {codec: name for name, codec in NEWER_FORMATS.items()}
_LENGTH_BITS = (9, 13, 18, 30)
_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
"""Width ÷ height of JPEG XL images whose header leaves the width out."""
_FIRST_TURNED = 5  # the first Exif orientation that exchanges width and height


def newer_format(data: Buffer) -> str | None:
    """Return Pillow's name of the format of an AVIF, HEIC or JPEG XL file, from its first bytes; None for others."""
    return _PILLOWS_NAME.get(kind_of(data) or "")


class AvifHeader(Struct, frozen=True):
    """The header of an AVIF, and the decoder that has read it."""

    width: int  # pixels
    height: int  # pixels
    mode: str  # Pillow's name of the channels
    decoder: Any


def avif_header(data: Buffer) -> AvifHeader | None:
    """Return the header of an AVIF; None if Pillow's plugin has to read it, which raises the errors.

    The plugin decodes each picture with all processors, which takes a sixth more of their time. Its
    own settings are kept, where a user has changed them.
    """
    try:
        from PIL import AvifImagePlugin as settings
        from PIL import _avif

        threads = settings.DEFAULT_MAX_THREADS or 1
        decoder = _avif.AvifDecoder(data, settings.DECODE_CODEC_CHOICE, threads)
        (width, height), _, mode, *_ = decoder.get_info()
    # older versions lack a module or a name; damaged files have no documented set of errors
    except Exception:
        return None
    return AvifHeader(width, height, mode, decoder) if mode in ("RGB", "RGBA") else None


def decode_avif(data: Buffer, header: AvifHeader, rows: int | None = None) -> U8 | None:
    """Decode an AVIF as Pillow does, whole; None if Pillow has to do it. With `rows`, it may be read-only."""
    try:
        stored, *_ = header.decoder.get_frame(0)
    except Exception:  # as above
        return None
    pixels = np.frombuffer(stored, np.uint8).reshape(header.height, header.width, -1)
    return pixels.copy() if rows is None else pixels


class _Bits:
    """The bits of a JPEG XL codestream, each byte from its lowest bit on."""

    def __init__(self, data: bytes) -> None:
        self._left = int.from_bytes(data, "little")

    def take(self, count: int) -> int:
        value = self._left & ((1 << count) - 1)
        self._left >>= count
        return value

    def length(self, eighths: int) -> int:
        """Return a width or height of the size header."""
        if eighths:
            return (self.take(5) + 1) * 8
        return self.take(_LENGTH_BITS[self.take(2)]) + 1


def jxl_size(data: Buffer) -> tuple[int, int] | None:
    """Return width and height of a JPEG XL image without a container, as it is decoded; None for others.

    pillow-jxl-plugin decodes the image to find them (ISO/IEC 18181-1, sections A.3 and A.6).
    """
    head = bytes(memoryview(data)[:16])
    if not head.startswith(JXL_CODESTREAM):
        return None
    bits = _Bits(head[2:])
    eighths = bits.take(1)
    height = bits.length(eighths)
    if ratio := bits.take(3):
        over, under = _RATIOS[ratio - 1]
        width = height * over // under
    else:
        width = bits.length(eighths)
    usual = bits.take(1)
    turned = not usual and bits.take(1) and bits.take(3) >= _FIRST_TURNED - 1
    if turned:
        return height, width
    return width, height


def add_format(name: str) -> None:
    """Make Pillow read and write a format, one of `NEWER_FORMATS`.

    Raises:
        MissingPackageError: The package that does it is not installed, or Pillow is too old for
            AVIF.
    """
    if name == "HEIF":
        with needed_by("reading HEIC images", "bushel[heif]"):
            import pillow_heif
        pillow_heif.register_heif_opener()
    elif name == "JXL":
        with needed_by("reading JPEG XL images", "bushel[jxl]"):
            import pillow_jxl  # noqa: F401 - it registers itself
    else:
        from PIL import features

        if "avif" not in features.modules or not features.check("avif"):
            raise MissingPackageError(
                "reading AVIF images needs Pillow 11.3 or newer: pip install -U 'pillow>=11.3'"
            )
