"""Read the tables and the spec of Granular datasets."""

from __future__ import annotations

import msgspec
import numpy as np

from bushel._index.table import I64, FieldExtents, FileStamp, Keys
from bushel.codecs import get_codec
from bushel.codecs.registry import from_file
from bushel.containers.bag.tables import Refs, Table, gapless
from bushel.containers.bag.writer import (
    stored_codec,
)
from bushel.containers.base import Shard
from bushel.errors import FormatError, SpecError
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath, Extents, File, gather, open_file

__all__ = [
    "column_of_records",
    "extents",
    "file_column",
    "known_codec",
    "open_member",
    "read_spec",
    "sample_keys",
    "stamps",
]

_SPEC = msgspec.json.Decoder(dict[str, str])
_LARGEST_SPEC = 1 << 24
_LONGEST_NAME = 255 - len(".bag")
_RECORD = "record"
"""The field of a bag file that is opened on its own."""


def open_member(path: AnyPath) -> File:
    """Open a file of a dataset.

    Raises:
        FormatError: The file does not exist.
    """
    try:
        return open_file(path)
    except FileNotFoundError as error:
        raise FormatError(
            "a file of the dataset is missing", file=str(path), hint="restore it, or run `bushel verify` on the dataset"
        ) from error


def read_spec(file: File) -> dict[str, Field]:
    """Parse `spec.json`. Any text is a type there, so this accepts more than `parse_spec`."""
    if file.size > _LARGEST_SPEC:
        raise FormatError(f"spec.json has {file.size} bytes, which is too large for a spec", file=file.path)
    try:
        types = _SPEC.decode(file.read(0, file.size))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(
            f"expected a JSON object of field names and types: {error}",
            file=file.path,
            hint='write a new one, such as {"image": "jpg"}, if you know the types',
        ) from error
    fields = {}
    for name, kind in types.items():
        if not name or "/" in name or "\0" in name or name == "refs":
            raise FormatError(f"{name!r} cannot be a field, because no bag file can have that name", file=file.path)
        if (size := len(name.encode("utf-8", "surrogatepass"))) > _LONGEST_NAME:
            message = f"{name[:20]!r}… with its {size} bytes cannot be a field, because no bag file can have that name"
            raise FormatError(message, file=file.path)
        fields[name] = Field(name, from_file(kind.removesuffix("[]")), kind.endswith("[]"))
    if KEY in fields and fields[KEY].type not in ("utf8", "bytes"):
        raise FormatError(f"{KEY} has the type {fields[KEY].type!r}, but keys have the type 'utf8'", file=file.path)
    return fields


def known_codec(codec: str) -> str:
    """Return the codec, or `bytes` for a type that only its author can decode."""
    try:
        get_codec(codec)
    except SpecError:
        return "bytes"
    return codec


def stamps(shard: Shard, files: list[File]) -> tuple[FileStamp, ...]:
    """Return the stamps of open files."""
    return tuple(FileStamp(name, file.size, file.mtime_ns) for name, file in zip(shard.files, files, strict=True))


def file_column(table: Table, spec: Spec | None) -> FieldExtents:
    """Return the column of a bag that is opened on its own, with the field that the user declared, if any."""
    field = Field(_RECORD, "bytes")
    if spec and len(spec) == 1:
        [field] = spec.values()
    return FieldExtents(field, stored_codec(known_codec(field.codec), table.generation), 0, *extents(table))


def sample_keys(column: FieldExtents, file: File) -> Keys:
    """Return the keys that a field of type `utf8` holds."""
    if not gapless(column.offset, column.length):
        return Keys.build(*gather([file], Extents(0, column.offset, column.length)))
    offsets = np.zeros(column.rows + 1, np.int64)
    np.cumsum(column.length, out=offsets[1:])
    return Keys.build(np.frombuffer(file.read(0, int(offsets[-1])), np.uint8), offsets)


def extents(table: Table) -> tuple[I64, I64]:
    """Return offset and length of every record."""
    return table.offsets[:-1], np.diff(table.offsets)


def column_of_records(field: Field, codec: str, number: int, table: Table, ref: Refs, path: str) -> FieldExtents:
    """Return one column, gathered through its refs unless they name all records in order (which is the usual case)."""
    records = np.uint64(table.records)
    count = np.ones(len(ref.first), np.uint64) if ref.count is None else ref.count
    outside = (count > records) | (ref.first > records - np.minimum(count, records))
    if outside.any():
        sample = int(outside.argmax())
        raise FormatError(
            f"sample {sample} refers to {count[sample]} records from number {ref.first[sample]}, but "
            f"{field.name}.bag has {records}",
            file=path,
            hint="one of the two files is damaged or comes from another dataset",
        )
    starts = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=starts[1:])
    total = int(starts[-1])
    if ref.count is not None and total > table.records:
        raise FormatError(f"samples share records of {field.name}.bag, which sequence fields never do", file=path)
    first = ref.first.astype(np.int64)
    used = count > 0
    offset, length = extents(table)
    if total != table.records or not np.array_equal(first[used], starts[:-1][used]):
        rows = np.repeat(first - starts[:-1], count.astype(np.int64)) + np.arange(total)
        offset, length = offset[rows], length[rows]
    return FieldExtents(field, codec, number, offset, length, starts=None if ref.count is None else starts)
