"""TFRecord: records with checksums, whose data usually are `tf.train.Example` messages.

A kernel finds the records and the features of Examples. Bytes and lists of numbers are extents of
the file, or of its blocks if it is compressed by gzip or zlib; single integers are in the table.
docs/format-tfrecord.md has the rules.

Usual Examples have at most one value of bytes in each feature, or its numbers in one piece: their
extents and numbers are kept in blocks of lines (docs/index.md). A file with other records is left to
`scanned`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from bushel._index.columns import Column
from bushel._index.line_arrays import Lines
from bushel._index.shard import Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.system import keep_freed_memory
from bushel.containers.base import Container, ReadOptions, Report
from bushel.containers.features import codec_of_first_bytes
from bushel.containers.line_values import GrowingLines, Kind, missing_values
from bushel.containers.plain_table import PlainField, declared_field, file_shards, table_of
from bushel.containers.read_forward import forward_reader
from bushel.containers.references import with_keys
from bushel.errors import FormatError
from bushel.kernels import ExampleScanner, TfrecordScanner, crc32c
from bushel.spec import KEY, Field
from bushel.storage import AnyPath, BlockFile, Blocks, File

from .features import (
    AS_THEY_ARE,
    BYTES,
    OF_ANY_LENGTH,
    SCALARS,
    FeatureTable,
    check_density,
    check_first_values,
    declared_type,
    ends_of_windows,
    field_name,
    is_sparse,
    scanned,
    type_of_numbers,
)

_NUMBERED = re.compile(r"[^.].*-[0-9]{5}-of-[0-9]{5}", re.DOTALL)
_HEAD = struct.Struct("<QI")
_DATA = "data"


class _Tfrecord(Container):
    name = "tfrecord"

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of a file, or the shards of a folder: files with a suffix, or else files numbered N-of-M."""
        return super().shards(path) or file_shards(path, _NUMBERED.fullmatch)

    def begins_with(self, head: bytes, size: int) -> bool:
        """Return whether a file begins with the length of a record that it can hold, and the checksum of the length."""
        return _is_head(head) and int.from_bytes(head[:8], "little") <= size - _HEAD.size - 4

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the features of each Example are, or the data of each record, from one scan of the file."""
        real, file, blocks = _opened(shard)
        spec, table = options.spec or {}, None
        if spec.keys() - options.recorded == {_DATA}:  # also where the table of Examples is known
            spec = {_DATA: spec[_DATA]}
            options = replace(options, spec=spec)
        else:
            table = usual_examples(shard, file, real, spec, options.report)
        if table is None:
            table = self._any_records(shard, options, file, blocks)
        elif blocks:  # else all extents are of bytes that were scanned
            table = replace(table, blocks=blocks).check(file.path)
        for name in spec.keys() - set(options.recorded):
            column = table.fields.get(name)
            as_stored = len(blocks), spec[name].codec
            if column is not None and (column.file, column.codec) == as_stored:
                check_first_values(file, spec[name], column)
        try:
            return with_keys(table, shard)
        except FormatError as error:
            raise FormatError(error.message, error.file, error.offset, AS_THEY_ARE) from error

    def _any_records(
        self, shard: Shard, options: ReadOptions, file: File, blocks: tuple[Blocks, ...]
    ) -> ShardIndex:
        """Return the table of Examples of any form, or of other records."""
        scanner = TfrecordScanner()
        records, spec = scanned(file, scanner, options.report), options.spec or {}
        features = {field_name(feature.name, file): feature for feature in records.features}
        samples = len(records.offset)
        feature_table = FeatureTable(file, list(blocks), samples)
        if features and (list(spec) != [_DATA] or _DATA in features):
            check_density(features, samples, file)
            for name in sorted(features):
                feature, declared = features[name], None
                if feature.most <= 1 or name != KEY:
                    declared = declared_type(name, feature.kind, spec)
                feature_table.add(name, feature, declared)
        elif len(spec) != 1 and scanner.other >= 0 and scanner.others:
            raise FormatError(
                f"record {scanner.other} is not a tf.train.Example: {scanner.reason}. Others are",
                file.path,
                _stored_offset(blocks, int(records.offset[scanner.other])),
                AS_THEY_ARE,
            )
        else:
            places = records.offset, records.length
            field = declared_field(spec, file.path)
            field = field or Field(_DATA, codec_of_first_bytes(file, *places))
            feature_table.fields[field.name] = PlainField(field.codec, *places, file=len(blocks))
        all_blocks = feature_table.finished(records.copied)
        return table_of(
            self.name,
            shard,
            samples,
            feature_table.fields,
            blocks=all_blocks,
            columns=feature_table.columns,
        )

    def check_names(self, names: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Raise FormatError if some files have Examples, and some have other records."""
        records = examples = ""
        for path, features in names:
            if [*features] == [_DATA]:
                records = path
            elif _DATA not in features:  # a feature may have this name, too
                examples = path
        if records and examples:
            message = f"its records are not tf.train.Examples, as in {examples}"
            raise FormatError(message, records, hint=AS_THEY_ARE)

    def check_stored(self, shard: Shard, report: Report) -> Iterator[FormatError]:
        """Compare length and data of each record with their CRC-32C."""
        scanner = TfrecordScanner(examples=False, checksums=True)
        try:
            _, file, blocks = _opened(shard)
        except FormatError as error:
            yield error
            return
        records = 0
        try:
            for _ in ends_of_windows(file, scanner, report):
                offset, length, wrong, *_ = scanner.take()
                for record in wrong.tolist():
                    at, size = int(offset[record - records]), int(length[record - records])
                    yield _wrong_checksum(file, blocks, record, at, size)
                records += len(offset)
        except FormatError as error:
            yield error


