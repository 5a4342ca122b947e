"""MXNet RecordIO: framed records in a `.rec`, and an optional `.idx` of keys and offsets.

Image records have the fields of their header. Other records are samples of one field as they are,
or maps of several (`packed_map`). docs/format-recordio.md has the layout, the rules and an example.
In a damaged file, the records are read whose header and length can be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bushel import kernels
from bushel._index.shard import Keys, Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._kinds import JPEG
from bushel._runtime.arrays import I64, Array, batches_of
from bushel.containers.base import (
    Container,
    Layout,
    LayoutField,
    ReadOptions,
    WriteOptions,
)
from bushel.containers.packed_map import (
    Record,
    damaged,
    index_records,
    is_packed_map,
    limit_of,
    locate,
)
from bushel.containers.plain_table import declared_field
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec
from bushel.storage import (
    AnyPath,
    Extents,
    File,
    copy_to_append,
    names_in,
    read_many,
    write_whole,
)

from .idx import format_idx, parse_idx
from .scan import (
    IMAGE_HEADER,
    LARGEST,
    MAGIC,
    Images,
    Payloads,
    Records,
    find_images,
    follow,
    payloads_of,
    scan_records,
)
from .writer import RecordIOWriter, form_of, idx_name, stored_codec

if TYPE_CHECKING:
    from bushel.storage import Staging

_NAME = re.compile(r".+\.rec(\.part[0-9]+)?")


class _RecordIO(Container):
    name = "recordio"
    writer = RecordIOWriter

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of one `.rec` file, or of all in a folder, sorted by name, each with its `.idx`."""
        if not path.is_dir():
            if not _NAME.fullmatch(path.name):
                return None
            table = idx_name(path.name)
            return [_shard(path.parent, path.name, has_idx=(path.parent / table).is_file())]
        names = set(names_in(path))
        parts = sorted(filter(_NAME.fullmatch, names))
        return [_shard(path, name, has_idx=idx_name(name) in names) for name in parts] or None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one file: the records that its `.idx` lists, in that order; without one, all records."""
        files = list(map(shard.open, range(len(shard.files))))
        data, keys = files[0], None
        if len(files) == 1:
            records, end, fault = scan_records(data)
            options.report(end)
            if fault is not None:
                raise fault
        else:
            table = parse_idx(files[1].read(0, files[1].size), files[1].path)
            if not len(table.offset) and data.size:
                raise FormatError(
                    f"it lists no record, but {data.path} has {data.size} bytes",
                    files[1].path,
                    hint="move the .idx away, so that the records are found by a scan of the .rec",
                )
            records, keys = follow(data, table.offset, options.report), table.keys
        payloads = payloads_of(data, records, len(files))
        return index_of(shard, files, payloads, keys, options).check(data.path)

    def faults(self, shard: Shard) -> list[FormatError]:
        """Return damage that does not keep a dataset from being read: what a scan finds and the `.idx` hides.

        Returns:
            An error for the first record that the `.idx` leaves out, for each key that appears twice,
            for an incomplete record at the end, and for padding that the last record lacks.
        """
        files = list(map(shard.open, range(len(shard.files))))
        records, end, fault = scan_records(files[0])
        if fault is None and files[0].size % 4:  # MXNet refuses the last record
            fault = damaged(files[0], "the padding of the last record is missing", end)
        faults = [] if fault is None else [fault]
        if len(files) > 1:
            table = parse_idx(files[1].read(0, files[1].size), files[1].path)
            missing = np.setdiff1d(records.offset, table.offset)
            if len(missing):
                message = (
                    f"it leaves out {len(missing)} records of "
                    f"{files[0].path}, the first at {missing[0]}"
                )
                advice = damaged(files[0], message).hint
                faults.append(FormatError(message, files[1].path, hint=advice))
            twice = table.keys.duplicates() if table.keys is not None else []
            faults += [
                FormatError(f"the key {key!r} appears twice", files[1].path) for key in twice
            ]
        return faults

    def mended_key(self, key: str) -> str:
        """Return a key that an `.idx` can hold: valid text without control characters and leading spaces."""
        text = key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return re.sub(r"[\x00-\x1f]", "\ufffd", text).lstrip() or "\ufffd"

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Return how samples are stored: `image`, `label`, `id`, `id2` as image records, one other raw, else maps."""
        form = form_of(spec)
        limits = [limit_of(spec, plain=form == "raw")]
        if form == "image" and "label" in spec:
            limits.append(
                "labels are 32-bit floats: real numbers are rounded, and arrays are flattened"
            )
        if options.keyed:
            limits.append("MXNet needs key_type=str for keys that are not integers")
        columns = tuple(
            LayoutField(
                field, stored_codec(field.name, field.codec) if form == "image" else field.codec, 0
            )
            for field in spec.values()
        )
        return Layout(columns, options, sparse=form == "maps", limits=tuple(limits))

    def shard(
        self, root: AnyPath, layout: Layout, before: Sequence[Shard], name: str | None
    ) -> Shard:
        """Return the file that the user named, or a name that sorts after those before it, with its `.idx`."""
        return _shard(root, super().shard(root, layout, before, name).name, has_idx=True)

    def reopen(
        self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging
    ) -> dict[str, int]:
        """Copy a file into staging up to the end of its last record. A missing `.idx` is created."""
        data = shard.open()
        records, end, _ = scan_records(data)
        existing = _existing_form(payloads_of(data, records, len(shard.files)), index)
        new = form_of({column.field.name: column.field for column in layout.columns})
        if index.samples and existing != new:
            kinds = {"image": "image records", "raw": "records of one field", "maps": "packed maps"}
            raise SpecError(
                f"{data.path} holds {kinds[existing]}, but the new samples would be {kinds[new]}"
            )
        rec, idx = shard.files[0], idx_name(shard.files[0])
        copy_to_append(shard.path(0), staging.path_of(rec))
        if len(shard.files) > 1:
            table = shard.open(1)
            text = table.read(0, table.size)
            text += b"" if text.endswith(b"\n") or not text else b"\n"
        else:
            text = format_idx(records.offset)
        write_whole(staging.path_of(idx), text)
        return {rec: end, idx: len(text)}


