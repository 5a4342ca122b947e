"""FFRecord: a header with the CRC-32 and the offset of every record, then the records back to back.

Samples of one field are stored as records as they are. With keys they form a packed folder
(`packed_folder`), and samples of several fields are maps (`packed_map`). docs/format-ffrecord.md
has the layout, the rules and an example.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel import kernels
from bushel._index.builders import IndexBuilder
from bushel._index.shard import Keys, Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U32, Bools, batches_of
from bushel.containers.base import (
    Container,
    Layout,
    LayoutField,
    ReadOptions,
    ShardWriter,
    WriteOptions,
)
from bushel.containers.packed_map import (
    Record,
    damaged,
    index_records,
    is_packed_map,
    limit_of,
)
from bushel.containers.plain_table import declared_field
from bushel.containers.recovery import Fault, Recovered, gaps_of
from bushel.errors import CorruptError, FormatError, SpecError
from bushel.spec import Field, Spec
from bushel.storage import (
    ExtentError,
    Extents,
    File,
    checksums_of,
    copy_to_append,
    read_many,
    write_whole,
)

from .packed_folder import MAGIC, FolderPaths, parse_folder
from .writer import (
    TABLE_ROW,
    FFRecordWriter,
    Form,
    staged_names,
)

if TYPE_CHECKING:
    from bushel.storage import Staging


_LARGEST_TABLE = 1 << 26
_DATA = Field("data", "bytes")
_BATCH = 1 << 24
_LOOKS = 3  # number of records that are looked at, since the first one may be damaged


class Header(Struct, frozen=True):
    """The records of a file, as its header describes them."""

    offset: I64  # int64[N], offset of each record
    length: I64  # int64[N], size of each record in bytes
    crc32: U32  # uint32[N]
    form: Form = "plain"  # how samples are stored

    def chosen(self, rows: I64 | slice) -> Header:
        """Return some of the records."""
        return Header(self.offset[rows], self.length[rows], self.crc32[rows], self.form)


class _FFRecord(Container):
    name = "ffrecord"
    promises_checksums = True
    keeps_folders = True
    has_own_index = True

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one file, from its header; of a file of maps, from a pass that checks every CRC."""
        file = shard.open()
        header = _read_header(file)
        if header.form != "folder":
            return index_of(shard, file, header, options)
        paths, _ = _folder(file, header)
        return index_of(shard, file, header.chosen(slice(-1)), options, paths)

    def empty_folders(self, shard: Shard) -> list[str]:
        """Return the folders in a packed folder that hold nothing, so that no sample shows them.

        Raises:
            FormatError: The file is damaged.
        """
        file = shard.open()
        header = _read_header(file)
        if header.form == "folder":
            return _folder(file, header)[1]
        return []

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Return how samples are stored: one field as plain records or, with keys, a packed folder; else as maps."""
        columns = tuple(LayoutField(field, field.codec, 0) for field in spec.values())
        single = len(columns) == 1 and not columns[0].field.sequence
        limit = limit_of(spec, plain=single)
        if options.folders is not None and not (single and options.keyed):
            raise SpecError(
                "an ffrecord file keeps empty folders only beside samples of one field with keys"
            )
        FolderPaths(options.folders or ())
        return Layout(columns, options, sparse=not single, limits=(limit,))

    def reopen(
        self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging
    ) -> dict[str, int]:
        """Copy a file into staging, without the table of a packed folder; `finish` rewrites the header."""
        file = shard.open()
        header = _read_header(file)
        form = FFRecordWriter.form(layout)
        if header.form != form and len(header.offset):
            kinds = {
                "plain": "records of one field without keys",
                "folder": "a packed folder",
                "maps": "packed maps",
            }
            raise SpecError(
                f"{file.path} holds {kinds[header.form]}, "
                f"but the new samples would be {kinds[form]}"
            )
        end = file.size
        if header.form == "folder":
            end = int(header.offset[-1])
            header = header.chosen(slice(-1))
        data, table = staged_names(shard)
        rows = np.empty(len(header.offset), TABLE_ROW)
        rows["crc32"], rows["offset"] = header.crc32, header.offset
        write_whole(staging.path_of(table), rows.tobytes())
        copy_to_append(shard.path(0), staging.path_of(data))
        return {data: end, table: rows.nbytes}

    def writer(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> ShardWriter:
        """Start a file, or continue one, whose empty folders stay."""
        empty = list(layout.options.folders or ())
        if builder.samples and shard.path(0).exists():
            empty += self.empty_folders(shard)
        return FFRecordWriter(layout, shard, staging, builder, empty)


CONTAINER = _FFRecord()
"""The container."""


def index_all_records(shard: Shard) -> ShardIndex:
    """Return the index of one file as FFRecord's `FileReader` reads it: every record is a sample with the field `data`.

    The table of a packed folder counts as a record, too, and maps are not parsed.

    Raises:
        FormatError: The file is damaged.
    """
    file = shard.open()
    return index_of(shard, file, replace(_read_header(file), form="plain"), ReadOptions())


def index_of(
    shard: Shard,
    file: File,
    header: Header,
    options: ReadOptions,
    paths: Sequence[str] | None = None,
) -> ShardIndex:
    """Return the table of these records, in which the files of a packed folder have `paths` as keys.

    Raises:
        FormatError: The file is damaged, or a path is not valid text.
        SpecError: The user declares several fields, and the records have one.
    """
    stamp, samples = stamps(shard, [file]), len(header.offset)
    if header.form == "maps":
        records = _records(file, header, options)
        fields, keys = index_records(records, options.spec, file=file.path, checksums=True)
        return ShardIndex(samples, stamp, fields, "ffrecord", keys).check(file.path)
    try:
        keys = None if paths is None else Keys.of(paths)
    except UnicodeEncodeError as error:
        raise damaged(file, f"the path {error.object!r} is not valid text") from error
    options.report(file.size)
    field = declared_field(options.spec, file.path) or _DATA
    column = FieldExtents(field, field.codec, 0, header.offset, header.length, header.crc32)
    index = ShardIndex(samples, stamp, {field.name: column}, "ffrecord", keys)
    return index.check(file.path)


def _read_header(file: File) -> Header:
    """Read and check the header: its size against the file before anything is allocated, its CRC, its offsets."""
    if file.size < 12:
        raise damaged(
            file, f"an ffrecord file has at least 12 bytes, but this one has {file.size}", 0
        )
    start = file.read(0, 12)
    checksum, samples = struct.unpack("<Iq", start)
    if not 0 <= samples <= (file.size - 12) // 12:
        raise damaged(
            file,
            f"the header counts {samples} records, whose tables do not fit into {file.size} bytes",
            4,
        )
    tables = file.read(4, 8 + 12 * samples)
    # the first releases of FFRecord wrote 0
    if checksum not in (0, computed := kernels.crc32(tables)):
        raise damaged(
            file, f"the header should have the CRC {checksum:#010x}, found {computed:#010x}", 0
        )
    crc32 = np.frombuffer(tables, "<u4", samples, 8).astype(np.uint32)
    offset = np.frombuffer(tables, "<i8", samples, 8 + 4 * samples).astype(np.int64)
    if samples == 0 and file.size != 12:
        raise damaged(
            file,
            f"the header counts no records, but {file.size - 12} "
            "bytes follow: its writer was interrupted",
            4,
        )
    if samples and int(offset[0]) < 12 + 12 * samples:
        expected = f"records should start after the tables, at {12 + 12 * samples}"
        raise damaged(file, f"{expected}, not at {offset[0]}", 12 + 4 * samples)
    if samples and int(offset[-1]) > file.size:
        raise damaged(
            file, f"record {samples - 1} starts at {offset[-1]}: the file is truncated", file.size
        )
    if (bad := offset[1:] < offset[:-1]).any():
        row = int(bad.argmax()) + 1
        raise damaged(
            file, f"record {row} starts before record {row - 1}", 12 + 4 * samples + 8 * row
        )
    return with_form(Header(offset, np.diff(offset, append=np.int64(file.size)), crc32), file)


def with_form(header: Header, file: File) -> Header:
    """Return the records with the form that the first ones and the last one show."""
    offset, length = header.offset, header.length
    form: Form = "plain"
    if len(offset):
        heads = (
            file.read(int(offset[row]), min(16, int(length[row])))
            for row in range(min(_LOOKS, len(offset)))
        )
        if file.read(int(offset[-1]), min(len(MAGIC), int(length[-1]))) == MAGIC:
            form = "folder"
        elif any(map(is_packed_map, heads)):
            form = "maps"
    return replace(header, form=form)


def _folder(file: File, header: Header) -> tuple[list[str], list[str]]:
    """Return the paths of the files and of the empty folders in a packed folder."""
    start = int(header.offset[-1])
    record = file.read(start, int(header.length[-1]))
    if (computed := kernels.crc32(record)) != header.crc32[-1]:
        raise _corrupt(
            file, start, "the table of the packed folder", int(header.crc32[-1]), computed
        )
    try:
        paths, empty = parse_folder(record)
    except FormatError as error:
        raise damaged(file, error.message, start + (error.offset or 0)) from error
    if len(paths) != len(header.offset) - 1:
        raise damaged(
            file,
            f"the packed folder lists {len(paths)} files, but the "
            f"file has {len(header.offset) - 1} other records",
            start,
        )
    return paths, empty


def _records(file: File, header: Header, options: ReadOptions) -> Iterator[Record]:
    """Yield all records, checked against their CRCs; a few MiB are read at a time.

    Raises:
        CorruptError: A record does not match its CRC.
    """
    for rows in batches_of(header.length, _BATCH):
        extents = Extents(0, header.offset[rows], header.length[rows], header.crc32[rows])
        try:
            payloads = read_many([file], extents)
        except ExtentError as error:
            if error.reason != "checksum":
                raise
            row = rows.start + error.row
            raise _corrupt(
                file, int(header.offset[row]), f"record {row}", error.expected, error.found
            ) from error
        for payload, offset in zip(payloads, header.offset[rows].tolist(), strict=True):
            yield Record(payload or b"", offset)
        options.report(int(header.length[rows].sum()))


def _corrupt(file: File, offset: int, what: str, expected: int, actual: int) -> CorruptError:
    message = f"{what} should have the CRC {expected:#010x}, found {actual:#010x}"
    advice = damaged(file, message).hint
    return CorruptError(
        message, file=file.path, offset=offset, expected=expected, found=actual, hint=advice
    )


# Damaged files


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the records that match their CRC-32.

    Raises:
        FormatError: The tables of the file cannot be located.
    """
    file = shard.open()
    for header in _possible_headers(file):
        good = _matching(file, header)
        if good.any():
            break
    else:
        raise FormatError(
            "the tables in its header are damaged, so its records cannot be located", file.path
        )
    offset, last = header.offset.tolist(), len(header.offset) - 1
    errors = []
    for row in np.flatnonzero(~good).tolist():
        errors.append(
            CorruptError(
                f"record {row} is damaged: it does not match its CRC-32",
                file=file.path,
                offset=offset[row],
            )
        )
        fault(errors[-1])
    # the table of a packed folder does not count as a sample
    is_folder = file.read(offset[last], min(len(MAGIC), file.size - offset[last])) == MAGIC
    paths: list[str] | None = None
    if good[last] and is_folder:
        good[last] = False
        with suppress(FormatError):
            paths = parse_folder(file.read(offset[last], int(header.length[last])))[0]
        if paths is None or len(paths) != last:
            fault(FormatError("the keys are lost: samples get their positions as keys", file.path))
            paths = None
    rows = np.flatnonzero(good)
    kept_paths = paths and [paths[row] for row in rows.tolist()]
    index = index_of(shard, file, with_form(header.chosen(rows), file), options, kept_paths)
    keys = paths or [f"at-{at}" for at in offset]
    if index.keys is None:
        keys = list(map(str, range(len(offset))))
    gaps = gaps_of(good[: last + (not is_folder)], keys)
    return Recovered(
        index, np.ones(len(rows), np.bool_), len(gaps), gaps, tuple(errors[: len(gaps)])
    )


