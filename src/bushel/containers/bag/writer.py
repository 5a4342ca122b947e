"""Writing Granular datasets: the layout for a spec, and the files of a shard."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgpack
import numpy as np
from msgspec.structs import replace
from typing_extensions import Buffer

from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import I64
from bushel.codecs import get_codec
from bushel.codecs.registry import asked_for
from bushel.containers.base import (
    Layout,
    LayoutField,
    ShardWriter,
    Values,
    WriteOptions,
)
from bushel.containers.stored_column import ColumnLimits, StoredColumn, StoredColumns, fitting
from bushel.errors import SpecError
from bushel.kernels import crc32
from bushel.spec import KEY, Spec
from bushel.storage import below, copy_to_append

from .tables import gapless

if TYPE_CHECKING:
    from bushel.storage import Sink, Staging

_SAME_BYTES = {"jpeg": "jpg", "int(8)": "u64"}
"""Types of the package `bags` that have another name in Granular."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
LONGEST_NAME = 255 - len(".bag")
_PACKED_AT_ONCE = 1 << 16
_NUMBERS = (
    (None, 1, 1 << 7),
    (0xCC, 1, 1 << 8),
    (0xCD, 2, 1 << 16),
    (0xCE, 4, 1 << 32),
    (0xCF, 8, 1 << 63),
)
"""How msgpack writes unsigned integers: the byte before them, if any, their size, and the first that is too large."""


def generation_of(options: WriteOptions) -> str:
    """Return the generation to write: B by default."""
    return options.generation or "B"


def stored_codec(codec: str, generation: str) -> str:
    """Return the codec of the bytes that a dataset of this generation holds for a type.

    Generation A wrote `int` unsigned, and 0 as no bytes. A type that only its author can decode
    gives `bytes`.
    """
    try:
        get_codec(codec)
    except SpecError:
        return "bytes"
    if generation == "A" and codec == "int":
        return "uint"
    return _SAME_BYTES.get(codec, codec)


def plan_layout(spec: Spec, options: WriteOptions) -> Layout:
    """Return how samples of this spec are stored.

    Raises:
        SpecError: No file can have the name of a field, or generation C would have to hold a
            sequence.
    """
    generation = generation_of(options)
    if not spec:
        raise SpecError("a bag needs at least one field: add one, or use another container")
    folded: dict[str, str] = {}
    for name, field in spec.items():
        _check_name(name)
        if (other := folded.setdefault(name.casefold(), name)) != name:
            raise SpecError(
                f"fields {other!r} and {name!r} differ only in case, which some file systems ignore"
            )
        get_codec(field.codec)
        if field.sequence and generation == "C":
            raise SpecError(
                f"field {name!r}: generation C of the bag cannot hold sequences; use "
                "generation='B', or the containers ffrecord, recordio or tar, or gulp for frames"
            )
    numbers = {name: number for number, name in enumerate(_all_names(spec, options))}
    columns = [
        LayoutField(field, stored_codec(field.codec, generation), numbers[name])
        for name, field in spec.items()
    ]
    return Layout(tuple(columns), options)


def _check_name(name: str) -> None:
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise SpecError(
            f"field {name!r} is not valid UTF-8 text, so no bag file can have that name"
        ) from error
    odd = "/" in name or name.startswith(".") or _CONTROL.search(name) is not None
    if odd or name in ("refs", KEY) or length > LONGEST_NAME:
        raise SpecError(
            f"a bag cannot have a field called {name!r}, because each field is a file: "
            "use no '/', no control characters, no leading '.', at most "
            f"{LONGEST_NAME} bytes, and not 'refs'; rename it, or use another container"
        )


def _all_names(fields: Iterable[str], options: WriteOptions) -> list[str]:
    return sorted([*fields, KEY] if options.keyed else fields)


def copy_records(shard: Shard, index: ShardIndex, place: Path) -> dict[str, int]:
    """Copy the records of a shard, but not its tables, into a staging folder.

    Returns:
        The number of bytes of each copied bag, by name.

    Raises:
        SpecError: The records are not in the order of the samples, so a new table cannot
            describe them.
    """
    positions = {}
    for column in index.fields.values():
        name = shard.files[column.file]
        if not gapless(column.offset, column.length):
            raise SpecError(
                f"{shard.path(column.file)} has records that no sample refers to, so Bushel "
                "cannot append to it: write a new dataset with `bushel convert` first"
            )
        positions[name] = int(column.length.sum())
        target = below(place, name, any_text=True)
        copy_to_append(shard.path(column.file), target)
        os.truncate(target, positions[name])  # the table is small, so copying it, too, costs little
    return positions


