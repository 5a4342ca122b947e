"""PNG, decoded in half the time that Pillow takes: inflated at once, and unfiltered by a kernel.

Pillow reads rare images (interlaced rows, 16-bit colour, animations) and damaged ones, and raises
their errors.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bushel._kinds import PNG
from bushel._runtime.arrays import U8
from bushel.kernels import colour_png, unfilter_png

from .base import Buffer

try:
    from isal.isal_zlib import IsalError, decompressobj  # the extra `isal`
except ImportError:
    from zlib import decompressobj
    from zlib import error as IsalError


_HEADER = struct.Struct(">I4sIIBBBBBI")
_GREY, _RGB, _PALETTE, _GREY_ALPHA, _RGBA = 0, 2, 3, 4, 6
_CHANNELS = {_GREY: 1, _RGB: 3, _PALETTE: 1, _GREY_ALPHA: 2, _RGBA: 4}
_DEPTHS = {
    _GREY: (1, 2, 4, 8, 16),
    _RGB: (8,),
    _PALETTE: (1, 2, 4, 8),
    _GREY_ALPHA: (8,),
    _RGBA: (8,),
}
"""Bits of a sample that are decoded here, by the type of colour."""


_TEXT = (b"tEXt", b"zTXt", b"iTXt")
_TURNING = (b"Raw profile type ", b"XML:com.adobe.xmp")
"""Names of texts in which Pillow looks for an Exif orientation, beside the chunk `eXIf`."""


class PngHeader(Struct, frozen=True):
    """The chunk `IHDR` of an image that `decode_png` may decode."""

    width: int  # pixels
    height: int  # pixels
    depth: int  # bits of a sample, or of an index of the palette
    colour: int  # the type of colour: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return (self.width * self.depth * _CHANNELS[self.colour] + 7) // 8


def png_header(data: Buffer) -> PngHeader | None:
    """Return the header of a PNG; None if it is damaged, or if Pillow has to read the image."""
    view = memoryview(data)
    if view.nbytes < 8 + _HEADER.size or view[:8] != PNG:
        return None
    length, name, width, height, depth, colour, *methods, crc = _HEADER.unpack_from(view, 8)
    is_intact = (length, name) == (13, b"IHDR") and crc == zlib.crc32(view[12:29])
    if not (is_intact and width and height) or any(methods) or depth not in _DEPTHS.get(colour, ()):
        return None
    return PngHeader(width, height, depth, colour)


def may_be_turned(data: Buffer) -> bool:
    """Return whether a PNG may have an Exif orientation: it has Exif data or XMP, or its chunks are damaged."""
    view, at = memoryview(data), 8
    while at + 12 <= len(view):
        length, name = struct.unpack_from(">I4s", view, at)
        if name == b"IEND":
            return False
        if name == b"eXIf" or (
            name in _TEXT and bytes(view[at + 8 : at + 25]).startswith(_TURNING)
        ):
            return True
        at += 12 + length
    return True


def decode_png(
    data: Buffer, header: PngHeader, rows: int | None = None
) -> npt.NDArray[np.uint8 | np.uint16] | None:
    """Decode a PNG as Pillow does; None if Pillow has to do it.

    `rows` are decoded from the top; pixels below them are not checked.

    Returns:
        uint8 H×W of grey, H×W×2 with alpha, H×W×3 or H×W×4 of colours and palettes; uint16 H×W of
        16-bit grey.
    """
    if (chunks := _chunks(memoryview(data))) is None:
        return None
    height = header.height if rows is None else max(1, min(rows, header.height))
    decoded_header = PngHeader(header.width, height, header.depth, header.colour)
    size = (header.row + 1) * height
    inflater = decompressobj()
    try:
        filtered = inflater.decompress(chunks.data, size)
        if len(filtered) != size or (height == header.height and not _ends(inflater)):
            return None
        pixel = max(1, header.depth * _CHANNELS[header.colour] // 8)
        return _pixels(unfilter_png(filtered, height, header.row, pixel), decoded_header, chunks)
    except (IsalError, ValueError):
        return None


def _ends(inflater: Any) -> bool:
    """Return whether the stream ends after the inflated bytes."""
    return inflater.eof or (not inflater.decompress(inflater.unconsumed_tail, 1) and inflater.eof)


class _Chunks(Struct, frozen=True):
    data: Buffer
    palette: bytes
    alpha: bytes | None


def _chunks(view: memoryview) -> _Chunks | None:
    """Return the contents of an image's chunks; None if Pillow has to read them."""
    at, parts, tables = 8 + 25, list[memoryview](), dict[bytes, bytes]()
    while at + 12 <= len(view):
        length, name = struct.unpack_from(">I4s", view, at)
        end = at + 12 + length
        if end > len(view):
            return None
        content = view[at + 8 : end - 4]
        if name == b"IDAT":
            parts.append(content)
        elif name == b"IEND":
            if not parts:
                return None
            return _Chunks(b"".join(parts), tables.get(b"PLTE", b""), tables.get(b"tRNS"))
        elif name in (b"PLTE", b"tRNS"):
            crc = int.from_bytes(view[end - 4 : end])
            if parts or crc != zlib.crc32(view[at + 4 : end - 4]):
                return None
            tables[name] = bytes(content)
        elif name in (b"acTL", b"fcTL") or not name[0] & 0x20:
            # an animation, or a critical chunk of another standard
            return None
        at = end
    return None


def _pixels(
    rows: U8, header: PngHeader, chunks: _Chunks
) -> npt.NDArray[np.uint8 | np.uint16] | None:
    shape = (header.height, header.width)
    if header.depth == 16:
        return rows.view(">u2").astype(np.uint16).reshape(shape)
    channels = _CHANNELS[header.colour]
    if channels > 1:
        return rows.reshape(*shape, channels)
    if header.depth == 8:
        values = rows.reshape(shape)
    else:
        bits = np.unpackbits(rows.reshape(header.height, -1), axis=1)[
            :, : header.width * header.depth
        ]
        weights = (1 << np.arange(header.depth)[::-1]).astype(np.uint8)
        if header.depth == 1:
            values = bits
        else:
            values = bits.reshape(*shape, header.depth) @ weights
    if header.colour == _GREY:
        if header.depth == 8:
            return values
        return values * np.uint8(255 // ((1 << header.depth) - 1))
    return _coloured(values, chunks)


def _coloured(indices: U8, chunks: _Chunks) -> U8 | None:
    """Return the colours of indices: RGB, or RGB and alpha if the palette has any."""
    colours = np.frombuffer(chunks.palette, np.uint8)
    count = len(colours) // 3
    if len(colours) % 3 or not 0 < count <= 256:
        return None
    table = np.full((count, 4), 255, np.uint8)
    table[:, :3] = colours.reshape(-1, 3)
    if chunks.alpha is not None:
        alpha = np.frombuffer(chunks.alpha[:count], np.uint8)
        table[: len(alpha), 3] = alpha
    channels = 3 if chunks.alpha is None else 4
    return colour_png(indices.ravel(), table.reshape(-1), channels).reshape(
        *indices.shape, channels
    )