CONTAINER = _Tfrecord()


def _stored_offset(blocks: tuple[Blocks, ...], position: int) -> int:
    """Return the offset in the stored file of a position of its records."""
    places = (blocks_of_file.place(position) for blocks_of_file in blocks)
    return next((place[1] for place in places if place is not None), position)


def _opened(shard: Shard) -> tuple[File, File, tuple[Blocks, ...]]:
    """Return the file, the file of the records, which is the same unless it is compressed, and its block file then.

    Raises:
        FormatError: The compressed data are damaged.
    """
    stored = shard.open()
    head = stored.read(0, min(stored.size, _HEAD.size))
    is_gzip = head[:2] == b"\x1f\x8b"
    is_zlib = len(head) > 1 and head[0] & 0xF == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    if _is_head(head) or not (is_gzip or is_zlib):
        return stored, stored, ()
    from bushel.storage.restart import compressed_blocks, zlib_blocks

    blocks = compressed_blocks(stored) if is_gzip else zlib_blocks(stored)
    return stored, BlockFile.over(stored, blocks), (blocks,)


def _is_head(head: bytes) -> bool:
    """Return whether bytes begin with the length of a record and its checksum."""
    sum32 = crc32c(head[:8])
    masked = ((sum32 >> 15 | sum32 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return len(head) >= _HEAD.size and masked == _HEAD.unpack_from(head)[1]


def _wrong_checksum(
    file: File, blocks: tuple[Blocks, ...], record: int, at: int, size: int
) -> FormatError:
    turned = (int.from_bytes(file.read(at + size, 4), "little") - 0xA282EAD8) & 0xFFFFFFFF
    expected = (turned << 15 | turned >> 17) & 0xFFFFFFFF
    computed = crc32c(file.read(at, size))
    return FormatError(
        f"record {record}: its {size} bytes have CRC-32C "
        f"{computed:#010x}, expected {expected:#010x}",
        file.path,
        _stored_offset(blocks, at),
    )


_MANY = 1 << Kind.NESTED
_EMPTY = 1 << Kind.BARE


def usual_examples(
    shard: Shard, file: File, real: File, spec: Mapping[str, Field], report: Report
) -> ShardIndex | None:
    """Return the table of a file, without its blocks; None for other records, and types that the fields do not suit.

    Args:
        shard: The shard.
        file: The file of the records.
        real: The same, or the compressed file.
        spec: The types that the caller declares.
        report: Called with the number of bytes read, and with their negative sum before None is
            returned.

    Raises:
        FormatError: A name cannot be the name of a field, or the compressed data are damaged.
        OSError: The temporary file cannot be written.
    """
    keep_freed_memory()
    scanner, blocks, size, at = ExampleScanner(), GrowingLines(), file.size, 0
    read, chunk = forward_reader(file, real)
    window, table = chunk, None
    try:
        while at < size:
            data = memoryview(read(at, min(window, size - at)))
            used = scanner.feed(data, at)
            while scanner.full and not scanner.unusual:
                blocks.take(scanner, (at + used) / size)
                used += scanner.feed(data[used:], at + used)
            sparse = is_sparse(len(scanner.features), blocks.samples + scanner.rows, scanner.values)
            if scanner.unusual or sparse or (not used and at + scanner.need > size):
                return None
            at, window = at + used, chunk if used else max(chunk, scanner.need)
            report(used)
        blocks.take(scanner, 1)
        if scanner.features:
            lines = blocks.lines(file.path)
            columns: dict[str, Column] = {}
            fields = _fields(file, scanner, lines, spec, int(file is not real), columns)
            if fields is not None:
                table = ShardIndex(
                    lines.blocks.samples,
                    stamps(shard, [real]),
                    dict(sorted(fields.items())),
                    CONTAINER.name,
                    columns=dict(sorted(columns.items())),
                )
        return table
    finally:
        if table is None:
            report(-at)


def _fields(
    file: File,
    scanner: ExampleScanner,
    lines: Lines,
    spec: Mapping[str, Field],
    number: int,
    columns: dict[str, Column],
) -> dict[str, FieldExtents] | None:
    """Return the fields of Examples, and fill the columns of single numbers; None if `FeatureTable` has to do it."""
    fields: dict[str, FieldExtents] = {}
    for place, (encoded, kind, kinds) in enumerate(scanner.features):
        name = field_name(encoded, file)
        declared, extents = declared_type(name, kind, spec), lines.extents(place, quotes=False)
        if kind != BYTES:
            codec, stored = type_of_numbers(kind, declared, several=bool(kinds & _MANY))
        elif declared is None:
            codec = stored = codec_of_first_bytes(file, *extents)
        elif declared.sequence or declared.codec in OF_ANY_LENGTH:
            return None
        else:
            codec = stored = declared.codec
        if kind != BYTES and not codec.startswith("array"):
            if kinds & _EMPTY:
                return None
            of, _ = SCALARS[kind]
            missing = missing_values(lines, place, kinds)
            columns[name] = Column(of, lines.numbers(place, of), missing)
        fields[name] = FieldExtents(Field(name, codec), stored, number, *extents)
    return fields
