"""The tables of a bag: where records end (`.bag`, `.idx`), and which records a sample refers to (`refs.bag`).

Everything is decoded for all records at once; nothing is allocated that the size of a file does not justify.
Layouts with golden bytes are in docs/format-bag.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgpack
import numpy as np
import numpy.typing as npt

from bushel.core.index.table import I64
from bushel.errors import FormatError
from bushel.storage import File

__all__ = ["Refs", "Table", "decode_refs", "encode_refs", "encode_table", "gapless", "inline_table", "separate_table"]

_HINT = "the file was cut or damaged: run `bushel verify` on the dataset"
_INVALID = 255
_EXTRA = np.full(256, _INVALID, np.uint8)
"""Bytes that follow each first byte of a msgpack unsigned integer."""
_EXTRA[:0x80] = 0
_EXTRA[0xCC:0xD0] = 1, 2, 4, 8
_EMPTY_LIST, _PAIR = 0x90, 0x92
_PACKED_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Table:
    """Where the records of one bag lie: record `i` is the bytes `borders[i]` to `borders[i + 1]`.

    Attributes:
        borders: int64[records + 1], ascending from 0.
        generation: `A`, `B` or `C`, by the table's own form.
    """

    borders: I64
    generation: str

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.borders) - 1


@dataclass(frozen=True, slots=True)
class Refs:
    """Which records of one field each sample refers to.

    Attributes:
        first: uint64[samples], number of the record, or of the first one of a list.
        count: uint64[samples], records of each list; None for a plain field.
    """

    first: npt.NDArray[np.uint64]
    count: npt.NDArray[np.uint64] | None = None


def inline_table(file: File) -> Table:
    """The table at the end of a `.bag` of generation A (starts and the last end) or B (ends).

    The last entry is at once the offset of the table. The two are told apart as Granular does it: a table that
    begins with 0 is one of starts.

    Raises:
        FormatError: The table contradicts itself or the size of the file.
    """
    size = file.size
    if size == 0:
        return Table(np.zeros(1, np.int64), "B")
    if size < 8:
        raise FormatError(
            f"{size} bytes cannot be a bag, whose last 8 bytes say where its table begins", file=file.path, hint=_HINT
        )
    start = int.from_bytes(file.read(size - 8, 8), "little")
    if start > size - 8 or (size - start) % 8:
        raise FormatError(
            f"expected the last entry to be the offset of the table in a bag of {size} bytes, found {start}",
            file=file.path,
            offset=size - 8,
            hint=_HINT,
        )
    entries = np.frombuffer(file.read(start, size - start), "<u8")
    if entries[0] == 0:
        return Table(_ascending(entries, 0, file.path, start), "A")
    return Table(_ascending(entries, 1, file.path, start), "B")


def separate_table(table: File, data: File) -> Table:
    """The table of generation C, an `.idx` file of ends. Bytes behind the last end are records never committed.

    Raises:
        FormatError: The table contradicts itself, or its records are not in the bag.
    """
    if table.size % 8:
        raise FormatError(
            f"expected entries of 8 bytes, found {table.size % 8} bytes behind the last whole one",
            file=table.path,
            offset=table.size - table.size % 8,
            hint=_HINT,
        )
    borders = _ascending(np.frombuffer(table.read(0, table.size), "<u8"), 1, table.path, 0, data.size)
    return Table(borders, "C")


def _ascending(entries: npt.NDArray[np.uint64], missing: int, path: str, offset: int, limit: int | None = None) -> I64:
    """Check a table of `entries` that begins at `offset`, and put the `missing` 0 before it."""
    borders = np.zeros(len(entries) + missing, np.uint64)
    borders[missing:] = entries
    descends = borders[1:] < borders[:-1]
    if limit is not None:
        descends |= borders[1:] > np.uint64(limit)
    if descends.any():
        row = int(descends.argmax())
        expected = f"at least {borders[row]}" + ("" if limit is None else f" and at most the bag's {limit} bytes")
        raise FormatError(
            f"record {row} ends at {borders[row + 1]} where {expected} was expected",
            file=path,
            offset=offset + 8 * (row + 1 - missing),
            hint=_HINT,
        )
    return borders.astype(np.int64)


def gapless(offset: I64, length: I64) -> bool:
    """Whether extents cover a file from its start, one after another, so that a table of ends can tell them apart."""
    if not len(offset):
        return True
    return bool(offset[0] == 0) and np.array_equal(offset[1:], (offset + length)[:-1])


def encode_table(ends: I64, generation: str) -> bytes:
    """The table of a bag whose records end at `ends`.

    A bag of generation B with an empty record gets a table of generation A: where a table of ends begins with 0,
    readers take it for one of starts, and they tell the two apart file by file.
    """
    lengths_are_positive = bool((np.diff(ends, prepend=0) > 0).all())
    starts = generation == "A" or (generation == "B" and not lengths_are_positive)
    return (bytes(8) if starts else b"") + ends.astype("<u8").tobytes()


class _Cursors:
    """One reading position in each record of `refs.bag`, which all move on together."""

    def __init__(self, data: bytes, borders: I64, path: str) -> None:
        self._data = np.zeros(len(data) + 8, np.uint8)  # an integer cut short by the last border is noticed after it
        self._data[: len(data)] = np.frombuffer(data, np.uint8)
        self._at, self._ends, self._path = borders[:-1].copy(), borders[1:], path

    def fail(self, wrong: npt.NDArray[np.bool_], rows: I64 | slice, expected: str) -> None:
        """Raise for the first of `rows` that is wrong, if any is."""
        if wrong.any():
            sample = int(np.arange(len(self._at))[rows][int(wrong.argmax())])
            raise FormatError(
                f"sample {sample}: expected {expected}", file=self._path, offset=int(self._at[sample]), hint=_HINT
            )

    def byte(self, rows: I64 | slice, expected: str) -> npt.NDArray[np.uint8]:
        """The next byte of these records."""
        at = self._at[rows]
        self.fail(at >= self._ends[rows], rows, f"{expected}, found the end of the record")
        found = self._data[at]
        self._at[rows] += 1  # `at` may be a view of it
        return found

    def integer(self, rows: I64 | slice) -> npt.NDArray[np.uint64]:
        """The next unsigned integer of these records."""
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
        self.fail(self._at[rows] > self._ends[rows], rows, "a whole number, found the end of the record")
        return value

    def finish(self) -> None:
        """Make sure that nothing is left."""
        self.fail(self._at != self._ends, slice(None), "the end of the record behind its last field")


def decode_refs(data: bytes, borders: I64, sequences: Sequence[bool], path: str) -> list[Refs]:
    """Decode `refs.bag`: each record a msgpack array with one element per field.

    That is the number of a record, or for a sequence field `[first, count]`, or `[]` for an empty list.

    Args:
        data: The records.
        borders: int64[samples + 1], where they lie in `data`.
        sequences: Of each field, whether it is a sequence.
        path: For errors.

    Raises:
        FormatError: A record is something else.
    """
    cursors = _Cursors(data, borders, path)
    everything = slice(None)
    for expected in msgpack.Packer().pack_array_header(len(sequences)):
        wanted = f"an array of {len(sequences)} elements, one per field"
        cursors.fail(cursors.byte(everything, wanted) != expected, everything, wanted)
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


def encode_refs(starts: Sequence[Sequence[int] | None], samples: int) -> Iterator[tuple[bytes, I64]]:
    """The records of `refs.bag` for bags whose records lie in the order of the samples.

    Args:
        starts: Of each field in the order of their names: for a sequence field the number of each sample's first
            record, samples + 1 of them; None for a plain field.
        samples: Number of samples.

    Yields:
        data: Records, one after another.
        lengths: int64, of each of them.
    """
    pack = msgpack.Packer().pack
    for begin in range(0, samples, _PACKED_AT_ONCE):
        end = min(begin + _PACKED_AT_ONCE, samples)
        columns: list[Iterable[object]] = [
            range(begin, end)
            if first is None
            else [(low, high - low) if high > low else () for low, high in pairwise(first[begin : end + 1])]
            for first in starts
        ]
        records = [pack(refs) for refs in zip(*columns, strict=True)]
        yield b"".join(records), np.fromiter(map(len, records), np.int64, len(records))