def _shard(root: AnyPath, name: str, *, has_idx: bool) -> Shard:
    return Shard(root, name, (name, idx_name(name)) if has_idx else (name,))


def _existing_form(payloads: Payloads, index: ShardIndex) -> str:
    label = index.fields.get("label")
    if label is not None and label.codec.startswith("recordio-label"):
        return "image"
    if "image" in index.fields and len(index.fields) == 1:
        return form_of({"image": index.fields["image"].field})
    if holds_maps(payloads):
        return "maps"
    return "raw"


CONTAINER = _RecordIO()


_DATA = Field("data", "bytes")
_BATCH = 1 << 24


def index_of(
    shard: Shard, files: Sequence[File], payloads: Payloads, keys: Keys | None, options: ReadOptions
) -> ShardIndex:
    """Return the table of records, with the keys of the `.idx` unless the records have their own. It is not checked."""
    fields, own_keys = _fields_of(payloads, options)
    samples = len(payloads.position)
    return ShardIndex(
        samples, stamps(shard, files), fields, "recordio", own_keys or keys, blocks=payloads.blocks
    )


def _fields_of(
    payloads: Payloads, options: ReadOptions
) -> tuple[dict[str, FieldExtents], Keys | None]:
    """Return the fields of the records, as their headers or the user's spec declare them."""
    spec, path = options.spec, payloads.file.path
    if holds_maps(payloads):
        return index_records(
            _read(payloads, options),
            spec,
            file=path,
            checksums=options.checksums,
            number=payloads.number,
        )
    if spec is None or form_of(spec) == "image":
        images = find_images(payloads, any_image=spec is not None and len(spec) > 1)
        if images is not None:
            return _image_fields(payloads, images, spec or {}), None
    field = declared_field(spec, path) or _DATA
    extents = FieldExtents(field, field.codec, payloads.number, payloads.position, payloads.length)
    return {field.name: extents}, None


def holds_maps(payloads: Payloads) -> bool:
    """Return whether the records are packed maps, as the first one shows."""
    if not len(payloads.position):
        return False
    return is_packed_map(
        payloads.file.read(int(payloads.position[0]), min(16, int(payloads.length[0])))
    )


