"""The index of a file whose records are packed samples (`packed_map`): the extent of every value."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from bushel import kernels
from bushel._index.table import MISSING, FieldExtents, Keys
from bushel._runtime.arrays import offsets_of
from bushel._runtime.public import command
from bushel._runtime.structs import Struct
from bushel.containers.packed_map import locate
from bushel.errors import CorruptError, FormatError
from bushel.spec import Field, Spec


class Record(Struct, frozen=True):
    """A record that has been read."""

    payload: bytes
    offset: int  # where its bytes are in the file
    length: int = 0  # length of the bytes of a damaged record in the file
    # the error of a record that does not match its checksum: its fields cannot be read; else None
    damage: CorruptError | None = None


class PackedFields(Struct, frozen=True):
    """The fields of packed samples."""

    fields: dict[str, FieldExtents]
    keys: Keys | None  # the keys, or None if samples have none
    # the samples whose record is damaged, each with the record, which is the value of all of their
    # fields
    damaged: list[tuple[int, Record]]


def index_records(
    records: Iterable[Record], spec: Spec | None, *, file: str, checksums: bool, number: int = 0
) -> PackedFields:
    """Return the fields and keys of a file of packed samples.

    Args:
        records: All records in the order of samples.
        spec: Types of the fields. A field that it does not name is `bytes`; one that no sample has
            is missing in all.
        file: Path for error messages.
        checksums: Whether to compute the CRC-32 of every value.
        number: Number of the file in the shard.

    Raises:
        FormatError: A record is not a packed sample, or does not agree with the others.
        CorruptError: All records are damaged.
    """
    table = _Table(spec or {}, checksums=checksums)
    damaged: list[tuple[int, Record]] = []
    for record in records:
        if record.damage is not None:
            damaged.append((table.samples, record))
            table.add_placeholder(f"at-{record.offset}")
            continue
        try:
            table.add(record)
        except FormatError as error:
            raise FormatError(
                f"sample {table.samples}: {error.message}",
                file=file,
                offset=record.offset + (error.offset or 0),
                hint="every record should be a map as Bushel packs it; run "
                + command("verify", file),
            ) from error
    fields = table.fields_in(number)
    if damaged and not fields:
        [(_, first), *_] = damaged
        raise first.damage or FormatError("all records are damaged", file=file)
    if damaged:
        fields = {name: _with_damage(extents, damaged) for name, extents in fields.items()}
    return PackedFields(fields, Keys.of(table.keys) if table.keyed else None, damaged)


class _Table:
    """The fields and keys found so far."""

    def __init__(self, spec: Spec, *, checksums: bool) -> None:
        self.spec, self.checksums = spec, checksums
        self.fields = {name: _Rows(field.sequence) for name, field in spec.items()}
        self.keys: list[str] = []
        self.keyed: bool | None = None
        self.samples = 0

    def add_placeholder(self, key: str) -> None:
        """Add a sample without known values."""
        self.keys.append(key)
        self.samples += 1

    def add(self, record: Record) -> None:
        """Add the values of one sample.

        Raises:
            FormatError: The record is not a packed sample, or contradicts those before it.
        """
        key, places = locate(record.payload)
        if self.keyed is None:
            self.keyed = key is not None
        if self.keyed != (key is not None):
            raise FormatError("some samples have a key and others do not", offset=0)
        if key is not None:
            self.keys.append(key)
        for name, where in places.items():
            rows = self.fields.get(name)
            if rows is None:
                rows = self.fields[name] = _Rows(isinstance(where, list))
            if rows.sequence != isinstance(where, list):
                if rows.sequence:
                    kinds = "a list", "one value"
                else:
                    kinds = "one value", "a list"
                raise FormatError(
                    f"field {name!r} should be {kinds[0]}, but is {kinds[1]} here", offset=0
                )
            rows.having.append(self.samples)
            for start, length in where if isinstance(where, list) else (where,):
                rows.add(self.samples, record, start, length, checksums=self.checksums)
        self.samples += 1

    def fields_in(self, file: int) -> dict[str, FieldExtents]:
        """Return the finished fields, whose values are in a file of this number."""
        return {
            name: rows.extents(
                self.spec.get(name) or Field(name, "bytes", rows.sequence),
                file,
                self.samples,
                checksums=self.checksums,
            )
            for name, rows in self.fields.items()
        }


class _Rows:
    """The values of one field found so far."""

    def __init__(self, sequence: bool) -> None:
        self.sequence = sequence
        self.sample, self.offset, self.length, self.crc32 = (
            array("q"),
            array("q"),
            array("q"),
            array("I"),
        )
        self.having = array("q")

    def add(self, sample: int, record: Record, start: int, length: int, *, checksums: bool) -> None:
        self.sample.append(sample)
        self.offset.append(record.offset + start)
        self.length.append(length)
        if checksums:
            self.crc32.append(kernels.crc32(memoryview(record.payload)[start : start + length]))

    def extents(self, field: Field, file: int, samples: int, *, checksums: bool) -> FieldExtents:
        """Return the finished extents of `samples` samples."""
        rows = np.array(self.sample, np.int64)
        offset, length = np.array(self.offset, np.int64), np.array(self.length, np.int64)
        crc32 = np.array(self.crc32, np.uint32) if checksums else None
        if self.sequence:
            starts = offsets_of(np.bincount(rows, minlength=samples))
            absent = np.ones(samples, np.bool_)
            absent[np.array(self.having, np.int64)] = False
            codec, lacking = field.codec, absent if absent.any() else None
            return FieldExtents(field, codec, file, offset, length, crc32, starts, lacking)
        all_offset, all_length = np.zeros(samples, np.int64), np.full(samples, MISSING, np.int64)
        all_offset[rows], all_length[rows] = offset, length
        all_crc32 = None
        if crc32 is not None:
            all_crc32 = np.zeros(samples, np.uint32)
            all_crc32[rows] = crc32
        return FieldExtents(field, field.codec, file, all_offset, all_length, all_crc32)


def _with_damage(column: FieldExtents, damaged: list[tuple[int, Record]]) -> FieldExtents:
    """Return extents in which the value of these samples is their whole record."""
    samples = np.array([sample for sample, _ in damaged], np.int64)
    offset = np.array([record.offset for _, record in damaged], np.int64)
    length = np.array([record.length for _, record in damaged], np.int64)
    crc32 = np.array(
        [record.damage.expected or 0 if record.damage else 0 for _, record in damaged], np.uint32
    )
    starts, absent = column.starts, column.absent
    # where the column's own rows and the added ones go
    old_rows, new_rows = np.arange(column.rows), samples
    if starts is None:
        # a plain field has a row of these samples already: it is replaced
        old_rows = np.setdiff1d(old_rows, samples)
    else:
        added = np.searchsorted(samples, np.arange(len(starts)))
        new_rows = starts[samples] + np.arange(len(samples))
        old_rows += np.searchsorted(starts[samples], old_rows, side="right")
        starts = starts + added
    if absent is not None:
        absent = absent.copy()
        absent[samples] = False
    total = len(old_rows) + len(new_rows)

    def merged(values: npt.NDArray[Any], others: npt.NDArray[Any]) -> npt.NDArray[Any]:
        joint = np.empty(total, values.dtype)
        joint[old_rows] = values if column.starts is not None else values[old_rows]
        joint[new_rows] = others
        return joint

    return replace(
        column,
        offset=merged(column.offset, offset),
        length=merged(column.length, length),
        crc32=None if column.crc32 is None else merged(column.crc32, crc32),
        starts=starts,
        absent=absent,
    )
