"""MXNet RecordIO: framed records in a `.rec`, and an optional `.idx` of keys and offsets.

Image records have the fields of their header. Other records are samples of one field as they are,
or maps of several (`packed_map`). docs/format-recordio.md has the layout, the rules and an example.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel.containers.base import (
    Container,
    Layout,
    LayoutField,
    ReadOptions,
    WriteOptions,
)
from bushel.containers.packed_map import damaged, limit_of
from bushel.errors import FormatError, SpecError
from bushel.spec import Spec
from bushel.storage import AnyPath, File, copy_to_append, open_file, write_whole

from .idx import Table, format_idx, idx_name, parse_idx
from .scan import (
    Payloads,
    follow,
    payloads_of,
    scan_records,
)
from .writer import RecordIOWriter, form_of, stored_codec

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
        names = {entry.name for entry in path.iterdir()}
        parts = sorted(filter(_NAME.fullmatch, names))
        return [_shard(path, name, has_idx=idx_name(name) in names) for name in parts] or None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one file: the records that its `.idx` lists, in that order; without one, all records."""
        from .reading import index_of

        files = list(map(open_file, shard.paths))
        data, keys = files[0], None
        if len(files) == 1:
            records, end, fault = scan_records(data)
            options.report(end)
            if fault is not None:
                raise fault
        else:
            table = _table(files[1])
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
            There is an error for the first record that the `.idx` leaves out, for every key that
            appears twice, and for bytes at the end that are not a complete record.
        """
        files = list(map(open_file, shard.paths))
        records, _, fault = scan_records(files[0])
        faults = [] if fault is None else [fault]
        if len(files) > 1:
            table = _table(files[1])
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
        data = open_file(shard.path(0))
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
            table = open_file(shard.path(1))
            text = table.read(0, table.size)
            text += b"" if text.endswith(b"\n") or not text else b"\n"
        else:
            text = format_idx(records.offset)
        write_whole(staging.path_of(idx), text)
        return {rec: end, idx: len(text)}


def _shard(root: AnyPath, name: str, *, has_idx: bool) -> Shard:
    return Shard(root, name, (name, idx_name(name)) if has_idx else (name,))


def _table(file: File) -> Table:
    return parse_idx(file.read(0, file.size), file.path)


def _existing_form(payloads: Payloads, index: ShardIndex) -> str:
    label = index.fields.get("label")
    if label is not None and label.codec.startswith("recordio-label"):
        return "image"
    if "image" in index.fields and len(index.fields) == 1:
        return form_of({"image": index.fields["image"].field})
    from .reading import holds_maps

    if holds_maps(payloads):
        return "maps"
    return "raw"


CONTAINER = _RecordIO()
