"""The tables of a bag: where records end (`.bag`, `.idx`), and which records a sample refers to (`refs.bag`).

Everything is decoded for all records at once; no allocation is larger than the size of a file
justifies. docs/format-bag.md has layouts with golden bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack
import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8, U64, Bools
from bushel.errors import FormatError
from bushel.storage import File

_HINT = "the file is truncated or damaged: run `bushel verify` on the dataset"
_INVALID = 255
# number of bytes that follow each first byte of a msgpack unsigned integer
_EXTRA = np.full(256, _INVALID, np.uint8)
_EXTRA[:0x80] = 0
_EXTRA[0xCC:0xD0] = 1, 2, 4, 8
_EMPTY_LIST, _PAIR = 0x90, 0x92


class Table(Struct, frozen=True):
    """Offsets of the records of one bag: record `i` is the bytes `offsets[i]` to `offsets[i + 1]`.

    Attributes:
        offsets: int64[records + 1], ascending from 0.
        generation: `A`, `B` or `C`, as the form of the table shows.
    """

    offsets: I64
    generation: str

    @property
    def records(self) -> int:
        """The number of records."""
        return len(self.offsets) - 1


class Refs(Struct, frozen=True):
    """The records of one field that each sample refers to."""

    first: U64  # uint64[samples], number of the record, or of the first record of a list
    # uint64[samples], number of records of each list; None for a plain field
    count: U64 | None = None

    @property
    def counts(self) -> U64:
        """uint64[samples], number of records of each sample."""
        if self.count is None:
            return np.ones(len(self.first), np.uint64)
        return self.count

    def outside(self, records: int) -> Bools:
        """Return which samples refer to records that a bag with this number of them lacks."""
        most, count = np.uint64(records), self.counts
        return (count > most) | (self.first > most - np.minimum(count, most))


def inline_table(file: File) -> Table:
    """Read the table at the end of a `.bag` of generation A (starts and the last end) or B (ends).

    The last entry is also the offset of the table. They are distinguished as in Granular: a table
    that starts with 0 holds starts.

    Raises:
        FormatError: The table contradicts itself or the size of the file.
    """
    size = file.size
    if size == 0:
        return Table(np.zeros(1, np.int64), "B")
    if size < 8:
        raise FormatError(
            f"{size} bytes cannot be a bag: its last 8 bytes say where its table starts",
            file.path,
            hint=_HINT,
        )
    start = int.from_bytes(file.read(size - 8, 8), "little")
    if start > size - 8 or (size - start) % 8:
        raise FormatError(
            "expected the last entry to be the offset of the "
            f"table in a bag of {size} bytes, found {start}",
            file.path,
            size - 8,
            _HINT,
        )
    entries = np.frombuffer(file.read(start, size - start), "<u8")
    if entries[0] == 0:
        return Table(_ascending(entries, 0, file.path, start), "A")
    return Table(_ascending(entries, 1, file.path, start), "B")


def separate_table(table: File, data: File) -> Table:
    """Read the table of generation C, an `.idx` file of ends. Bytes after the last end are uncommitted records.

    Raises:
        FormatError: The table contradicts itself, or its records are outside the bag.
    """
    if table.size % 8:
        raise FormatError(
            f"expected entries of 8 bytes, found {table.size % 8} bytes after the last complete one",
            table.path,
            table.size - table.size % 8,
            _HINT,
        )
    offsets = _ascending(
        np.frombuffer(table.read(0, table.size), "<u8"), 1, table.path, 0, data.size
    )
    return Table(offsets, "C")


def _ascending(entries: U64, missing: int, path: str, offset: int, limit: int | None = None) -> I64:
    """Check a table of `entries` at `offset`, and return it with the `missing` 0 in front."""
    offsets = np.zeros(len(entries) + missing, np.uint64)
    offsets[missing:] = entries
    descends = offsets[1:] < offsets[:-1]
    if limit is not None:
        descends |= offsets[1:] > np.uint64(limit)
    if descends.any():
        row = int(descends.argmax())
        expected = f"at least {offsets[row]}" + (
            "" if limit is None else f" and at most the bag's {limit} bytes"
        )
        raise FormatError(
            f"record {row} ends at {offsets[row + 1]} where {expected} was expected",
            path,
            offset + 8 * (row + 1 - missing),
            _HINT,
        )
    return offsets.astype(np.int64)


def gapless(offset: I64, length: I64) -> bool:
    """Return whether extents cover a file from its start without gaps, so that a table of ends describes them."""
    if not len(offset):
        return True
    return bool(offset[0] == 0) and np.array_equal(offset[1:], (offset + length)[:-1])


class _Cursors:
    """One reading position in each record of `refs.bag`. All positions advance together."""

    def __init__(self, data: bytes, offsets: I64, path: str) -> None:
        # padded: a truncated last integer is detected after it is read
        self._data = np.zeros(len(data) + 8, np.uint8)
        self._data[: len(data)] = np.frombuffer(data, np.uint8)
        self._at, self._ends, self._path = offsets[:-1].copy(), offsets[1:], path

    def fail(self, wrong: Bools, rows: I64 | slice, expected: str) -> None:
        """Raise for the first wrong row of `rows`, if there is one."""
        if wrong.any():
            sample = int(np.arange(len(self._at))[rows][int(wrong.argmax())])
            raise FormatError(
                f"sample {sample}: expected {expected}",
                self._path,
                int(self._at[sample]),
                _HINT,
            )

    def byte(self, rows: I64 | slice, expected: str) -> U8:
        """Read the next byte of these records."""
        at = self._at[rows]
        self.fail(at >= self._ends[rows], rows, f"{expected}, found the end of the record")
        values = self._data[at]
        self._at[rows] += 1  # `at` may be a view of it
        return values

    def integer(self, rows: I64 | slice) -> U64:
        """Read the next unsigned integer of these records."""
        first = self.byte(rows, "the number of a record")
        extra = _EXTRA[first]
        self.fail(extra == _INVALID, rows, "the number of a record")
        value = first.astype(np.uint64)
        at = self._at[rows]
        for width in (1, 2, 4, 8):
            chosen = np.flatnonzero(extra == width)
            if len(chosen):
                where, number = at[chosen], np.zeros(len(chosen), np.uint64)
                for byte in range(width):
                    number = (number << np.uint64(8)) | self._data[where + byte]
                value[chosen] = number
        self._at[rows] += extra
        self.fail(
            self._at[rows] > self._ends[rows], rows, "a whole number, found the end of the record"
        )
        return value

    def finish(self) -> None:
        """Check that every record was read to its end."""
        self.fail(self._at != self._ends, slice(None), "the end of the record after its last field")


def decode_refs(data: bytes, offsets: I64, sequences: Sequence[bool], path: str) -> list[Refs]:
    """Decode `refs.bag`: each record a msgpack array with one element per field.

    An element is the number of a record, or for a sequence field `[first, count]`, or `[]` for an
    empty list.

    Args:
        data: The records.
        offsets: int64[samples + 1], offsets of the records in `data`.
        sequences: For each field, whether it is a sequence.
        path: Path for error messages.

    Raises:
        FormatError: A record has another form.
    """
    cursors = _Cursors(data, offsets, path)
    everything = slice(None)
    for expected in msgpack.Packer().pack_array_header(len(sequences)):
        expectation = f"an array of {len(sequences)} elements, one per field"
        cursors.fail(cursors.byte(everything, expectation) != expected, everything, expectation)
    columns = []
    for sequence in sequences:
        if not sequence:
            columns.append(Refs(cursors.integer(everything)))
            continue
        head = cursors.byte(everything, "a list")
        cursors.fail((head != _EMPTY_LIST) & (head != _PAIR), everything, "[first, count] or []")
        rows = np.flatnonzero(head == _PAIR)
        first, count = np.zeros(len(head), np.uint64), np.zeros(len(head), np.uint64)
        first[rows] = cursors.integer(rows)
        count[rows] = cursors.integer(rows)
        columns.append(Refs(first, count))
    cursors.finish()
    return columns
