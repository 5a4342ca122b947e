"""Samples that begin with the sizes of their values, after a table of offsets, as MDS and LitData have them.

All numbers are u32 and little-endian. The table is the number of samples, where each begins, and
where the last one ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bushel._runtime.arrays import I64, offsets_of
from bushel.errors import FormatError
from bushel.storage import Extents, File, gather

_HINT = "the file is damaged or does not belong to its index.json: fetch or write both again"


def offset_table(file: File, count: int) -> tuple[I64, I64]:
    """Return where each sample of a file begins, and its bytes: two int64[count].

    Raises:
        FormatError: The table contradicts `count` or the size of the file.
    """
    head = 4 * (count + 2)
    if file.size >= 4:
        stored_count = int.from_bytes(file.read(0, 4), "little")
    else:
        stored_count = -1
    if stored_count != count or file.size < head:
        message = (
            f"a file of {count} samples begins with their number and {head - 4} bytes of offsets, "
        )
        raise _damage(file, message + f"found {stored_count} in {file.size} bytes", 0)
    ends = np.frombuffer(file.read(4, head - 4), "<u4").astype(np.int64)
    check_ends(file, ends, head, 4)
    return ends[:-1], np.diff(ends)


def check_ends(file: File, ends: I64, first: int, at: int) -> None:
    """Refuse offsets of samples that are not in order, or not inside the file.

    Args:
        file: The file.
        ends: int64[samples + 1], where each sample begins, and where the last one ends.
        first: Where the first sample begins at the earliest.
        at: Where the offsets are, for messages.

    Raises:
        FormatError: They are not in order, or not inside the file.
    """
    bad = (ends[1:] < ends[:-1]) | (ends[1:] > file.size)
    if ends[0] < first or bad.any():
        row = int(bad.argmax()) if bad.any() else 0
        raise _damage(
            file,
            f"sample {row} is said to be at {ends[row]} to {ends[row + 1 : row + 2]}",
            at + 4 * row,
        )


def values_of(
    file: File, begin: I64, span: I64, sizes: Sequence[int | None]
) -> Iterator[tuple[I64, I64]]:
    """Yield offset and length of the values of each field: two int64[samples].

    Args:
        file: The file.
        begin: int64[samples], where each sample begins.
        span: int64[samples], its bytes.
        sizes: Size of each field's values, None if each sample begins with it.

    Raises:
        FormatError: A sample does not have as many bytes as its values.
    """
    variable = [number for number, size in enumerate(sizes) if size is None]
    head = 4 * len(variable)
    least = head + sum(size or 0 for size in sizes)
    short = span < least  # before a table of as many fields is made
    if short.any():
        row = int(short.argmax())
        message = f"sample {row} has {span[row]} bytes, but its fields need at least {least}"
        raise _damage(file, message, int(begin[row]))
    lengths = np.zeros((len(sizes), len(begin)), np.int64)
    for number, size in enumerate(sizes):
        lengths[number] = size or 0
    if variable:
        data, _ = gather([file], Extents(0, begin, np.full(len(begin), head, np.int64)))
        lengths[variable] = data.view("<u4").reshape(-1, len(variable)).T
    wrong = lengths.sum(axis=0) != span - head
    if wrong.any():
        row = int(wrong.argmax())
        message = (
            f"sample {row}: its fields have {lengths[:, row].sum()} bytes, expected"
            f" {span[row] - head}"
        )
        raise _damage(file, message, int(begin[row]))
    at = begin + head
    for number in range(len(sizes)):
        yield at.copy(), lengths[number]
        at += lengths[number]


def _damage(file: File, message: str, offset: int) -> FormatError:
    return FormatError(message, file=file.path, offset=offset, hint=_HINT)


def elements_of(file: File, offset: I64, length: I64, skip: int, name: str) -> tuple[I64, I64, I64]:
    """Return how many elements are before each list, and offset and length of the elements.

    A list is their number and their sizes, both u32, and then the elements.

    Args:
        file: The file.
        offset: int64[samples], where each value begins.
        length: int64[samples], bytes of each value.
        skip: Bytes of a value before the number of elements.
        name: The field, for messages.

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
        starts = offsets_of(counts)
        before = offsets_of(sizes)
        bytes_before = before[starts]
        wrong = np.diff(bytes_before) != length - head - 4 * counts
        if not wrong.any():
            first = offset + head + 4 * counts
            return starts, np.repeat(first - bytes_before[:-1], counts) + before[:-1], sizes
    row = int(wrong.argmax())
    message = (
        f"field {name!r}, sample {row}: its {counts[row]} elements do not fit its"
        f" {length[row]} bytes"
    )
    raise FormatError(message, file=file.path, offset=int(offset[row]), hint=_HINT)