class BagWriter(ShardWriter):
    """Writes one shard: records as samples arrive, everything else from the builder when it is finished."""

    __slots__ = ("_builder", "_fields", "_generation", "_layout", "_shard", "_staging")

    def __init__(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> None:
        self._layout, self._shard, self._staging, self._builder = layout, shard, staging, builder
        self._generation = generation_of(layout.options)
        self._fields: list[tuple[str, Sink, FieldBuilder]] = [
            (
                column.field.name,
                staging.open(shard.files[column.file]),
                builder.columns[column.field.name],
            )
            for column in layout.columns
        ]

    def append(self, key: str | None, values: Values) -> None:
        """Write one sample."""
        for name, sink, column in self._fields:
            value = values[name]
            if column.starts is None:
                start = sink.write(cast("Buffer", value))
                column.add(start, sink.position - start, crc32(cast("Buffer", value)))
                continue
            for element in cast("Iterable[Buffer]", value):
                start = sink.write(element)
                column.add(start, sink.position - start, crc32(element))
        self._builder.close_sample(key)

    @property
    def column_limits(self) -> ColumnLimits | None:
        """All samples, unless a field is a sequence."""
        if any(column.starts is not None for _, _, column in self._fields):
            return None
        return ColumnLimits()

    def extend(self, keys: StoredColumn | None, columns: StoredColumns, room: int | None) -> int:
        """Write many samples: the records of each field are its values one after another."""
        ends = np.add.reduce([columns[name].ends for name, _, _ in self._fields])
        count = fitting(ends, room)
        for name, sink, column in self._fields:
            values = columns[name].rows(0, count)
            lengths, checksums = values.lengths, values.crc32
            starts = values.ends - lengths
            starts += sink.write(values.content.data)
            column.add_rows(starts, lengths, checksums)
        self._builder.close_samples(count, keys)
        return count

    def finish(self) -> Sequence[str]:
        """Write the tables, the keys, the refs and the spec."""
        prefix = self._shard.files[-1].removesuffix("spec.json")
        for _, sink, column in self._fields:
            ends = np.frombuffer(column.offset, np.int64) + np.frombuffer(column.length, np.int64)
            self._write_table(sink, prefix, ends)
        if self._layout.options.keyed:
            sink = self._staging.open(f"{prefix}{KEY}.bag")
            text, offsets = self._builder.key_arrays()
            sink.write(text.data)
            self._write_table(sink, prefix, offsets[1:])
        if self._generation != "C":
            sink = self._staging.open(f"{prefix}refs.bag")
            self._write_table(sink, prefix, self._write_refs(sink))
        self._staging.open(self._shard.files[-1]).write(self._spec())
        return self._shard.files

    def _write_table(self, sink: Sink, prefix: str, ends: I64) -> None:
        """Write the table of a bag whose records end at `ends`: at its end, or beside it."""
        if self._generation == "C":
            sink = self._staging.open(f"{prefix}{sink.path.stem}.idx")
        sink.write(encode_table(ends, self._generation))

    def _write_refs(self, sink: Sink) -> I64:
        """Write which records each sample refers to, and return where each reference ends."""
        names = _all_names(self._builder.columns, self._layout.options)
        starts = [None if name == KEY else self._builder.columns[name].starts for name in names]
        ends, at = np.empty(self._builder.samples, np.int64), 0
        for data, sizes in encode_refs(starts, len(ends)):
            sink.write(data)
            ends[at : at + len(sizes)] = sizes
            at += len(sizes)
        return np.cumsum(ends, out=ends)

    def _spec(self) -> bytes:
        """Return the content of `spec.json`: the types as declared, keys sorted, as `json.dumps` writes it."""
        fields = (column.field for column in self._layout.columns)
        types = {field.name: replace(field, codec=asked_for(field.codec)).type for field in fields}
        if self._layout.options.keyed:
            types[KEY] = "utf8"
        return json.dumps(dict(sorted(types.items()))).encode()


def encode_table(ends: I64, generation: str) -> bytes:
    """Return the table of a bag whose records end at `ends`.

    A bag of generation B with an empty record gets a table of generation A: readers take a table of
    ends that starts with 0 for a table of starts, and they decide file by file.
    """
    lengths_are_positive = bool((ends[:1] > 0).all() and (ends[1:] > ends[:-1]).all())
    starts = generation == "A" or (generation == "B" and not lengths_are_positive)
    return (bytes(8) if starts else b"") + ends.astype("<u8", copy=False).tobytes()


def encode_refs(
    starts: Sequence[Sequence[int] | None], samples: int
) -> Iterator[tuple[bytes | memoryview, I64]]:
    """Yield the records of `refs.bag` for bags whose records are in the order of the samples.

    Args:
        starts: For each field in the order of their names: for a sequence field the number of each
            sample's first record, samples + 1 of them; None for a plain field.
        samples: Number of samples.

    Yields:
        data: Records, one after another.
        lengths: int64, length of each record.
    """
    if all(first is None for first in starts):
        yield from _encode_plain(len(starts), samples)
        return
    pack = msgpack.Packer().pack
    for begin in range(0, samples, _PACKED_AT_ONCE):
        end = min(begin + _PACKED_AT_ONCE, samples)
        columns: list[Iterable[object]] = [
            range(begin, end)
            if first is None
            else [
                (low, high - low) if high > low else ()
                for low, high in pairwise(first[begin : end + 1])
            ]
            for first in starts
        ]
        records = [pack(refs) for refs in zip(*columns, strict=True)]
        yield b"".join(records), np.fromiter(map(len, records), np.int64, len(records))


def _encode_plain(fields: int, samples: int) -> Iterator[tuple[memoryview, I64]]:
    """Yield the records of samples without sequences: each is a list with the sample's number for every field."""
    head = np.frombuffer(msgpack.Packer().pack_array_header(fields), np.uint8)
    at = 0
    for first_byte, width, stop in _NUMBERS:
        while at < min(stop, samples):
            end = min(at + _PACKED_AT_ONCE, stop, samples)
            kind = ([("first", np.uint8)] if first_byte is not None else []) + [
                ("number", f">u{width}")
            ]
            row = [("head", np.uint8, head.shape), ("numbers", kind, (fields,))]
            records = np.empty(end - at, row)
            records["head"] = head
            if first_byte is not None:
                records["numbers"]["first"] = first_byte
            records["numbers"]["number"] = np.arange(at, end)[:, None]
            yield records.data.cast("B"), np.full(end - at, records.itemsize, np.int64)
            at = end
