"""The scan of a TFRecord file from front to back: where its records and the values of their features are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bushel._runtime.arrays import I64, U8
from bushel._runtime.system import keep_freed_memory
from bushel.containers.base import Report
from bushel.containers.growing import GrowingArrays
from bushel.errors import FormatError
from bushel.kernels import TfrecordScanner
from bushel.storage import File

STEP = 1 << 16
"""Rows that are processed together, so that a large file takes little memory."""

_WINDOW = 4 << 20
_ROWS = 1 << 17  # of the scanner, which are then given to the arrays
_HINT = (
    "the file is damaged, or its writer was stopped: "
    "`bushel verify` names the records, or write it again"
)
_PLACES = ("record", "counts", "offset", "length", "first", "value_offset", "value_length")


class Feature(NamedTuple):
    """A feature of Examples.

    An offset of `-1 - n` stands for position `n` of the copied bytes.
    """

    name: bytes
    kind: int  # 1 bytes, 2 floats, 3 integers
    most: int  # values of the record that has most of them
    copied: bool  # whether values of a record were copied
    rows: int  # number of records that have the feature
    record: I64 | None  # int64[rows], which records these are; None if all have it
    # of bytes: int64[rows], values of each of these records; None if each has one
    counts: I64 | None
    offset: I64  # of numbers: int64[rows], where the packed values are
    length: I64  # of numbers: int64[rows], bytes of the packed values
    first: I64  # of numbers: int64[rows], the first value (the bits of a float)
    value_offset: I64  # of bytes: int64[values], where each value is
    value_length: I64  # of bytes: int64[values], bytes of each value


class Records(NamedTuple):
    """The records of a file, whose arrays are in a temporary file if they are large."""

    offset: I64  # int64[records], where the data of each record are
    length: I64  # int64[records], bytes of data
    copied: U8  # lists of numbers that are not in one piece in the file
    features: tuple[Feature, ...]  # in order of appearance; none if a record is not an Example


class _Rows:
    """The arrays of a scan, which go to a temporary file."""

    def __init__(self) -> None:
        self.arrays, self.records = GrowingArrays(), 0
        self.counted: set[int] = set()  # the features that a record has no or several values of

    def take(self, scanner: TfrecordScanner, share: float) -> None:
        """Add the rows that a scanner has, after which this share of the file is read."""
        # while rows are added, the share of the rows before them
        self.arrays.share = self.arrays.share or share
        offset, length, _, copied, features = scanner.take()
        self.records += len(offset)
        pieces: dict[str, np.ndarray] = {"offset": offset, "length": length, "copied": copied}
        for number, *places in features:
            pieces |= {
                f"{number} {name}": piece for name, piece in zip(_PLACES, places, strict=True)
            }
            if (pieces[f"{number} counts"] != 1).any():
                self.counted.add(number)
        for name, piece in pieces.items():
            if len(piece):
                self.arrays.append(name, piece)
        self.arrays.share = share

    def finish(self, scanner: TfrecordScanner) -> Records:
        """Return the records. Nothing is added afterwards."""
        arrays, none = self.arrays.finish(), np.empty(0, np.int64)
        features = []
        for number, description in enumerate(scanner.features if scanner.other < 0 else ()):
            record, counts, *places = (arrays.get(f"{number} {name}", none) for name in _PLACES)
            features.append(
                Feature(
                    *description,
                    len(record),
                    record if len(record) < self.records else None,
                    counts if number in self.counted else None,
                    *places,
                )
            )
        offset, length = arrays.get("offset", none), arrays.get("length", none)
        return Records(offset, length, arrays.get("copied", none.view(np.uint8)), tuple(features))


def scanned(file: File, scanner: TfrecordScanner, report: Report) -> Records:
    """Scan a whole file.

    Raises:
        FormatError: A record is truncated, or its length does not have its checksum.
        OSError: The temporary file cannot be written.
    """
    keep_freed_memory()
    rows = _Rows()
    for at in ends_of_windows(file, scanner, report):
        if scanner.rows >= _ROWS:
            rows.take(scanner, at / file.size)
    rows.take(scanner, 1)
    return rows.finish(scanner)


def ends_of_windows(file: File, scanner: TfrecordScanner, report: Report) -> Iterator[int]:
    """Feed a whole file, and yield the end of the last record that was read, again and again.

    Raises:
        FormatError: A record is truncated, or its length does not have its checksum.
    """
    at, window = 0, _WINDOW
    while at < file.size:
        used = scanner.feed(file.read(at, min(window, file.size - at)))
        report(used)
        at += used
        if used:
            yield at
        number = f"record after byte {at}" if at else "first record"
        if scanner.problem is not None:
            raise FormatError(f"{scanner.problem} ({number})", file.path, at, _HINT)
        if used:
            window = _WINDOW
            continue
        if at + scanner.need > file.size:
            message = f"the {number} needs {scanner.need} bytes, but {file.size - at} are left"
            raise FormatError(message, file.path, at, _HINT)
        window = max(_WINDOW, scanner.need)
