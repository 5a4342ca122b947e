"""The scan of a TFRecord file from front to back: where its records and the values of their features are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

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
    "the file is damaged, or its writer was stopped: `bushel verify` names the records, or"
    " write it again"
)
_PLACES = ("offset", "length", "first", "value_offset", "value_length")


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


class _Found(Struct):
    """The rows of one feature so far."""

    rows: int = 0
    gaps: bool = False  # whether a record lacks it
    counted: bool = False  # whether a record has not exactly one value


class _Rows(Struct):
    """The arrays of a scan, which go to a temporary file."""

    arrays: GrowingArrays = msgspec.field(default_factory=GrowingArrays)
    found: dict[int, _Found] = {}
    records: int = 0

    def take(self, scanner: TfrecordScanner, share: float) -> None:
        """Add the rows that a scanner has, after which this share of the file is read."""
        # while rows are added, the share of the rows before them
        self.arrays.share = self.arrays.share or share
        offset, length, _, copied, features = scanner.take()
        before, self.records = self.records, self.records + len(offset)
        for name, piece in (("offset", offset), ("length", length)):
            self.arrays.append(name, piece)
        self.arrays.append("copied", copied)
        for number, record, count, *rest in features:
            rows_of_feature = self.found.setdefault(number, _Found())
            if rows_of_feature.rows < before or len(record) < len(offset):
                self._with_gaps(number, rows_of_feature)
            if not rows_of_feature.counted and (count != 1).any():
                rows_of_feature.counted = True
                for start in range(0, rows_of_feature.rows, STEP):
                    self.arrays.append(
                        f"{number} counts",
                        np.ones(min(STEP, rows_of_feature.rows - start), np.int64),
                    )
            rows_of_feature.rows += len(record)
            if rows_of_feature.gaps:
                self.arrays.append(f"{number} record", record)
            if rows_of_feature.counted:
                self.arrays.append(f"{number} counts", count)
            for name, piece in zip(_PLACES, rest, strict=True):
                if len(piece):
                    self.arrays.append(f"{number} {name}", piece)
        self.arrays.share = share

    def _with_gaps(self, number: int, feature: _Found) -> None:
        """Store which records have a feature that all records had until now."""
        if not feature.gaps:
            feature.gaps = True
            for start in range(0, feature.rows, STEP):
                self.arrays.append(
                    f"{number} record",
                    np.arange(start, min(start + STEP, feature.rows), dtype=np.int64),
                )

    def finish(self, scanner: TfrecordScanner) -> Records:
        """Return the records. Nothing is added afterwards."""
        for number, rows_of_feature in self.found.items():
            if rows_of_feature.rows < self.records:
                self._with_gaps(number, rows_of_feature)
        arrays, none = self.arrays.finish(), np.empty(0, np.int64)
        features = []
        for number, (name, kind, most, copied) in enumerate(
            scanner.features if scanner.other < 0 else ()
        ):
            rows_of_feature = self.found[number]
            record, counts = (arrays.get(f"{number} {part}") for part in ("record", "counts"))
            places = [arrays.get(f"{number} {part}", none) for part in _PLACES]
            features.append(
                Feature(name, kind, most, copied, rows_of_feature.rows, record, counts, *places)
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
    try:
        for at in ends_of_windows(file, scanner, report):
            if scanner.rows >= _ROWS:
                rows.take(scanner, at / file.size)
        rows.take(scanner, 1)
        return rows.finish(scanner)
    except BaseException:
        rows.arrays.close()
        raise


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
