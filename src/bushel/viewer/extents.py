"""The places of a value's bytes, and reading parts of them straight from the container."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import elements_of_window, reader_of, whole_position
from bushel._index.table import MISSING
from bushel.kernels import crc32


@dataclass(frozen=True, slots=True)
class Extent:
    """The place of the bytes of one value."""

    # path of the file that holds the first byte; None if the bytes are in the index
    file: str | None
    offset: int  # offset in the file in bytes, or offset of the compressed block
    length: int  # number of bytes of the value
    crc32: int | None  # recorded CRC-32 of the value, or None
    codec: str  # codec of the stored bytes
    # whether the value is not one piece of the file as it is: it has several, or is compressed
    pieces: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored value of a sample: a field, or an element of a sequence.

    Attributes:
        extent: Where it is.
        size: Size of the value in bytes.
    """

    extent: Extent
    size: int
    _read: Callable[[int, int], bytes] = field(repr=False)

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

    def check(self, data: bytes) -> bool | None:
        """Return whether the whole value `data` has the recorded checksum, or None if no checksum is recorded."""
        if self.extent.crc32 is None:
            return None
        return crc32(data) == self.extent.crc32


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
    reader, absolute = reader_of(dataset), whole_position(dataset, position)
    if (group := reader.group_of(absolute, name)) is None:
        return None
    column, row = group.index.fields[name], int(group.rows[0])
    if column.absent is not None and column.absent[row]:
        return None
    rows: Sequence[int] = range(row, row + 1)
    if column.starts is not None:
        rows = _in_window(
            dataset, position, name, range(int(column.starts[row]), int(column.starts[row + 1]))
        )
    elif column.length[row] == MISSING:
        return None
    shard = reader.shards[group.number]
    homes, _ = group.index.in_one_piece(column)
    values = []
    for at in rows:
        offset, length = int(column.offset[at]), max(int(column.length[at]), 0)
        checksum = None if column.crc32 is None else int(column.crc32[at])
        place = group.index.place(column.file, offset)
        file = None if place.file is None else str(shard.path(place.file))
        pieces = file is not None and bool(homes[at] < 0)
        extent = Extent(file, place.offset, length, checksum, column.codec, pieces)
        values.append(Stored(extent, length, _reading(dataset, group.number, column.file, offset)))
    return values


def _in_window(dataset: Dataset, position: int, name: str, rows: range) -> Sequence[int]:
    """Return the rows of the elements that a window has; all rows if the sample is not a window."""
    elements = elements_of_window(dataset, position).get(name)
    if elements is None:
        return rows
    return [rows[element] for element in elements.tolist()]


def _reading(dataset: Dataset, shard: int, file: int, offset: int) -> Callable[[int, int], bytes]:
    def read(start: int, stop: int) -> bytes:
        return bytes(reader_of(dataset).file(shard, file).read(offset + start, stop - start))

    return read
