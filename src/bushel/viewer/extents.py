"""The places of the bytes of a value, and reading parts of them straight from the container."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.inside import reader_of, whole_position
from bushel.core.dataset.shards import readable
from bushel.core.index.table import INLINE, MISSING
from bushel.kernels import crc32

__all__ = ["Extent", "Stored", "stored_values"]


@dataclass(frozen=True, slots=True)
class Extent:
    """The place of the bytes of one value.

    Attributes:
        file: Path of the file; None if the bytes are in the index.
        offset: Offset in the file in bytes.
        length: Number of bytes there. It is larger than the value if the value is stored in pieces.
        crc32: CRC-32 of the value on record, or None.
        codec: Codec of the stored bytes.
        pieces: Whether the value is stored in pieces.
    """

    file: str | None
    offset: int
    length: int
    crc32: int | None
    codec: str
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
        return self._read(start, stop) if start < stop else b""

    def check(self, data: bytes) -> bool | None:
        """Return whether the whole value `data` has the checksum on record; None if there is none."""
        return None if self.extent.crc32 is None else crc32(data) == self.extent.crc32


def stored_values(dataset: Dataset, position: int, name: str) -> list[Stored] | None:
    """Return the stored values of a field of a sample: one, or one for each element of a sequence.

    Args:
        dataset: The dataset.
        position: Position of the sample.
        name: Name of the field.

    Returns:
        None if the sample lacks the field.

    Raises:
        IndexError: The position is out of range.
        KeyError: The field does not exist.
        FormatError: The shard is damaged there.
    """
    if name not in dataset.spec:
        raise KeyError(f"there is no field {name!r}: the fields are {', '.join(dataset.spec)}")
    reader, absolute = reader_of(dataset), whole_position(dataset, position)
    [group] = readable(reader.shards, reader.starts, reader.groups(np.array([absolute], np.int64)))
    column, row = group.index.columns.get(name), int(group.rows[0])
    if column is None or (column.absent is not None and column.absent[row]):
        return None
    rows = range(row, row + 1)
    if column.starts is not None:
        rows = range(int(column.starts[row]), int(column.starts[row + 1]))
    elif column.length[row] == MISSING:
        return None
    path = None if column.file == INLINE else str(reader.shards[group.number].path(column.file))
    values = []
    for element, at in enumerate(rows):
        offset, length = int(column.offset[at]), max(int(column.length[at]), 0)
        known = None if column.crc32 is None else int(column.crc32[at])
        joined = None
        if column.fragments is not None:
            place = int(np.searchsorted(column.fragments.rows, at))
            if place < len(column.fragments.rows) and column.fragments.rows[place] == at:
                joined = int(column.fragments.length[place])
        extent = Extent(path, offset, length, known, column.codec, joined is not None)
        if joined is None and path is not None:
            read = _reading(dataset, group.number, column.file, offset)
        else:
            number = element if column.starts is not None else None
            read = _slicing(dataset, position, name, number)
        values.append(Stored(extent, length if joined is None else joined, read))
    return values


def _reading(dataset: Dataset, shard: int, file: int, offset: int) -> Callable[[int, int], bytes]:
    def read(start: int, stop: int) -> bytes:
        return bytes(reader_of(dataset).file(shard, file).read(offset + start, stop - start))

    return read


def _slicing(dataset: Dataset, position: int, name: str, element: int | None) -> Callable[[int, int], bytes]:
    """Return a function that reads parts of a value that is not one extent of a file: it is read whole each time."""

    def read(start: int, stop: int) -> bytes:
        value = dataset.read([position], [name], decode=False)[0][name]
        return bytes((value if element is None else value[element])[start:stop])

    return read
