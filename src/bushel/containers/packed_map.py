"""Samples of several fields in containers whose records are plain bytes (ffrecord, recordio).

A record is one msgpack map: `__key__` first (str, or nil in a dataset without keys), then a bin per
field, or an array of bins for a sequence field. A field that a sample lacks has no entry. Any
msgpack library reads such records; Bushel only needs the extents of the values, which
`index_records` finds in a whole file.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel import kernels
from bushel._index.table import MISSING, FieldExtents, Keys
from bushel._runtime.arrays import offsets_of
from bushel._runtime.public import command
from bushel.errors import CorruptError, FormatError, SpecError
from bushel.spec import KEY, Field, Spec

from .base import Stored

if TYPE_CHECKING:
    from typing_extensions import Buffer


_KEY_ENTRY = bytes([0xA0 | len(KEY)]) + KEY.encode()
_NIL = b"\xc0"
_LIMIT = 2**32 - 1


class Packed(Struct, frozen=True):
    """A sample encoded as a record."""

    pieces: list[Buffer]  # the record's bytes, in pieces so that values are not copied
    size: int  # size of the record in bytes
    # for each value: field name, offset in the record, bytes; elements of a list follow each other
    values: list[tuple[str, int, Buffer]]


def encode(key: str | None, fields: Iterable[Field], values: Mapping[str, Stored]) -> Packed:
    """Encode one sample as a record.

    Args:
        key: The sample's key, or None in a dataset without keys.
        fields: All fields of the dataset, in order.
        values: Stored bytes of the fields that the sample has.

    Raises:
        SpecError: A value is longer than 4 GiB, the limit of msgpack.
    """
    present = [field for field in fields if field.name in values]
    head = _head(0x80, 16, b"", b"\xde", b"\xdf", len(present) + 1) + _KEY_ENTRY
    head += _NIL if key is None else _text(key)
    pieces: list[Buffer] = []
    placed: list[tuple[str, int, Buffer]] = []
    at = 0
    for field in present:
        stored = values[field.name]
        head += _name(field.name)
        elements: Sequence[Buffer] = [cast("Buffer", stored)]
        if field.sequence:
            elements = list(cast("Iterable[Buffer]", stored))
            head += _head(0x90, 16, b"", b"\xdc", b"\xdd", len(elements))
        for element in elements:
            if type(element) is bytes:
                size = len(element)
            else:
                size = memoryview(element).nbytes
            if size > _LIMIT:
                raise SpecError(
                    f"field {field.name!r}: {size} bytes exceed the limit of msgpack, {_LIMIT}"
                )
            head += _head(0, 0, b"\xc4", b"\xc5", b"\xc6", size)
            placed.append((field.name, at + len(head), element))
            pieces += [head, element]
            at += len(head) + size
            head = b""
    if head:
        pieces.append(head)
    return Packed(pieces, at + len(head), placed)


def is_packed_map(record: Buffer) -> bool:
    """Return whether a record starts like one of `encode`. The first 16 bytes suffice."""
    view = memoryview(record)
    width = {0xDE: 3, 0xDF: 5}.get(view[0], 1) if len(view) else 0
    is_map = len(view) > width and (view[0] & 0xF0 == 0x80 or width > 1)
    return is_map and bytes(view[width : width + len(_KEY_ENTRY)]) == _KEY_ENTRY


def locate(record: Buffer) -> tuple[str | None, dict[str, tuple[int, int] | list[tuple[int, int]]]]:
    """Find the values of a record without decoding them.

    Returns:
        The key, and for each field (offset, length) in the record; for a sequence field, a list of
        these.

    Raises:
        FormatError: The record was not made by `encode`. The offset in the error counts from the
            start of the record.
    """
    cursor = _Cursor(memoryview(record).cast("B"))
    entries = cursor.count(0x80, 16, 0xDE, "a map")
    if entries == 0 or cursor.text() != KEY:
        raise FormatError(f"expected a packed sample to start with {KEY!r}", offset=0)
    key = None if cursor.skip_nil() else cursor.text()
    values: dict[str, tuple[int, int] | list[tuple[int, int]]] = {}
    for _ in range(entries - 1):
        name = cursor.name()
        if name in values or name == KEY:
            raise FormatError(f"the field {name!r} appears twice in one sample", offset=cursor.at)
        if cursor.peek() in (0xC4, 0xC5, 0xC6):
            values[name] = cursor.extent()
        else:
            elements = cursor.count(0x90, 16, 0xDC, "bytes or an array of bytes")
            values[name] = [cursor.extent() for _ in range(elements)]
    if cursor.at != len(cursor.view):
        raise FormatError(
            f"{len(cursor.view) - cursor.at} bytes after the end of a packed sample",
            offset=cursor.at,
        )
    return key, values


class _Cursor:
    """Reads the few msgpack types that packed samples consist of."""

    def __init__(self, view: memoryview) -> None:
        self.view, self.at = view, 0

    def peek(self) -> int:
        if self.at >= len(self.view):
            raise FormatError("a packed sample is truncated", offset=self.at)
        return self.view[self.at]

    def skip_nil(self) -> bool:
        if self.peek() != _NIL[0]:
            return False
        self.at += 1
        return True

    def number(self, width: int) -> int:
        self.at += 1
        raw = self.view[self.at : self.at + width]
        self.at += width
        if len(raw) != width:
            raise FormatError("a packed sample is truncated", offset=len(self.view))
        return int.from_bytes(raw, "big")

    def count(self, fixed: int, below: int, wide: int, what: str) -> int:
        """Return the number of entries of a map or an array. Each entry needs at least one byte."""
        kind = self.peek()
        if fixed <= kind < fixed + below:
            self.at += 1
            entries = kind - fixed
        elif kind in (wide, wide + 1):
            entries = self.number(2 if kind == wide else 4)
        else:
            raise FormatError(
                f"expected {what}, found the msgpack type 0x{kind:02x}", offset=self.at
            )
        if entries > len(self.view) - self.at:
            raise FormatError("a packed sample is truncated", offset=len(self.view))
        return entries

    def extent(self) -> tuple[int, int]:
        kind = self.peek()
        if not 0xC4 <= kind <= 0xC6:
            raise FormatError(
                f"expected bytes, found the msgpack type 0x{kind:02x}", offset=self.at
            )
        return self.take(self.number(1 << (kind - 0xC4)))

    def text(self) -> str:
        kind = self.peek()
        if 0xA0 <= kind < 0xC0:
            self.at += 1
            start, length = self.take(kind - 0xA0)
        elif 0xD9 <= kind <= 0xDB:
            start, length = self.take(self.number(1 << (kind - 0xD9)))
        else:
            raise FormatError(f"expected text, found the msgpack type 0x{kind:02x}", offset=self.at)
        return bytes(self.view[start : start + length]).decode("utf-8", "surrogateescape")

    def name(self) -> str:
        """Return the name of a field. It must be UTF-8, unlike a key: no writer makes another."""
        start = self.at
        text = self.text()
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise FormatError(
                    f"the name of a field is not UTF-8: {text!r}", offset=start
                ) from error
        return text

    def take(self, length: int) -> tuple[int, int]:
        start = self.at
        if length > len(self.view) - start:
            raise FormatError(
                f"the end of a packed sample truncates a value of {length} bytes", offset=start
            )
        self.at += length
        return start, length


def _head(fixed: int, below: int, byte: bytes, short: bytes, long: bytes, count: int) -> bytes:
    """Return the head of a msgpack object: the count in the type byte itself, or after it in 1, 2 or 4 bytes."""
    if count < below:
        return bytes([fixed | count])
    if byte and count < 1 << 8:
        return byte + bytes([count])
    if count < 1 << 16:
        return short + struct.pack(">H", count)
    return long + struct.pack(">I", count)


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return _head(0xA0, 32, b"\xd9", b"\xda", b"\xdb", len(raw)) + raw


@lru_cache(256)
def _name(name: str) -> bytes:
    """Return the name of a field as `_text` does, which every sample has."""
    return _text(name)


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
                file,
                record.offset + (error.offset or 0),
                "every record should be a map as Bushel packs it; run " + command("verify", file),
            ) from error
    fields = table.fields_in(number)
    if damaged and not fields:
        [(_, first), *_] = damaged
        raise first.damage or FormatError("all records are damaged", file)
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

    def merged(values: np.ndarray, others: np.ndarray) -> np.ndarray:
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