def _possible_headers(file: File) -> Iterator[Header]:
    """Yield the records: for the stated number of records, then for others that fit."""
    if file.size < 12:
        return
    stated = int.from_bytes(file.read(4, 8), "little", signed=True)
    for records in chain([stated], _fitting(file)):
        if 0 < records <= (file.size - 12) // 12:
            raw = file.read(12, 12 * records)
            offset = np.frombuffer(raw, "<i8", records, 4 * records).astype(np.int64)
            ends = np.append(offset[1:], file.size)
            inside = (offset >= 12 + 12 * records) & (ends >= offset) & (ends <= file.size)
            yield Header(
                np.where(inside, offset, np.clip(offset, 0, file.size)),
                np.where(inside, ends - offset, -1),
                np.frombuffer(raw, "<u4", records).astype(np.uint32),
            )


def _fitting(file: File) -> Iterator[int]:
    """Yield the numbers of records whose tables would end where their first record starts."""
    raw = file.read(12, min(file.size - 12, _LARGEST_TABLE) // 4 * 4)
    words = np.frombuffer(raw, "<u4").astype(np.int64)
    # N checksums are followed by the offset of the first record, the end of the tables: 12 + 12 * N
    first = words[:-1] | words[1:] << 32
    yield from np.flatnonzero(first == 12 + 12 * np.arange(len(first))).tolist()


def _matching(file: File, header: Header) -> Bools:
    """Return which records match their CRC-32.

    The last record ends with the file. If nothing is left of it, and its CRC-32 is 0, as of no
    bytes, only a whole header shows that it was empty before.
    """
    good = header.length >= 0
    rows = np.flatnonzero(good)
    extents = Extents(0, header.offset[rows], header.length[rows])
    good[rows] = checksums_of([file], extents) == header.crc32[rows]
    if good[-1] and header.length[-1] == 0:  # the header has its CRC-32, or 0 of the first releases
        expected = kernels.crc32(file.read(4, 8 + 12 * len(good)))
        good[-1] = int.from_bytes(file.read(0, 4), "little") in (0, expected)
    return good
