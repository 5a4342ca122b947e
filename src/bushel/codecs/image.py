"""Still images: kernels decode and encode JPEGs, Pillow everything else.

The name of a codec determines how an image is written. An image is read by its content: large
collections usually contain some PNG that is named .jpg. Only the formats below are tried, so stored
bytes cannot reach Pillow's other parsers.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field

from bushel._kinds import JPEG_START, PNG, WEBP_FORM
from bushel._runtime.arrays import Array
from bushel.errors import CodecError, MissingPackageError, SpecError
from bushel.kernels import JpegError, decode_jpeg, encode_jpeg

from .base import (
    Buffer,
    Codec,
    Factory,
    bad_jpeg,
    codec_error,
    describe,
    found_bytes,
    reason,
    refused,
    refusing,
)

if TYPE_CHECKING:
    from PIL import Image

_READ_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
_JPEG_PIXELS = 65535 * 65535
# horizontal and vertical chroma subsampling factors
_SAMPLING = {"444": (1, 1), "422": (2, 1), "420": (2, 2)}


_MAX_IMAGE_PIXELS = 1024 * 1024 * 1024 // 4 // 3
"""Pillow's own limit, for JPEGs that are decoded before Pillow is imported."""


class ImageReading(Struct, frozen=True):
    """Options for decoding images."""

    # turn and mirror an image by its Exif orientation; TIFFs are always turned
    exif_rotate: bool = False
    allow_truncated: bool = (
        # decode damaged JPEGs as far as possible; missing parts are grey, or repeat the rows above
        False
    )

    def __or__(self, other: ImageReading) -> ImageReading:
        """Return the union of the options."""
        return ImageReading(
            self.exif_rotate or other.exif_rotate, self.allow_truncated or other.allow_truncated
        )


class Seekable(Struct, frozen=True, eq=False):
    """A stored image with its seek table.

    Attributes:
        data: The stored bytes.
        table: uint64[words] (docs/seek-tables.md).
    """

    data: Buffer
    table: Any


class _Format(Struct, frozen=True):
    """The way in which a codec writes an image."""

    pillow: str  # pillow's name of the file format
    # numbers of channels it can store: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha
    channels: tuple[int, ...]
    deep: bool = False  # whether it can store 16-bit grey, too
    options: Mapping[str, Any] = field(default_factory=dict)  # arguments for Pillow's `save`


def _pixels(image: Image.Image) -> Array:
    """Return a loaded image as an array: uint8, or uint16, int32 or float32 where the file is deeper."""
    mode = image.mode
    # so that the shape does not depend on the colours of the palette
    if image.format == "GIF" and mode == "L":
        mode = "P"
    if mode in ("L", "LA", "RGB", "RGBA"):
        return np.array(image)
    if mode == "1":
        return np.array(image.convert("L"))
    if mode in ("P", "PA"):
        return np.array(image.convert("RGBA" if image.has_transparency_data else "RGB"))
    if mode.startswith("I;16") or (mode == "I" and image.format in ("PNG", "PPM")):
        return np.array(image).astype(np.uint16)
    if mode in ("I", "F"):
        return np.array(image)
    return np.array(image.convert({"La": "LA", "RGBa": "RGBA"}.get(mode, "RGB")))


def _limit() -> int | None:
    """Return the largest number of pixels that is decoded; None for any."""
    # a user who sets another limit has imported Pillow; another thread may be importing it just now
    return getattr(sys.modules.get("PIL.Image"), "MAX_IMAGE_PIXELS", _MAX_IMAGE_PIXELS)


def _check_pixels(codec: str, pixels: int) -> None:
    limit = _limit()
    # Pillow itself only warns up to twice its limit.
    if limit is not None and pixels > limit:
        raise codec_error(
            codec, f"at most PIL.Image.MAX_IMAGE_PIXELS = {limit} pixels", f"{pixels} pixels"
        )


def _decode_jpeg(codec: str, reading: ImageReading, data: Buffer) -> Array:
    limit = _limit()
    try:
        return decode_jpeg(
            data,
            orient=reading.exif_rotate,
            tolerant=reading.allow_truncated,
            max_pixels=_JPEG_PIXELS if limit is None else limit,
        )
    except JpegError as error:
        raise bad_jpeg(data, error, codec=codec) from error


def _header_and_decoder(data: Buffer) -> tuple[Any, Any]:
    """Return the header of a PNG, WebP or AVIF and the function that decodes it; None if Pillow has to do it."""
    if data[:8] == PNG:
        from .png import decode_png, png_header

        return png_header(data), decode_png
    if data[8:12] == WEBP_FORM:
        from .webp import decode_webp, webp_header

        return webp_header(data), decode_webp
    from .newer_images import avif_header, decode_avif, newer_format

    if newer_format(data) == "AVIF":
        return avif_header(data), decode_avif
    return None, None


