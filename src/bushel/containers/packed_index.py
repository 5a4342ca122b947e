"""The index of a file of packed samples (`packed_map`), from one pass over its records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bushel import kernels
from bushel.containers.packed_map import locate
from bushel.core.index.table import MISSING, Column, Fragments, Keys
from bushel.errors import FormatError
from bushel.spec import Field, Spec

__all__ = ["Record", "index_records"]


@dataclass(frozen=True, slots=True)
class Record:
    """A record that has been read, to be taken apart.

    Attributes:
        payload: Its bytes.
        offset: Where they begin in the file; of a record in pieces, where its raw bytes begin.
        raw: Length of the raw bytes of a record in pieces, else None.
    """

    payload: bytes
    offset: int
    raw: int | None = None


class _Rows:
    """The values of one field that have been found so far."""

    def __init__(self, sequence: bool) -> None:
        self.sequence = sequence
        self.sample, self.offset, self.length, self.crc32 = array("q"), array("q"), array("q"), array("I")
        self.having = array("q")
        self.fragments: list[tuple[int, int, int]] = []

    def add(self, sample: int, record: Record, start: int, length: int, *, checksums: bool) -> None:
        if record.raw is not None:
            self.fragments.append((len(self.offset), start, length))
        self.sample.append(sample)
        self.offset.append(record.offset if record.raw is not None else record.offset + start)
        self.length.append(length if record.raw is None else record.raw)
        if checksums:
            self.crc32.append(kernels.crc32(memoryview(record.payload)[start : start + length]))

    def column(self, field: Field, samples: int, *, checksums: bool) -> Column:
        """The finished column of `samples` samples."""
        rows = np.array(self.sample, np.int64)
        offset, length = np.array(self.offset, np.int64), np.array(self.length, np.int64)
        crc32 = np.array(self.crc32, np.uint32) if checksums else None
        pieces = np.array(self.fragments, np.int64).reshape(-1, 3)
        if self.sequence:
            starts = np.zeros(samples + 1, np.int64)
            np.cumsum(np.bincount(rows, minlength=samples), out=starts[1:])
            absent = np.ones(samples, np.bool_)
            absent[np.array(self.having, np.int64)] = False
            fragments = _fragments(pieces[:, 0], pieces)
            return Column(
                field, field.codec, 0, offset, length, crc32, starts, absent if absent.any() else None, fragments
            )
        all_offset, all_length = np.zeros(samples, np.int64), np.full(samples, MISSING, np.int64)
        all_offset[rows], all_length[rows] = offset, length
        all_crc32 = None
        if crc32 is not None:
            all_crc32 = np.zeros(samples, np.uint32)
            all_crc32[rows] = crc32
        fragments = _fragments(rows[pieces[:, 0]], pieces)
        return Column(field, field.codec, 0, all_offset, all_length, all_crc32, fragments=fragments)


def index_records(
    records: Iterable[Record], spec: Spec | None, *, file: str, checksums: bool
) -> tuple[dict[str, Column], Keys | None]:
    """The columns and keys of a file of packed samples, whose values lie in file 0 of the shard.

    Args:
        records: All records in the order of samples.
        spec: Types of the fields; a field that it does not name is `bytes`, one that no sample has is missing in all.
        file: Path for error messages.
        checksums: Whether to compute the CRC-32 of every value.

    Raises:
        FormatError: A record is not a packed sample, or does not agree with the others.
    """
    table = _Table(spec or {}, checksums=checksums)
    for record in records:
        try:
            table.add(record)
        except FormatError as error:
            raise FormatError(
                f"sample {table.samples}: {error.message}",
                file=file,
                offset=record.offset + (error.offset or 0),
                hint=f"every record should be a map as Bushel packs it; run `bushel verify {file}`",
            ) from error
    return table.columns(), Keys.of(table.keys) if table.keys else None


class _Table:
    """The fields and keys that have been found so far."""

    def __init__(self, spec: Spec, *, checksums: bool) -> None:
        self.spec, self.checksums = spec, checksums
        self.fields = {name: _Rows(field.sequence) for name, field in spec.items()}
        self.keys: list[str] = []
        self.samples = 0

    def add(self, record: Record) -> None:
        """Take one sample apart.

        Raises:
            FormatError: It is no packed sample, or does not agree with those before.
        """
        key, found = locate(record.payload)
        if (key is None) != (len(self.keys) == 0) and self.samples:
            raise FormatError("some samples have a key and others have none", offset=0)
        if key is not None:
            self.keys.append(key)
        for name, where in found.items():
            rows = self.fields.get(name)
            if rows is None:
                rows = self.fields[name] = _Rows(isinstance(where, list))
            if rows.sequence != isinstance(where, list):
                kinds = ("a list", "one value") if rows.sequence else ("one value", "a list")
                raise FormatError(f"field {name!r} should be {kinds[0]} and is {kinds[1]} here", offset=0)
            rows.having.append(self.samples)
            for start, length in where if isinstance(where, list) else (where,):
                rows.add(self.samples, record, start, length, checksums=self.checksums)
        self.samples += 1

    def columns(self) -> dict[str, Column]:
        """The finished columns."""
        return {
            name: rows.column(
                self.spec.get(name) or Field(name, "bytes", rows.sequence), self.samples, checksums=self.checksums
            )
            for name, rows in self.fields.items()
        }


def _fragments(rows: npt.NDArray[np.int64], pieces: npt.NDArray[np.int64]) -> Fragments | None:
    return Fragments(rows.copy(), pieces[:, 1].copy(), pieces[:, 2].copy()) if len(rows) else None
