"""Crops of JPEGs that are read in part, if the index has the positions of their bytes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel._index.elements import Group
from bushel._index.part_plan import warn_of_refused
from bushel._index.table import FieldExtents
from bushel._runtime.arrays import I64, U64, Array
from bushel.codecs.base import codec_error
from bushel.codecs.image import image_reading
from bushel.errors import CodecError
from bushel.jpeg import Box, Tiles, read_crop
from bushel.kernels import ExtentError, JpegError, decode_jpeg_box, jpeg_header, jpeg_seek_ranges
from bushel.spec import KEY
from bushel.storage import Extents, File, read_many

from .reader import Reader


def read_crop_of(reader: Reader, position: int, name: str, box: Box) -> Array:
    """Return a crop of an image. If the index has its segments or seek table, only the needed bytes are read."""
    try:
        left, top, right, bottom = map(operator.index, box)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"box={box!r}: expected left, top, right and bottom, four whole numbers"
        ) from error
    box = left, top, right, bottom
    if (group := reader.group_of(position, name)) is not None:
        try:
            if (pixels := _in_part(reader, group, name, box)) is not None:
                return pixels
        except (CodecError, ExtentError, JpegError):
            pass  # not tiled, or damaged: decoding the whole image finds the error
    [sample] = reader.read(np.array([position], np.int64), {name: None}, decode=True)
    if name not in sample:
        raise KeyError(f"sample {sample[KEY]!r} has no field {name!r}")
    return cut(sample[name], name, box)


def _in_part(reader: Reader, group: Group, name: str, box: Box) -> Array | None:
    """Read and decode a crop of an image from a part of its bytes. `box` is left, top, right and bottom in pixels.

    Returns:
        HxWx3, or HxW of a grey image. None if the index has neither segments nor a seek table that
        fits, if bytes are compared with checksums, if the codec rotates the image, or if the box is
        a whole plain JPEG, which decodes as fast without a seek table.

    Raises:
        CodecError: The bytes do not decode.
        ExtentError: The file has shrunk.
        JpegError: The header is damaged.
        ValueError: The box is not inside the image.
    """
    column, row = group.index.fields[name], int(group.rows[0])
    if reader.verify and column.crc32 is not None:
        return None
    if image_reading(column.codec).exif_rotate or column.length[row] < 0:
        return None
    if column.segments is not None and len(segments := column.segments.of(row)):
        return _of_tiles(reader.file(group.number, column.file), column, row, segments, box)
    if column.seek is None:
        return None
    table = column.seek.of(np.array([row]))[0]
    return _of_states(reader.file(group.number, column.file), column, row, table, box)


def cut(image: Any, name: str, box: Box) -> Array:
    """Return a crop of a decoded image of field `name`.

    Raises:
        TypeError: The value is not an image.
        ValueError: The box is not inside the image.
    """
    left, top, right, bottom = box
    if not isinstance(image, np.ndarray) or image.ndim < 2:
        raise TypeError(f"field {name!r} does not hold images")
    if not (0 <= left < right <= image.shape[1] and 0 <= top < bottom <= image.shape[0]):
        raise ValueError(
            f"the box {box} is not inside the image, which is {image.shape[1]}x{image.shape[0]}"
        )
    return image[top:bottom, left:right].copy()


def _of_tiles(file: File, column: FieldExtents, row: int, segments: I64, box: Box) -> Array:
    start = int(column.offset[row])
    if segments[-1] > column.length[row]:
        raise codec_error("jpg", "a tiled JPEG", "the segments of another one")
    tiles = Tiles(file.read(start, int(segments[0])), segments)
    return read_crop(tiles, box, lambda ranges: _ranges(file, start, ranges))


def _of_states(file: File, column: FieldExtents, row: int, table: U64, box: Box) -> Array | None:
    start, length = int(column.offset[row]), int(column.length[row])
    if not len(table):
        return None
    pixels = None
    if 0 < (head := int(table[0]) >> 32) <= length:
        data = bytearray(length)
        data[:head] = file.read(start, head)
        if box == (0, 0, *jpeg_header(data)[:2]):
            return None
        if (ranges := jpeg_seek_ranges(data, length, table, box)) is not None:
            for (offset, size), part in zip(ranges, _ranges(file, start, ranges), strict=True):
                data[offset : offset + size] = part
            pixels = decode_jpeg_box(data, table, box)
    if pixels is None:
        warn_of_refused(file.path)
    return pixels


def _ranges(file: File, start: int, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    offsets, lengths = np.ascontiguousarray(np.array(ranges, np.int64).T)
    return [part or b"" for part in read_many([file], Extents(0, start + offsets, lengths))]