def header_size(data: Buffer) -> tuple[int, int] | None:
    """Return width and height of a PNG, WebP or AVIF as stored, by its header; None if Pillow has to read it."""
    header, _ = _header_and_decoder(data)
    return None if header is None else (header.width, header.height)


def image_reading(name: str) -> ImageReading:
    """Return the reading options of a codec, given its name with parameters."""
    return _without_words(name.partition("(")[2].removesuffix(")"))[1]


def _without_words(arguments: str) -> tuple[str, ImageReading]:
    """Split parameters into those for writing and the reading options after them."""
    words, chosen = arguments.split(","), {}
    while words and words[-1] in ImageReading.__struct_fields__:
        chosen[words.pop()] = True
    return ",".join(words), ImageReading(**chosen)


def decode_image(
    data: Buffer, reading: ImageReading, codec: str = "image", rows: int | None = None
) -> Array:
    """Decode an image of any format that Bushel reads.

    With `rows`, at least this number of rows from the top is decoded; of an upright PNG or WebP
    exactly this number, and the others are not checked.

    Raises:
        CodecError: The bytes are not an image, or are damaged, or larger than Pillow allows.
    """
    if bytes(data[:2]) == JPEG_START:
        return _decode_jpeg(codec, reading, data)
    header, decode = _header_and_decoder(data)
    if header is not None and not reading.exif_rotate:
        _check_pixels(codec, header.width * header.height)
        decoded: Array | None = decode(data, header, rows)
        if decoded is not None:
            return decoded
    from PIL import ImageOps

    try:
        with open_image(data) as image:
            _check_pixels(codec, image.width * image.height)
            image.load()
            if reading.exif_rotate:
                ImageOps.exif_transpose(image, in_place=True)
            return _pixels(image)
    except (CodecError, MissingPackageError):
        raise
    # Pillow documents no set of errors for damaged files: OSError, SyntaxError, ValueError,
    # struct.error, EOFError …
    except Exception as error:
        raise codec_error(
            codec,
            f"a complete image ({', '.join((*_READ_FORMATS, 'AVIF', 'HEIC', 'JXL'))})",
            f"{found_bytes(data)} ({error})".removesuffix(" ()"),
        ) from error


def open_image(data: Buffer) -> Image.Image:
    """Return an image of a format that Bushel reads, as Pillow opens it: its header is read.

    Raises:
        MissingPackageError: Its format needs a package that is not installed.
        Exception: An error of Pillow for a damaged file; it documents no set of errors.
    """
    from PIL import Image, UnidentifiedImageError

    from .newer_images import add_format, newer_format

    newer = newer_format(data)
    if newer is not None:
        add_format(newer)
    try:
        return Image.open(io.BytesIO(data), formats=_READ_FORMATS if newer is None else (newer,))
    except UnidentifiedImageError:  # whose message is an address
        raise UnidentifiedImageError from None


def as_pixels(value: Any, *, exif_rotate: bool = False) -> Any:
    """Return the pixels of a Pillow image as an array, as decoding its file would; other values unchanged.

    With `exif_rotate`, a Pillow image is rotated and mirrored by its Exif orientation.
    """
    if "PIL.Image" not in sys.modules:  # no Pillow image exists without Pillow's module
        return value
    from PIL import Image, ImageOps

    if not isinstance(value, Image.Image):
        return value
    return _pixels(ImageOps.exif_transpose(value) if exif_rotate else value)


