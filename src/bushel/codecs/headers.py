"""Facts in the headers of stored images and clips, for columns of the index. Pixels are not decoded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bushel.errors import MissingPackageError

from .base import Buffer
from .image import open_image
from .video import open_clip, pyav, read_packets

_ORIENTATION = 0x0112
_CHANNELS = {"1": 1, "L": 1, "LA": 2, "La": 2, "RGB": 3, "RGBA": 4, "RGBa": 4, "I": 1, "F": 1}
"""Channels of the decoded image by Pillow's modes. Others, except palettes and 16-bit grey, become RGB."""


class ImageHeader(Struct, frozen=True):
    """The header of an image."""

    format: str  # `jpeg`, `png`, `webp`, `bmp`, `gif`, `tiff` or `ppm`, `avif`, `heif` or `jxl`
    width: int  # pixels, as stored: before an orientation turns the image
    height: int  # pixels, as stored
    channels: int  # channels of the decoded image: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
    orientation: int  # 1 to 8, as in Exif


class ClipHeader(Struct, frozen=True):
    """The facts in the header of a clip."""

    frames: int | None  # number of frames; None if it cannot be determined from the packets
    duration: float | None  # seconds; None if unknown
    fps: float | None  # average number of frames per second; None if unknown


def image_header(data: Buffer) -> ImageHeader | None:
    """Read the header of an image with Pillow. Return None if its format is not one that Bushel reads.

    Raises:
        MissingPackageError: Its format needs a package that is not installed.
    """
    try:
        with open_image(data) as image:
            mode = "P" if image.format == "GIF" else image.mode
            if mode in ("P", "PA"):
                channels = 4 if image.has_transparency_data else 3
            else:
                channels = 1 if mode.startswith("I;16") else _CHANNELS.get(mode, 3)
            orientation = image.getexif().get(_ORIENTATION, 1)
            is_valid = isinstance(orientation, int) and 1 <= orientation <= 8
            width, height = image.size
            name = (image.format or "").lower()
            return ImageHeader(name, width, height, channels, orientation if is_valid else 1)
    except MissingPackageError:
        raise
    except Exception:
        # Pillow documents no set of errors for damaged files; reading the image will report them
        return None


def clip_header(codec: str, data: Buffer) -> ClipHeader | None:
    """Read the header and the packets of a clip with PyAV. Return None if it is damaged.

    Raises:
        SpecError: PyAV is not installed.
    """
    pyav(codec)
    try:
        with open_clip(codec, data) as source:
            stream = source.streams.video[0]
            length: Any = None
            if stream.duration is not None and stream.time_base:
                length = float(stream.duration * stream.time_base)
            elif source.duration is not None:
                length = source.duration / 1e6
            rate = float(stream.average_rate) if stream.average_rate else None
            table, _ = read_packets(source)
            return ClipHeader(None if table is None else len(table), length, rate)
    except Exception:  # CodecError, and PyAV's own errors: reading the clip will report them
        return None
