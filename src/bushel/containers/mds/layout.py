"""Where the values of the columns of an MDS shard lie."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bushel.containers.mds.described import HINT, Entry
from bushel.errors import FormatError
from bushel.storage import Extents, File, gather

__all__ = ["Layout", "elements_of"]

I64 = npt.NDArray[np.int64]


class Layout:
    """Where the samples of a shard begin, and the sizes of their values.

    Raises:
        FormatError: The table at the start of the shard contradicts its size or index.json.
    """

    def __init__(self, entry: Entry, file: File) -> None:
        count = entry.samples
        self._entry, self._file = entry, file
        head = 4 * (count + 2)
        found = int.from_bytes(file.read(0, 4), "little") if file.size >= 4 else -1
        if found != count or file.size < head:
            message = f"a shard of {count} samples begins with their number and {head - 4} bytes of offsets, "
            raise self._damage(message + f"found {found} in {file.size} bytes", 0)
        ends = np.frombuffer(file.read(4, head - 4), "<u4").astype(np.int64)
        bad = (ends[1:] < ends[:-1]) | (ends[1:] > file.size)
        if ends[0] < head or bad.any():
            row = int(bad.argmax()) if bad.any() else 0
            raise self._damage(f"sample {row} is said to lie at {ends[row]} to {ends[row + 1 : row + 2]}", 4 + 4 * row)
        self._begin, self._span = ends[:-1], np.diff(ends)

    def columns(self) -> Iterator[tuple[int, tuple[I64, I64]]]:
        """Yield the number of each column, and offset and length of its values: two int64[samples]."""
        sizes = [size or None for size in self._entry.column_sizes]  # the original takes 0 for a variable size
        variable = [number for number, size in enumerate(sizes) if size is None]
        head = 4 * len(variable)
        least = head + sum(size or 0 for size in sizes)
        short = self._span < least  # before a table of as many columns is made
        if short.any():
            row = int(short.argmax())
            message = f"sample {row} has {self._span[row]} bytes, but its columns need at least {least}"
            raise self._damage(message, int(self._begin[row]))
        data, _ = gather([self._file], Extents(0, self._begin, np.full(len(self._begin), head, np.int64)))
        lengths = np.zeros((len(sizes), len(self._begin)), np.int64)
        for number, size in enumerate(sizes):
            lengths[number] = size or 0
        if variable:
            lengths[variable] = data.view("<u4").reshape(-1, len(variable)).T
        wrong = lengths.sum(axis=0) != self._span - head
        if wrong.any():
            row = int(wrong.argmax())
            message = f"sample {row}: its columns have {lengths[:, row].sum()} bytes, expected {self._span[row] - head}"
            raise self._damage(message, int(self._begin[row]))
        at = self._begin + head
        for number in range(len(sizes)):
            yield number, (at.copy(), lengths[number])
            at += lengths[number]

    def _damage(self, message: str, offset: int) -> FormatError:
        return FormatError(message, file=self._file.path, offset=offset, hint=HINT)


def elements_of(file: File, offset: I64, length: I64, skip: int, name: str) -> tuple[I64, I64, I64]:
    """Return how many elements are before each list, and offset and length of the elements.

    Raises:
        FormatError: A list is longer than its value.
    """
    head = skip + 4
    short = length < head
    counts = np.zeros(len(offset), np.int64)
    if not short.any():
        data, _ = gather([file], Extents(0, offset + skip, np.full(len(offset), 4, np.int64)))
        counts = data.view("<u4").astype(np.int64)
    wrong = short | (counts > (length - head) // 4)
    if not wrong.any():
        data, _ = gather([file], Extents(0, offset + head, 4 * counts))
        sizes = data.view("<u4").astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        own = before[starts]
        wrong = np.diff(own) != length - head - 4 * counts
        if not wrong.any():
            first = offset + head + 4 * counts
            return starts, np.repeat(first - own[:-1], counts) + before[:-1], sizes
    row = int(wrong.argmax())
    message = f"column {name!r}, sample {row}: its {counts[row]} elements do not fit its {length[row]} bytes"
    raise FormatError(message, file=file.path, offset=int(offset[row]), hint=HINT)
