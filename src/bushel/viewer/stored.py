"""The places of a value's bytes, and reading parts of them straight from the container."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._index.table import MISSING
from bushel._kinds import kind_of
from bushel._pictures.pixels import array_pixels
from bushel._pictures.texts import plain_text
from bushel._pictures.thumbnail import (
    Picture,
    arrays_in,
    encoded,
    mosaic,
    shrunk,
    value_pixels,
)
from bushel._runtime.arrays import I64
from bushel.errors import CodecError
from bushel.kernels import crc32

from .shelf import Shown


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored value of a sample: a field, or an element of a sequence."""

    # path of the file that holds the first byte; None if the bytes are in the index
    file: str | None
    offset: int  # offset in the file in bytes, or offset of the compressed block
    size: int  # number of bytes of the value
    crc32: int | None  # recorded CRC-32 of the value, or None
    codec: str  # codec of the stored bytes
    # whether the value is not one piece of the file as it is: it has several, or is compressed
    pieces: bool
    _read: Callable[[int, int], bytes] = field(repr=False, compare=False)

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Read bytes of the value.

        Raises:
            BushelError: The file is damaged or has changed.
            OSError: The file cannot be read.
        """
        stop = self.size if stop is None else min(stop, self.size)
        if start < stop:
            return self._read(start, stop)
        return b""

    def check(self, data: bytes | None) -> str:
        """Compare the whole value `data` with its checksum.

        Returns:
            `matches`, `differs`, `unknown` (no recorded checksum) or `skipped` (data is None: too
            large to read now).
        """
        if data is None:
            return "skipped"
        if self.crc32 is None:
            return "unknown"
        return "matches" if crc32(data) == self.crc32 else "differs"


def stored_values(dataset: Dataset, position: int, name: str) -> list[Stored] | None:
    """Return the stored values of a field of a sample: one, or one for each element of a sequence.

    Returns:
        None if the sample lacks the field.

    Raises:
        IndexError: The position is out of range.
        KeyError: The field does not exist.
        FormatError: The shard is damaged there.
    """
    if name not in dataset.spec:
        raise KeyError(f"unknown field {name!r}: the fields are {', '.join(dataset.spec)}")
    reader = dataset.reader
    if (group := reader.group_of(dataset.selection.at(position), name)) is None:
        return None
    column, row = group.index.fields[name], int(group.rows[0])
    if column.absent is not None and column.absent[row]:
        return None
    rows: Sequence[int] = range(row, row + 1)
    if column.starts is not None:
        rows = range(int(column.starts[row]), int(column.starts[row + 1]))
        if (elements := elements_of(dataset, position).get(name)) is not None:  # of a window
            rows = [rows[element] for element in elements.tolist()]
    elif column.length[row] == MISSING:
        return None
    shard = reader.shards[group.number]
    homes, _ = group.index.in_one_piece(column)
    values = []
    for at in rows:
        offset, length = int(column.offset[at]), max(int(column.length[at]), 0)
        checksum = None if column.crc32 is None else int(column.crc32[at])
        place = group.index.place(column.file, offset)
        file = None if place.file is None else plain_text(str(shard.path(place.file)))
        pieces = file is not None and bool(homes[at] < 0)
        read = _reading(dataset, group.number, column.file, offset)
        values.append(Stored(file, place.offset, length, checksum, column.codec, pieces, read))
    return values


def elements_of(dataset: Dataset, position: int) -> dict[str, I64]:
    """Return the elements of its sample that a window has, of each field that has some; empty if it is not a window.

    Raises:
        IndexError: The position is out of range.
    """
    ranges = dataset.reader.ranges(dataset.selection.all_of([position]))
    return {name: elements.of(0) for name, elements in ranges.items()}


def _reading(dataset: Dataset, shard: int, file: int, offset: int) -> Callable[[int, int], bytes]:
    def read(start: int, stop: int) -> bytes:
        return bytes(dataset.reader.file(shard, file).read(offset + start, stop - start))

    return read


_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class UnsatisfiableRange(ValueError):
    """A range that begins after the end of the value (status 416)."""


def requested_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return start and stop of the range in a Range header; None to send everything.

    Headers that name several ranges, another unit or nonsense are ignored, as RFC 9110 (14.2)
    allows.

    Raises:
        UnsatisfiableRange: The range has no bytes of the value.
    """
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or not (match[1] or match[2]):
        return None
    if len(match[1]) > 18 or len(match[2]) > 18:
        raise UnsatisfiableRange(header)
    if not match[1]:
        length = int(match[2])
        if not length or not size:
            raise UnsatisfiableRange(header)
        return max(0, size - length), size
    start = int(match[1])
    stop = min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and int(match[2]) < start:
        return None
    if start >= size:
        raise UnsatisfiableRange(header)
    return start, stop


def media_type(head: bytes) -> str | None:
    """Return the media type of bytes that a browser shows without running anything in them; None for all others.

    The type is detected from the first bytes, never taken from the dataset. SVG and HTML are never
    returned: they are shown as text. `head` has at least the first 16 bytes.
    """
    return _TYPES.get(kind_of(head) or "")


_TYPES = {
    **{kind: f"image/{kind}" for kind in ("png", "gif", "bmp", "webp", "avif", "heic")},
    **{kind: f"audio/{kind}" for kind in ("wav", "flac", "ogg")},
    **{kind: f"video/{kind}" for kind in ("mp4", "webm")},
    "jpg": "image/jpeg",
    "mp3": "audio/mpeg",
    "m4a": "audio/mp4",
}


SIDES = (96, 160, 256, 384, 512)
"""Sides of thumbnails in pixels. Few different sizes make the cache useful."""

_ON_TILE = 4  # number of elements of a sequence on its tile


def side_for(wanted: int) -> int:
    """Return the smallest side that is at least `wanted`, else the largest."""
    return next((side for side in SIDES if side >= wanted), SIDES[-1])


def picture_of(
    shown: Shown, position: int, name: str, side: int, element: int | None = None
) -> Picture:
    """Return the thumbnail of a value, or of an element of a sequence.

    Raises:
        KeyError: The sample lacks the field.
        CodecError: The value cannot be decoded, or has no picture.
        BushelError: It cannot be read.
    """
    field = shown.field(name)
    values = stored_values(shown.dataset, position, name)
    if values is None:
        raise KeyError(f"this sample lacks the field {name!r}")
    if field.kind == "clip" or field.frames:
        frames = shown.dataset[position, {name: [element or 0]}][name]
        return encoded(shrunk(np.asarray(frames)[0], side))
    if field.sequence:
        if element is not None:
            values = values[element : element + 1] if element >= 0 else []
        if not values:
            raise CodecError(
                "this sequence has no such element" if element is not None else "an empty sequence"
            )
        if len(values) > 1:
            half = max(side // 2, 1)
            count = min(len(values), _ON_TILE)  # at equal distances, with the first
            chosen = [values[number * len(values) // count] for number in range(count)]
            small = [value_pixels(value.codec, value.read(), 2 * half) for value in chosen]
            return encoded(mosaic(small, half, 2))
    [value] = values
    if field.kind == "array" and name in elements_of(shown.dataset, position):
        for array in arrays_in(shown.dataset[position, [name]][name]).values():
            if (drawn := array_pixels(array, side)) is not None:
                return encoded(shrunk(drawn[0], side))
    return encoded(value_pixels(value.codec, value.read(), side))