def _image_fields(payloads: Payloads, images: Images, spec: Spec) -> dict[str, FieldExtents]:
    header = IMAGE_HEADER + 4 * images.flag
    label = "float" if not images.flag.any() else "array"
    zero, eight = np.zeros_like(header), np.full_like(header, 8)
    places = {
        "image": (images.codec, header, payloads.length - header),
        "label": (label, zero, np.where(images.flag > 0, header, 8)),
        "id": ("u64", eight, eight),
        "id2": ("u64", 2 * eight, eight),
    }
    fields = {}
    for name, (codec, start, length) in places.items():
        if "image" in spec and name not in spec:
            continue
        field = spec.get(name) or Field(name, codec)
        stored = stored_codec(name, field.codec)
        fields[name] = FieldExtents(
            field, stored, payloads.number, payloads.position + start, length
        )
    return fields


def _read(payloads: Payloads, options: ReadOptions) -> Iterator[Record]:
    """Yield all records; a few MiB are read at a time."""
    for rows in batches_of(payloads.length, _BATCH):
        position, length = payloads.position[rows], payloads.length[rows]
        for payload, start in zip(
            read_many([payloads.file], Extents(0, position, length)), position.tolist(), strict=True
        ):
            yield Record(payload or b"", start)
        options.report(int(length.sum()))


_WINDOW = 1 << 20
_FIRST_PARTS, _LATER_PARTS = (0, 1), (2, 3)
_FEW_BITS = 8
_END_OF_JPEG = b"\xff\xd9"
_LINE = re.compile(rb"([^\t]+)\t([0-9]{1,18})")


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the records whose header and length can be trusted, with their keys from the `.idx`."""
    files = list(map(shard.open, range(len(shard.files))))
    lines = _lines(files[1], fault) if len(files) > 1 else []
    listed = np.unique(np.array([offset for _, offset in lines], np.int64))
    records = _records(files[0], listed, fault)
    if holds_maps(payloads_of(files[0], records, len(files))):
        records = _packed_maps(files[0], records, fault)
    keys = None
    if len(files) > 1:
        named = _keys(lines, records.offset, files[0], fault)
        if named != [str(number) for number in range(len(named))]:
            keys = Keys.of(named)
    index = index_of(shard, files, payloads_of(files[0], records, len(files)), keys, options)
    lost, gaps = len(np.setdiff1d(listed, records.offset)), _gaps(lines, records.offset)
    return Recovered(index.check(files[0].path), np.ones(index.samples, np.bool_), lost, gaps)


def _gaps(lines: list[tuple[str, int]], offsets: I64) -> tuple[tuple[int, str], ...]:
    """Return the records that the `.idx` lists and the file lacks, unless it has as many records as there are lines."""
    if len(offsets) >= len(lines):
        return ()
    present = set(offsets.tolist())
    missing = sorted((offset, key) for key, offset in lines if offset not in present)
    return tuple((int(np.searchsorted(offsets, offset)), key) for offset, key in missing)


# Records


def _records(file: File, listed: I64, fault: Fault) -> Records:
    """Return all records, and report where the framing is damaged."""
    data = file if isinstance(file, kernels.MappedFile) else file.read(0, file.size)
    pieces: list[tuple[Array, Array, Array]] = []
    start: int | None = 0
    while start is not None:
        scanned = kernels.scan_recordio(data, start)
        intact = len(scanned)
        resume = max(int(scanned.end), start)
        if scanned.problem is not None:
            fault(FormatError(scanned.problem, file.path, scanned.problem_offset))
            if intact and scanned.problem_offset == scanned.end:
                at, span = int(scanned.offset[-1]), int(scanned.span[-1])
                if not _ends_right(file, int(scanned.end), span, listed, at):
                    fault(FormatError("the length of the record here is wrong", file.path, at))
                    intact, resume = intact - 1, at
        pieces.append((scanned.offset[:intact], scanned.span[:intact], scanned.parts[:intact]))
        start = None if scanned.problem is None else _next_record(file, resume + 4)
    return Records.joined(pieces)


def _ends_right(file: File, end: int, span: int, listed: I64, offset: int) -> bool:
    """Return whether a record ends at the end in its header, although no valid record follows there.

    Either its length is wrong, or the header after it. The `.idx` decides, or bytes that still look
    like a header.
    """
    if end in listed:
        return True
    if file.size - end < 8:
        return _may_end(file, offset, span)
    head = file.read(end, 8)
    magic, word = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
    # a later part, if the first one is marked as whole; those are multiples of four
    if magic == MAGIC:
        return word >> 29 not in _LATER_PARTS or span % 4 != 0
    if (listed > offset).any():
        return False
    following = _next_record(file, end + 4)
    if (magic ^ MAGIC).bit_count() <= _FEW_BITS:
        return True
    if following is None:
        return _may_end(file, offset, span)
    return end + 8 + ((word & LARGEST) + 3) // 4 * 4 == following


def _may_end(file: File, offset: int, span: int) -> bool:
    """Return whether the end in the last record's header is valid: no if it holds a JPEG that ends with the file."""
    start, end = offset + 8 + IMAGE_HEADER, offset + 8 + span
    if start + 3 > file.size or file.read(start, 3) != JPEG:
        return True
    last = file.read(max(start, file.size - 8), min(8, file.size - start)).rstrip(b"\0")
    return not last.endswith(_END_OF_JPEG) or (
        end >= start + 2 and file.read(end - 2, 2) == _END_OF_JPEG
    )


