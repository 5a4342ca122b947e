"""GulpIO and GulpIO2: folders of chunks, each a `.gulp` file of JPEG frames and a `.gmeta` file with its table.

Zeros pad each frame to a multiple of four bytes. `gmeta` describes `.gmeta` files;
docs/format-gulp.md has the layout, the rules and an example.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
from msgspec.structs import replace
from typing_extensions import Buffer

from bushel import kernels
from bushel._index.names import Labels, check_labels, in_order, numbered
from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel.codecs import get_codec
from bushel.containers.base import (
    Container,
    Layout,
    LayoutField,
    ReadOptions,
    ShardWriter,
    Stored,
    Values,
    WriteOptions,
)
from bushel.containers.stored_column import StoredColumn, StoredColumns
from bushel.errors import FormatError, SpecError, UnsupportedError
from bushel.spec import Field, Spec
from bushel.storage import AnyPath, File, copy_to_append, is_local, read_whole

from .gmeta import Gmeta, frames_field, hint, parse_gmeta
from .reading import (
    DATA,
    META,
    TABLE,
    chunk_names,
    chunk_number,
    index_items,
    is_data,
    next_label,
    padding,
    pair_chunk,
    pair_chunks,
    whole_items,
)

if TYPE_CHECKING:
    from bushel._index.builders import IndexBuilder
    from bushel.storage import Staging

_JSON = frozenset(
    {"int", "uint", "i64", "u64", "cls", "float", "f32", "float-text", "utf8", "json"}
)
"""The codecs whose values JSON can represent."""
_SMALL = 1 << 12  # bytes
_as_json = json.JSONEncoder().encode
"""Return the text that `json.dumps` returns, which would look at its options for each value."""


class _ChunkWriter(ShardWriter):
    """Writes frames to the `.gulp`, then the item's entry to the `.gmeta`, which `finish` closes."""

    def __init__(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> None:
        self._names, self._builder = shard.files, builder
        self._data, self._table = (staging.open(name) for name in shard.files)
        [self._frames] = (column.field for column in layout.columns if column.file == DATA)
        self._others = [column.field for column in layout.columns if column.file == TABLE]
        self._labels = {field.name: json.dumps(field.name) + ": " for field in self._others}
        self._whole = self._others == [META]

    def append(self, key: str | None, values: Values) -> None:
        """Write one item."""
        if key is None:
            raise SpecError("a gulp item needs an id: pass a key to append")
        self._append_entry(key, self._append_frames(values), values)
        self._builder.close_sample(key)

    def _append_entry(self, key: str, frames: list[list[int]], values: Values, row: int = 0) -> int:
        """Write the entry of an item, and return its size. `row` counts items that are not closed yet."""
        opening = "{" if self._builder.samples + row == 0 else ", "
        text = f'{opening}{_as_json(key)}: {{"frame_info": {frames}, "meta_data": ['
        text += (self._whole_meta(values, text) if self._whole else self._meta(values, text)) + "]}"
        self._table.write(text.encode("ascii"))
        return len(text)

    def extend(self, keys: StoredColumn | None, columns: StoredColumns, room: int | None) -> int:
        """Write many items with one large frame each."""
        frames = columns[self._frames.name]
        if keys is None or not frames.is_large:
            return 0
        base, size, entries = self._data.position, 0, 0
        pieces: list[bytes | memoryview] = []
        offsets: list[int] = []
        for row, (key, frame) in enumerate(zip(keys.texts, frames.pieces, strict=True)):
            offset, length, pad = base + size, len(frame), padding(len(frame))
            offsets.append(offset)
            pieces += [frame, bytes(pad)]
            values = {field.name: columns[field.name][row] for field in self._others}
            entries += self._append_entry(key, [[offset, pad, length + pad]], values, row)
            size += length + pad
            if room is not None and size + entries >= room:
                break
        self._data.write_pieces(pieces)
        frames = frames.rows(0, len(offsets))
        self._builder.columns[self._frames.name].add_rows(
            np.array(offsets, np.int64), frames.lengths, frames.crc32
        )
        self._builder.close_samples(len(offsets), keys)
        return len(offsets)

    def finish(self) -> Sequence[str]:
        """Close the JSON object."""
        self._table.write(b"}" if self._builder.samples else b"{}")
        return self._names

    def _append_frames(self, values: Values) -> list[list[int]]:
        name = self._frames.name
        if name not in values:
            if self._frames.sequence:
                raise SpecError(
                    f"field {name!r} is missing: store an empty list for a gulp item without frames"
                )
            return []
        stored = values[name]
        column, info = self._builder.columns[name], []
        for frame in cast("Iterator[Buffer]", stored if self._frames.sequence else (stored,)):
            if type(frame) is bytes:
                length = len(frame)
            else:
                length = memoryview(frame).nbytes
            pad = padding(length)
            if pad and length < _SMALL:  # a copy takes less time than another call
                offset = self._data.write(b"".join((frame, bytes(pad))))
            else:
                offset = self._data.write(frame)
                if pad:
                    self._data.write(bytes(pad))
            column.add(offset, length, kernels.crc32(frame))
            info.append([offset, pad, length + pad])
        return info

    def _whole_meta(self, values: Values, before: str) -> str:
        if "meta" not in values:
            raise SpecError(
                "field 'meta' is missing: store an empty dict for a gulp item without metadata"
            )
        text = self._add(META, values["meta"], self._table.position + len(before))
        if not text.startswith("{"):
            raise SpecError(f"field 'meta' of a gulp item must be a dict, not {text[:40]}")
        return text

    def _meta(self, values: Values, before: str) -> str:
        text, start = "{", self._table.position + len(before)
        for field in self._others:
            name = field.name
            if name not in values:
                self._builder.columns[name].mark_absent()
                continue
            if len(text) > 1:
                text += ", "
            text += self._labels[name]
            if field.sequence:
                text += self._list(field, values[name], start + len(text))
            else:
                text += self._add(field, values[name], start + len(text))
        return text + "}"

    def _list(self, field: Field, stored: Stored, offset: int) -> str:
        """Add the elements of a sequence, and return the JSON of the list that begins at an offset."""
        text = "["
        for element in cast("Iterator[Buffer]", stored):
            if len(text) > 1:
                text += ", "
            text += self._add(field, element, offset + len(text))
        return text + "]"

    def _add(self, field: Field, stored: Stored, offset: int) -> str:
        """Add the extent of a value at an offset of the table, and return its JSON."""
        text = _json_text(field, cast("Buffer", stored))
        self._builder.columns[field.name].add(
            offset, len(text), kernels.crc32(text.encode("ascii"))
        )
        return text


class _Gulp(Container):
    name = "gulp"
    files_per_shard = 2
    needs_keys = True
    names_file = "label2idx.json"
    writer = _ChunkWriter

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return one shard per chunk, in GulpIO2's order: names sorted as text, so chunk 10 comes before chunk 2."""
        if not path.is_dir():
            if is_data(path.name):
                return pair_chunk(path)
            return None
        data, tables = chunk_names(path)
        if data or tables:
            return pair_chunks(path, data, tables)
        return None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one chunk, from its `.gmeta`."""
        data, table = shard.open(DATA), shard.open(TABLE)
        text = table.read(0, table.size)
        parsed = parse_gmeta(text, table.path, unpickle=options.pickle)
        options.report(len(text))
        _check_frames(parsed, data, table)
        return index_items(shard, [data, table], text, parsed, options)

    def class_names(self, root: AnyPath) -> Labels:
        """Return the names in GulpIO2's `label2idx.json`, for the fields that its numbers may be in.

        In a folder that GulpIO2 wrote, all values are in `meta`: the names belong to `meta.label`.
        """
        place = root / self.names_file
        # the usual case; of an object store, one request finds out and reads
        if is_local(root) and not place.exists():
            return {}
        try:
            names = in_order(msgspec.json.decode(read_whole(place), type=dict[str, int]))
            return check_labels(dict.fromkeys(("label", "idx", "meta.label"), names))
        except (OSError, ValueError, RecursionError, SpecError):  # GulpIO2 works without it
            return {}

    def file_of_names(self, labels: Labels) -> bytes | None:
        """Return `label2idx.json`, which GulpIO2's dataset reads: the names of one field, of `label` if it has some."""
        names = labels.get("label") or next(iter(labels.values()), None)
        if names is None:
            return None
        return json.dumps(numbered(names), ensure_ascii=False).encode()

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Return how samples are stored: JPEG frames in the `.gulp`, everything else in the item's meta dict."""
        frames = frames_field(spec)
        in_meta = [field for field in spec.values() if field is not frames]
        for field in in_meta:
            if field.base_codec not in _JSON:
                raise SpecError(
                    f"field {field.name!r}: gulp stores all but the frames as JSON, "
                    f"which cannot hold {field.type}; use tar, ffrecord, recordio or bag"
                )
        limits = ("JSON is rewritten with the spaces and escapes that GulpIO2 uses",)
        columns = {field.name: LayoutField(field, "json", TABLE) for field in spec.values()}
        columns[frames.name] = LayoutField(frames, frames.codec, DATA)
        return Layout(
            tuple(columns.values()),
            replace(options, keyed=True),
            sparse=True,
            limits=limits * bool(in_meta),
            only_named_kinds=True,
        )

    def shard(
        self, root: AnyPath, layout: Layout, before: Sequence[Shard], name: str | None
    ) -> Shard:
        """Return `data_<number>.gulp` and its `.gmeta`, or the pair of the file that the user named.

        Readers sort the names of chunks as text. So several chunks get numbers of six digits, and
        the chunk after `data_9` is `data_90`, which keeps samples in order.
        """
        if name is None:
            taken = [name for shard in before for name in shard.files]
            label = next_label(root, taken, "0" if layout.options.single else "000000")
            return Shard(root, f"data_{label}.gulp", (f"data_{label}.gulp", f"meta_{label}.gmeta"))
        self.check_name(name)
        return Shard(root, name, (name, f"meta_{chunk_number(root, name)}.gmeta"))

    def check_name(self, name: str) -> None:
        """Check that GulpIO2 would find a chunk of this name. Raise SpecError if it would not."""
        if not is_data(name) or re.search(r"\d", name) is None:
            raise SpecError(
                f"{name}: a gulp chunk must be named "
                "data_<number>.gulp; or name the folder for the chunks"
            )

    def reopen(
        self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging
    ) -> dict[str, int]:
        """Copy a chunk into staging, its `.gmeta` without the closing brace."""
        if index.blocks:
            raise UnsupportedError(
                f"{shard.path(TABLE)} is not plain JSON, so Bushel cannot append to it; add chunks"
            )
        positions = {}
        for number, name in enumerate(shard.files):
            copy_to_append(shard.path(number), staging.path_of(name))
            positions[name] = index.files[number].size
        table = staging.path_of(shard.files[TABLE])
        text = read_whole(table).rstrip()
        positions[table.name] = len(text[:-1].rstrip()) if index.samples else 0
        return positions


def _json_text(field: Field, stored: Buffer) -> str:
    """Return a value's JSON as GulpIO2 spells it, which is as `json.dumps` does: ASCII, so characters are bytes."""
    try:
        text = str(stored, "utf-8")
        # as labels are
        if text.isascii() and text.isdigit() and (text[0] != "0" or len(text) == 1):
            value = int(text)
        else:
            value = json.loads(text)
            text = _as_json(value)
    except (ValueError, RecursionError) as error:
        raise SpecError(
            f"field {field.name!r}: gulp stores it as JSON, but these bytes are not: {error}"
        ) from error
    if field.codec != "json":
        get_codec(field.codec).encode(value)  # refuses JSON of another type
    return text


def _check_frames(parsed: Gmeta, data: File, table: File) -> None:
    """Refuse frames that reach beyond the data file or overlap, and bytes at its end that belong to no frame."""

    def refuse(error: FormatError) -> None:
        raise FormatError(error.message, error.file, error.offset, hint(data.path))

    whole_items(parsed, data, refuse)
    end = int((parsed.frames[:, 0] + parsed.frames[:, 2]).max(initial=0))
    if end != data.size:
        refuse(
            FormatError(
                f"{data.size - end} bytes at the end belong to no frame of {table.path}",
                data.path,
                end,
            )
        )


CONTAINER = _Gulp()
