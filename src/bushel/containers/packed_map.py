"""Samples of several fields in containers whose records are plain bytes (ffrecord, recordio).

A record is one msgpack map: `__key__` first (str, or nil in a dataset without keys), then a bin per
field, or an array of bins for a sequence field. A field that a sample lacks has no entry. Any
msgpack library reads such records; Bushel only needs the extents of the values, which
`index_records` finds in a whole file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import msgpack
from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Buffer

from bushel import kernels
from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._index.shard import Keys
from bushel._index.table import FieldExtents
from bushel._runtime.public import command
from bushel.errors import FormatError, SpecError
from bushel.spec import KEY, Field, Spec

from .base import Values

if TYPE_CHECKING:
    from bushel.storage import File

Extent: TypeAlias = tuple[int, int]
"""Offset and length of a value in its record."""

_LIMIT = 2**32 - 1
_PACKER = msgpack.Packer(unicode_errors="surrogateescape")
_KEY_ENTRY = _PACKER.pack(KEY)
_WIDE_MAPS = {0xDE: 2, 0xDF: 4}
"""The types of maps of many entries, and the size of their number after it. Others have it in their type."""
_BINARY = {0xC4: 2, 0xC5: 3, 0xC6: 5}
"""The types of bytes, and the size of type and length before them."""


def damaged(file: File, message: str, offset: int | None = None) -> FormatError:
    """Return the error of a damaged file, which advises to verify it."""
    return FormatError(message, file.path, offset, f"run {command('verify', file.path)}")


class Packed(Struct, frozen=True):
    """A sample encoded as a record."""

    pieces: list[Buffer]  # the record's bytes, in pieces so that values are not copied
    size: int  # size of the record in bytes
    # for each value: field name, offset in the record, bytes; elements of a list follow each other
    values: list[tuple[str, int, Buffer]]


def encode(key: str | None, fields: Iterable[Field], values: Values) -> Packed:
    """Encode one sample as a record.

    Args:
        key: The sample's key, or None in a dataset without keys.
        fields: All fields of the dataset, in order.
        values: Stored bytes of the fields that the sample has.

    Raises:
        SpecError: A value is longer than 4 GiB, the limit of msgpack.
    """
    present = [field for field in fields if field.name in values]
    head = _PACKER.pack_map_header(len(present) + 1) + _KEY_ENTRY + _PACKER.pack(key)
    pieces: list[Buffer] = []
    placed: list[tuple[str, int, Buffer]] = []
    at = 0
    for field in present:
        stored = values[field.name]
        head += _PACKER.pack(field.name)
        elements: Sequence[Buffer] = [cast("Buffer", stored)]
        if field.sequence:
            elements = list(cast("Iterable[Buffer]", stored))
            head += _PACKER.pack_array_header(len(elements))
        for element in elements:
            if type(element) is bytes:
                size = len(element)
            else:
                size = memoryview(element).nbytes
            if size > _LIMIT:
                raise SpecError(
                    f"field {field.name!r}: {size} bytes exceed the limit of msgpack, {_LIMIT}"
                )
            head += _head_of_bytes(size)
            placed.append((field.name, at + len(head), element))
            pieces += [head, element]
            at += len(head) + size
            head = b""
    if head:
        pieces.append(head)
    return Packed(pieces, at + len(head), placed)


def mark_absent(builder: IndexBuilder, values: Mapping[str, object]) -> None:
    """Mark the fields that a sample lacks."""
    if len(values) < len(builder.columns):
        for name in builder.columns.keys() - values.keys():
            builder.columns[name].mark_absent()


def _head_of_bytes(size: int) -> bytes:
    if size < 1 << 8:
        return b"\xc4%c" % size
    if size < 1 << 16:
        return b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def is_packed_map(record: Buffer) -> bool:
    """Return whether a record starts like one of `encode`. The first 16 bytes suffice."""
    head = bytes(memoryview(record)[:16])
    if not head or (head[0] & 0xF0 != 0x80 and head[0] not in _WIDE_MAPS):
        return False
    return head.startswith(_KEY_ENTRY, 1 + _WIDE_MAPS.get(head[0], 0))


def refuse_map(builder: IndexBuilder, value: Buffer) -> None:
    """Raise SpecError for a first value that readers would read as a map of several fields."""
    if builder.samples == 0 and is_packed_map(value):
        raise SpecError(
            "the first value starts like a packed sample: declare its fields in the spec instead"
        )


def limit_of(spec: Spec, *, plain: bool) -> str:
    """Return the limit of files that tell no types and, of `plain` values, no names of fields.

    Raises:
        SpecError: The spec has no field.
    """
    if not spec:
        raise SpecError("a spec needs at least one field")
    what = "the types of the fields are"
    if plain:
        what = "the name and the type of the field are"
    return f"{what} stored in Bushel's index only: without it, pass spec= to open"


def locate(record: Buffer) -> tuple[str | None, dict[str, Extent | list[Extent]]]:
    """Find the values of a record without decoding them.

    Returns:
        The key, and for each field offset and length in the record; for a sequence field, a list of
        these.

    Raises:
        FormatError: The record was not made by `encode`. The offset in the error counts from the
            start of the record.
    """
    view = memoryview(record).cast("B")
    unpacker = msgpack.Unpacker(unicode_errors="surrogateescape", max_buffer_size=sys.maxsize)
    unpacker.feed(view)
    try:
        key, values = _entries(unpacker, view)
    except (msgpack.OutOfData, IndexError) as error:
        raise FormatError("a packed sample is truncated", offset=len(view)) from error
    except (msgpack.UnpackException, ValueError, TypeError) as error:
        raise FormatError(f"not a packed sample: {error}", offset=unpacker.tell()) from error
    if more := len(view) - unpacker.tell():
        raise FormatError(f"{more} bytes after the end of a packed sample", offset=unpacker.tell())
    return key, values


def _entries(
    unpacker: msgpack.Unpacker, view: memoryview
) -> tuple[str | None, dict[str, Extent | list[Extent]]]:
    entries = unpacker.read_map_header()
    if unpacker.unpack() != KEY:
        raise ValueError(f"it should start with {KEY!r}")
    key = unpacker.unpack()
    if not isinstance(key, str | None):
        raise TypeError(f"expected text as the key, found {key!r:.40}")
    values: dict[str, Extent | list[Extent]] = {}
    for _ in range(entries - 1):
        name = unpacker.unpack()
        if not isinstance(name, str):
            raise TypeError(f"expected text as the name of a field, found {name!r:.40}")
        name.encode()  # which fails unless it is UTF-8
        if name in values or name == KEY:
            raise ValueError(f"the field {name!r} appears twice in one sample")
        if view[unpacker.tell()] in _BINARY:
            values[name] = _extent(unpacker, view)
        else:
            elements = range(unpacker.read_array_header())
            values[name] = [_extent(unpacker, view) for _ in elements]
    return key, values


def _extent(unpacker: msgpack.Unpacker, view: memoryview) -> Extent:
    """Return where the bytes are that come next, and skip them."""
    at = unpacker.tell()
    if view[at] not in _BINARY:
        raise ValueError(f"expected bytes, found the msgpack type 0x{view[at]:02x}")
    unpacker.skip()
    start = at + _BINARY[view[at]]
    return start, unpacker.tell() - start


class Record(Struct, frozen=True):
    """A record that has been read."""

    payload: bytes
    offset: int  # where its bytes are in the file


def index_records(
    records: Iterable[Record], spec: Spec | None, *, file: str, checksums: bool, number: int = 0
) -> tuple[dict[str, FieldExtents], Keys | None]:
    """Return the fields of a file of packed samples, and their keys, or None if they have none.

    Args:
        records: All records in the order of samples.
        spec: Types of the fields. A field that it does not name is `bytes`; one that no sample has
            is missing in all.
        file: Path for error messages.
        checksums: Whether to compute the CRC-32 of every value.
        number: Number of the file in the shard.

    Raises:
        FormatError: A record is not a packed sample, or does not agree with the others.
    """
    table = _Table(spec or {}, number, checksums=checksums)
    for record in records:
        try:
            table.add(record)
        except FormatError as error:
            raise FormatError(
                f"sample {table.samples}: {error.message}",
                file,
                record.offset + (error.offset or 0),
                "every record should be a map as Bushel packs it; run " + command("verify", file),
            ) from error
    fields = {name: column.build() for name, column in table.columns.items()}
    if not checksums:
        fields = {name: replace(extents, crc32=None) for name, extents in fields.items()}
    keys = Keys.build(*table.key_arrays()) if table.has_keys else None
    return fields, keys


class _Table(IndexBuilder):
    """The samples so far. All have a key here, which means nothing unless `has_keys`."""

    def __init__(self, spec: Spec, number: int, *, checksums: bool) -> None:
        columns = (FieldBuilder(field, field.codec, number) for field in spec.values())
        super().__init__("", columns, keyed=True)
        self._number, self._checksums = number, checksums
        self.has_keys: bool | None = None

    def add(self, record: Record) -> None:
        """Add one sample.

        Raises:
            FormatError: The record is not a packed sample, or contradicts those before it.
        """
        key, places = locate(record.payload)
        if self.has_keys is None:
            self.has_keys = key is not None
        if self.has_keys != (key is not None):
            raise FormatError("some samples have a key and others do not")
        for name, place in places.items():
            if name not in self.columns:
                field = Field(name, "bytes", isinstance(place, list))
                self.columns[name] = FieldBuilder(field, field.codec, self._number)
                self.columns[name].miss(self.samples)
            self._add_values(self.columns[name], record, place)
        mark_absent(self, places)
        self.close_sample(key)

    def _add_values(
        self, column: FieldBuilder, record: Record, place: Extent | list[Extent]
    ) -> None:
        kinds = ["one value", "a list"]
        if column.field.sequence != isinstance(place, list):
            if column.field.sequence:
                kinds.reverse()
            raise FormatError(
                f"field {column.field.name!r} should be {kinds[0]}, but is {kinds[1]} here"
            )
        extents = place if isinstance(place, list) else [place]
        for start, length in extents:
            crc32 = 0
            if self._checksums:
                crc32 = kernels.crc32(memoryview(record.payload)[start : start + length])
            column.add(record.offset + start, length, crc32)