def _next_record(file: File, start: int) -> int | None:
    """Return the offset of the first record from `start` on. Payloads never hold its magic at a multiple of four."""
    start += -start % 4
    for first in range(start, file.size - 7, _WINDOW):
        size = min(_WINDOW + 4, (file.size - first) // 4 * 4)
        words = np.frombuffer(file.read(first, size), "<u4")
        for number in np.flatnonzero(words[:-1] == MAGIC).tolist():
            if int(words[number + 1]) >> 29 in _FIRST_PARTS:
                return int(first + 4 * number)
    return None


def _packed_maps(file: File, records: Records, fault: Fault) -> Records:
    """Return the records that are valid packed maps."""
    good = np.ones(len(records.offset), np.bool_)
    for row, offset in enumerate(records.offset.tolist()):
        try:
            locate(records.payload(file, row))
        except FormatError as error:
            good[row] = False
            fault(FormatError(f"record {row} is lost: {error.message}", file.path, offset))
    return records.chosen(np.flatnonzero(good))


# Keys


def _lines(table: File, fault: Fault) -> list[tuple[str, int]]:
    """Return key and offset of every valid line of the `.idx`."""
    text = table.read(0, table.size)
    try:
        parsed = parse_idx(text, table.path)
    except FormatError as error:
        fault(error)
    else:
        rows = np.arange(len(parsed.offset))
        if parsed.keys is None:
            keys = list(map(str, rows.tolist()))
        else:
            keys = parsed.keys.take(rows)
        return list(zip(keys, parsed.offset.tolist(), strict=True))
    matches = (_LINE.fullmatch(line.removesuffix(b"\r")) for line in text.split(b"\n"))
    return [
        (match[1].decode("utf-8", "surrogateescape"), int(match[2])) for match in matches if match
    ]


def _keys(lines: list[tuple[str, int]], offsets: I64, file: File, fault: Fault) -> list[str]:
    """Return the key of each record: the key in its line, or `at-OFFSET`."""
    listed: dict[int, list[int]] = {}
    for number, (_, offset) in enumerate(lines):
        listed.setdefault(offset, []).append(number)
    keys = []
    for row, offset in enumerate(offsets.tolist()):
        numbers = listed.get(offset, [])
        if len(numbers) > 1 and row in numbers:  # a wrong line has the offset of another one
            numbers = [row]
        if len(numbers) == 1:
            keys.append(lines[numbers[0]][0])
            continue
        keys.append(f"at-{offset}")
        what = "several keys" if numbers else "no key"
        fault(
            FormatError(
                f"the .idx has {what} for the record here: its sample gets the key {keys[-1]!r}",
                file.path,
                offset,
            )
        )
    return keys
