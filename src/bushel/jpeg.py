"""JPEGs: decode, encode, read headers; tiled ones, whose crops can be decoded without the rest (docs/tiled-jpeg.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from bushel import kernels
from bushel._runtime.arrays import I64, U8, refuse_bools
from bushel.codecs.base import Buffer, bad_jpeg, codec_error, found_bytes

__all__ = [
    "Box",
    "Tiles",
    "baseline",
    "decode",
    "encode",
    "is_tiled",
    "read_crop",
    "read_header",
    "tile",
]

Box = tuple[int, int, int, int]
"""Left, top, right and bottom, in pixels; right and bottom are exclusive."""


@contextmanager
def _expecting(expected: str, value: object) -> Iterator[None]:
    """Turn an error of the kernels into the error that they expected something else than a value."""
    try:
        yield
    except kernels.JpegError as error:
        raise bad_jpeg(value, error, expected) from error


def decode(
    data: Buffer,
    *,
    exif_rotate: bool = False,
    allow_truncated: bool = False,
    fast: bool = False,
    grey: bool = False,
) -> U8:
    """Decode a JPEG.

    Args:
        data: A JPEG.
        exif_rotate: Apply the Exif orientation.
        allow_truncated: Accept damage that only makes libjpeg warn, such as a premature end:
            missing parts are grey, or repeat the rows above.
        fast: Use the fast inverse DCT and no smoothing of chroma. Levels differ by a few.
        grey: Decode only the luma of a colour JPEG.

    Returns:
        uint8[height, width, 3], RGB, or uint8[height, width] of a grey JPEG or with `grey`.

    Raises:
        CodecError: The data are not a JPEG, or a damaged one.

    Examples:
        >>> bushel.jpeg.decode(Path("photo.jpg").read_bytes()).shape
        (400, 500, 3)
    """
    with _expecting("a complete JPEG", data):
        return kernels.decode_jpeg(
            data, orient=exif_rotate, tolerant=allow_truncated, fast=fast, grey=grey
        )


def encode(
    image: U8,
    quality: int = 95,
    sampling: tuple[int, int] = (2, 2),
    *,
    fast: bool = False,
) -> bytes:
    """Encode an image as a baseline JPEG.

    Args:
        image: uint8[height, width], or uint8[height, width, 3], RGB.
        quality: 1 to 100.
        sampling: Horizontal and vertical sampling factor of the luma: (2, 2) is 4:2:0, (1, 1) is
            4:4:4.
        fast: Use the fast DCT.

    Raises:
        CodecError: A side has no pixel, or more than 65,500.
        TypeError: The array has another dtype or shape.
        ValueError: `quality` or `sampling` is out of range.

    Examples:
        >>> data = bushel.jpeg.encode(np.zeros((8, 16), np.uint8))
        >>> bushel.jpeg.decode(data).shape
        (8, 16)
    """
    refuse_bools(quality=quality)
    with _expecting("an image of 1 to 65,500 pixels a side", image):
        return kernels.encode_jpeg(np.ascontiguousarray(image), quality, sampling, fast=fast)


def read_header(data: Buffer) -> kernels.JpegHeader:
    """Return width, height, components (1 grey, 3 colour, 4 CMYK) and Exif orientation (1 to 8) of a JPEG.

    The bytes up to the first scan suffice.

    Raises:
        CodecError: The data are not a JPEG, or its header is damaged.

    Examples:
        >>> header = bushel.jpeg.read_header(Path("photo.jpg").read_bytes())
        >>> header.width, header.height, header.components, header.orientation
        (500, 400, 3, 1)
    """
    with _expecting("a JPEG", data):
        return kernels.jpeg_header(data)


def tile(data: Buffer, *, metadata: bool = False) -> bytes:
    """Rewrite a JPEG as a tiled one, without loss: its coefficients, and so its pixels, do not change.

    Every decoder can read the result. It is baseline (or, with 16-bit quantisation, extended
    sequential) with optimised Huffman tables. A progressive file becomes a few percent larger and
    decodes about twice as fast.

    Args:
        data: A JPEG.
        metadata: Keep Exif, colour profile, comments and other application segments. By default
            only an orientation other than upright is kept.

    Returns:
        The tiled JPEG; the same bytes if it is tiled already.

    Raises:
        CodecError: The data are not a JPEG, or a damaged one.

    Examples:
        >>> photo = Path("photo.jpg").read_bytes()
        >>> decode = bushel.codecs.get_codec("jpg").decode
        >>> np.array_equal(decode(bushel.jpeg.tile(photo)), decode(photo))
        True
    """
    with _expecting("a complete JPEG to tile", data):
        if kernels.is_tiled_jpeg(data):
            return bytes(data)
        return kernels.tile_jpeg(data, metadata=metadata)


def baseline(data: Buffer) -> bytes:
    """Rewrite a progressive JPEG as a baseline one, without loss: its coefficients, and so its pixels, do not change.

    The result is a few percent larger. Crops of it decode 1.7 times as fast, and it can have a seek
    table. With 16-bit quantisation it is extended sequential.

    Args:
        data: A JPEG.

    Returns:
        The JPEG with all of its metadata; the same bytes if it is neither progressive nor
        arithmetic-coded.

    Raises:
        CodecError: The data are not a JPEG, or a damaged one.

    Examples:
        >>> photo = Path("photo.jpg").read_bytes()
        >>> bushel.jpeg.baseline(photo) == photo  # it is a baseline JPEG
        True
    """
    with _expecting("a complete JPEG", data):
        written = kernels.baseline_jpeg(data)
        return bytes(data) if written is None else written


def is_tiled(data: Buffer) -> bool:
    """Return whether a JPEG is tiled already, as `tile` would do it.

    Raises:
        CodecError: The data are not a JPEG.

    Examples:
        >>> photo = Path("photo.jpg").read_bytes()
        >>> bushel.jpeg.is_tiled(photo), bushel.jpeg.is_tiled(bushel.jpeg.tile(photo))
        (False, True)
    """
    with _expecting("a JPEG", data):
        return kernels.is_tiled_jpeg(data)


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """The header of a tiled JPEG and the offsets of its segments: enough to read a crop from a part of its bytes.

    Attributes:
        head: The bytes before the first segment.
        segments: int64[segments + 1]: the offset of each segment, and the offset that another one
            would have.

    Examples:
        >>> from bushel.jpeg import Tiles, tile
        >>> data = tile(Path("photo.jpg").read_bytes())
        >>> tiles = Tiles.of(data)
        >>> sum(length for _, length in tiles.ranges((0, 0, 64, 32))) < len(data) / 4
        True
    """

    head: bytes
    segments: I64

    @classmethod
    def of(cls, data: Buffer) -> Tiles:
        """Find the segments of a JPEG.

        Raises:
            CodecError: The data are not a JPEG, or the JPEG is not tiled.
        """
        with _expecting("a tiled JPEG", data):
            segments = kernels.jpeg_segment_offsets(data)
        if len(segments) == 0:
            raise codec_error("jpg", "a tiled JPEG (bushel.jpeg.tile makes one)", found_bytes(data))
        return cls(bytes(data[: int(segments[0])]), segments)

    def ranges(self, box: Box) -> list[tuple[int, int]]:
        """Return the ranges of bytes that a crop needs beside the head: (offset, length), ascending and not adjacent.

        Raises:
            CodecError: The header is damaged, or the segments do not belong to it.
            ValueError: The box is not inside the image.
        """
        window = kernels.jpeg_segment_window(self.head, box)
        if window is None:
            return [(int(self.segments[0]), int(self.segments[-1] - self.segments[0]))]
        first, last, top, bottom, across = window
        if len(self.segments) <= (bottom - 1) * across + last:
            raise codec_error(
                "jpg", "the segments of this JPEG", f"{max(len(self.segments) - 1, 0)} segments"
            )
        runs: list[tuple[int, int]] = []
        for row in range(top, bottom):
            begin, end = self.segments[[row * across + first, row * across + last]].tolist()
            if runs and sum(runs[-1]) == begin:
                begin = runs.pop()[0]
            runs.append((begin, end - begin))
        return runs

    def splice(self, box: Box, parts: Sequence[Buffer]) -> tuple[bytes, int, int]:
        """Make a JPEG of a crop from the bytes of its `ranges`.

        Returns:
            The JPEG, which may show a little more than the crop, and the column and row at which it
            begins.

        Raises:
            CodecError: The header is damaged, or the segments do not belong to it.
            ValueError: The parts do not match the requested box, or the box is not inside the
                image.
        """
        ranges = self.ranges(box)
        if [len(part) for part in parts] != [length for _, length in ranges]:
            raise ValueError(
                "the parts do not match the requested box: "
                "read the byte ranges that `ranges` returns"
            )
        data = bytearray(int(self.segments[-1]))
        data[: len(self.head)] = self.head
        for (offset, length), part in zip(ranges, parts, strict=True):
            data[offset : offset + length] = part
        try:
            return kernels.splice_jpeg(data, box, self.segments) or (bytes(data), 0, 0)
        except ValueError as error:  # `ranges` has checked the box
            raise codec_error("jpg", "the segments of this JPEG", str(error)) from error


def read_crop(
    tiles: Tiles, box: Box, fetch: Callable[[Sequence[tuple[int, int]]], Sequence[Buffer]]
) -> U8:
    """Read and decode a crop of a tiled JPEG from any storage.

    Args:
        tiles: The header and segments of the JPEG.
        box: The crop.
        fetch: A function that returns the bytes of some ranges of the JPEG, each (offset, length).

    Returns:
        uint8[height, width, 3], or uint8[height, width] for a grey image: the same pixels as in the
        whole image.

    Raises:
        CodecError: The fetched bytes are damaged.
        ValueError: The box is not inside the image.

    Examples:
        >>> from bushel.jpeg import Tiles, read_crop, tile
        >>> data = tile(Path("photo.jpg").read_bytes())
        >>> def fetch(ranges):  # from any storage
        ...     return [data[offset : offset + length] for offset, length in ranges]
        >>> read_crop(Tiles.of(data), (0, 0, 64, 32), fetch).shape
        (32, 64, 3)
    """
    data, left, top = tiles.splice(box, fetch(tiles.ranges(box)))
    with _expecting("a whole crop of a tiled JPEG", data):
        image = kernels.decode_jpeg(data)
    return np.ascontiguousarray(image[box[1] - top : box[3] - top, box[0] - left : box[2] - left])