def _check(codec: str, target: _Format, value: Any) -> Array:
    """Return the image as an array HxW or HxWxC that the format can store."""
    array = np.asarray(as_pixels(value))
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    channels = 1 if array.ndim == 2 else 0
    if array.ndim == 3:
        channels = array.shape[2]
    deep = target.deep and channels == 1 and array.dtype == np.uint16
    if channels not in target.channels or not (array.dtype == np.uint8 or deep) or 0 in array.shape:
        shapes = " or ".join("HxW" if count == 1 else f"HxWx{count}" for count in target.channels)
        kinds = "uint8 (or uint16 HxW)" if target.deep else "uint8"
        description = describe(as_pixels(value))
        if isinstance(value, str | os.PathLike):
            description += (
                " (give the bytes of the file, as Path(...).read_bytes(), "
                "or let bushel.pack read a pathlib.Path)"
            )
        raise codec_error(
            codec, f"a {kinds} array of shape {shapes}, or such a Pillow image", description
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _encode(codec: str, target: _Format, value: Any) -> bytes:
    from PIL import Image

    from .newer_images import NEWER_FORMATS, add_format

    array = _check(codec, target, value)
    image = Image.fromarray(array)
    if codec == "pbm":
        if not np.isin(array, (0, 255)).all():
            raise refused(codec, "pixels of 0 and 255 only", value)
        image = image.convert("1", dither=Image.Dither.NONE)
    if target.pillow in NEWER_FORMATS:
        add_format(target.pillow)
    stream = io.BytesIO()
    errors = OSError, ValueError, SystemError, OverflowError
    with refusing(codec, f"an image that {target.pillow} can hold", value, *errors):
        image.save(stream, target.pillow, **target.options)
    return stream.getvalue()


def _encode_jpeg(codec: str, quality: int, sampling: tuple[int, int], value: Any) -> bytes:
    array = _check(codec, _JPEG, value)
    try:
        return encode_jpeg(np.ascontiguousarray(array), quality, sampling)
    except (JpegError, ValueError) as error:
        raise refused(codec, "an image that JPEG can hold", value, reason(error)) from error


def _by_pillow(
    pillow: str,
    channels: tuple[int, ...],
    *,
    deep: bool = False,
    lossless: Mapping[str, Any] | None = None,
    usual: int | None = None,
) -> Factory:
    """Return the factory of a codec whose images Pillow writes.

    Args:
        pillow: Pillow's name of the format.
        channels: Numbers of channels that it can store.
        deep: Whether it can store 16-bit grey, too.
        lossless: Options for lossless images of a format that has lossy ones, too: `webp` and
            `webp(80)`.
        usual: The usual quality of a format that is always lossy.
    """

    def factory(name: str, arguments: str) -> Codec:
        rest, reading = _without_words(arguments)
        if rest and lossless is None and usual is None:
            raise SpecError(
                f"codec {name!r} takes no parameters but 'exif_rotate' "
                f"and 'allow_truncated': write {name.partition('(')[0]!r}"
            )
        quality = _quality(name, rest) if rest else usual
        options = lossless or {} if quality is None else {"quality": quality}
        target = _Format(pillow, channels, deep, options)
        return Codec(
            name, partial(_encode, name, target), partial(decode_image, reading=reading, codec=name)
        )

    return factory


def _quality(name: str, text: str) -> int:
    if not re.fullmatch("[1-9][0-9]?|100", text):
        raise SpecError(
            f"codec {name!r}: the quality must be a number from 1 to "
            "100, as in 'jpg(90)' or 'webp(80)'. In lists, 'jpg(path)' "
            "reads the files that a field names, 'jpg(url)' also URLs"
        )
    return int(text)


def _jpeg(name: str, arguments: str) -> Codec:
    """Return codec `jpg` (quality 95, 4:2:0), `jpg(90)` or `jpg(90,444)`, each with reading options after it."""
    rest, reading = _without_words(arguments)
    quality, _, sampling = rest.partition(",")
    if sampling and sampling not in _SAMPLING:
        raise SpecError(
            f"codec {name!r}: chroma subsampling must be 444, 422 or 420, as in 'jpg(90,444)'"
        )
    level = _quality(name, quality or "95")
    encode = partial(_encode_jpeg, name, level, _SAMPLING[sampling or "420"])
    return Codec(name, encode, partial(decode_image, reading=reading, codec=name))


_JPEG = _Format("JPEG", (1, 3))
_PNG = _by_pillow("PNG", (1, 2, 3, 4), deep=True)
_TIFF = _by_pillow("TIFF", (1, 3, 4), deep=True)

FACTORIES: Mapping[str, Factory] = {
    "jpg": _jpeg,
    "jpeg": _jpeg,
    "png": _PNG,
    "webp": _by_pillow("WEBP", (1, 3, 4), lossless={"lossless": True, "exact": True}),
    "ppm": _by_pillow("PPM", (3,)),
    "pgm": _by_pillow("PPM", (1,), deep=True),
    "pbm": _by_pillow("PPM", (1,)),
    "bmp": _by_pillow("BMP", (1, 3)),
    "tif": _TIFF,
    "tiff": _TIFF,
    "gif": _by_pillow("GIF", (1, 3)),
    "avif": _by_pillow("AVIF", (3, 4), usual=80),
    "heic": _by_pillow("HEIF", (3, 4), usual=80),
    "jxl": _by_pillow("JXL", (1, 3, 4), lossless={"lossless": True}),
    "image": _PNG,
}
