"""Writing RecordIO files: the `.rec`, and the `.idx` with a line per record."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
from typing_extensions import Buffer

from bushel import kernels
from bushel._index.builders import IndexBuilder
from bushel._index.shard import Shard
from bushel._runtime.arrays import I64, U8, U32
from bushel.codecs.base import INTEGERS
from bushel.containers.base import Layout, ShardWriter, Values
from bushel.containers.packed_map import Packed, encode, mark_absent, refuse_map
from bushel.containers.stored_column import ColumnLimits, StoredColumn, StoredColumns, fitting
from bushel.errors import SpecError
from bushel.spec import Spec

from .scan import IMAGE_HEADER, LARGEST, MAGIC

if TYPE_CHECKING:
    from bushel.storage import Staging

Form: TypeAlias = Literal["image", "raw", "maps"]
"""The ways to store samples: as MXNet's image records, as plain values, or as maps of several fields."""

_NUMBERS = (*INTEGERS, "float", "f32", "array", "recordio-label", "recordio-label-int")
_IMAGES = ("jpg", "jpeg", "png", "webp", "image", "bytes")
_PART = struct.Struct("<II")
_SMALL = 1 << 14  # bytes of a record that is joined before it is written
_U64 = 1 << 64
_WORD = 4  # size of a length word in bytes
# bytes of a record and of its image's header, if the label is a single number
_FRAME = 8 + IMAGE_HEADER
# where fields are in such a record
_PLACES = {"label": 0, "id": 8, "id2": 16, "image": IMAGE_HEADER}


def form_of(spec: Spec) -> Form:
    """Return how samples of a spec are stored: as image records if all fields are `image`, `label`, `id` or `id2`."""
    codecs_by_name = {"image": _IMAGES, "label": _NUMBERS, "id": INTEGERS, "id2": INTEGERS}
    if "image" in spec and all(
        name in codecs_by_name
        and not field.sequence
        and _base(field.codec, name) in codecs_by_name[name]
        for name, field in spec.items()
    ):
        return "image"
    if len(spec) == 1 and not any(field.sequence for field in spec.values()):
        return "raw"
    return "maps"


def stored_codec(name: str, codec: str) -> str:
    """Return the codec in which an image record stores a field."""
    if name == "image":
        return codec
    if name != "label":
        return "u64"
    if codec in (*INTEGERS, "recordio-label-int"):
        return "recordio-label-int"
    return "recordio-label"


def _base(codec: str, name: str) -> str:
    if name == "image":
        return codec.partition("(")[0]
    return codec


class RecordIOWriter(ShardWriter):
    """Writes one file and its `.idx`: see `ShardWriter`."""

    def __init__(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> None:
        # a shard that is appended to may have had no .idx
        self._names = (shard.files[0], idx_name(shard.files[0]))
        self._builder = builder
        self._fields = [column.field for column in layout.columns]
        self._form = form_of({field.name: field for field in self._fields})
        self._encode = {"image": self._image, "raw": self._raw, "maps": self._map}[self._form]
        self._data, self._idx = (staging.open(name) for name in self._names)

    def append(self, key: str | None, values: Values) -> None:
        """Write one sample as one record, and its line of the `.idx`."""
        name = check_key(key) if key is not None else str(self._builder.samples)
        offset = self._record(self._encode(key, values))
        self._idx.write(f"{name}\t{offset}\n".encode("utf-8", "surrogateescape"))
        self._builder.close_sample(key)

    @property
    def column_limits(self) -> ColumnLimits | None:
        """Plain values."""
        if self._form == "raw":
            return ColumnLimits()
        return None

    def extend(self, keys: StoredColumn | None, columns: StoredColumns, room: int | None) -> int:
        """Write many plain values or images, and their lines of the `.idx`."""
        if self._form != "raw":
            if self._form == "image":
                return self._extend_images(keys, columns, room)
            return 0
        [(name, values)] = columns.items()
        if int(values.lengths.max()) > LARGEST:
            return 0
        check_keys(keys)
        refuse_map(self._builder, values[0][:16])
        framed, ends, split = kernels.frame_recordio(values.data, values.offsets)
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        lines, line_ends = self._lines(keys, starts)
        count = fitting(ends + line_ends, room)
        base = self._data.write(framed[: ends[count - 1]].data)
        self._idx.write(lines[: line_ends[count - 1]].data)
        length = values.lengths[:count]
        pieces = split[:count] != 0
        column = self._builder.columns[name]
        before, words = len(self._builder.left_out), np.zeros(count, np.int64)
        for row in np.flatnonzero(pieces).tolist():
            first, size = int(starts[row]), int(length[row])
            words[row] = self._leave_out(
                framed[first : int(ends[row]) - -size % 4].data, base + first, row
            )
        sums = values.rows(0, count).crc32
        left_out = before + np.cumsum(words) - words
        column.add_rows(base + starts[:count] + 8 - _WORD * left_out, length, sums)
        self._builder.close_samples(count, keys)
        return count

    def _lines(self, keys: StoredColumn | None, starts: I64) -> tuple[U8, I64]:
        """Return the lines of the `.idx` of records that begin at these places, and the end of each line."""
        key_text = None
        if keys is not None:
            key_text = keys.data, keys.offsets
        return kernels.frame_idx(key_text, self._builder.samples, self._data.position + starts)

    def _extend_images(
        self, keys: StoredColumn | None, columns: StoredColumns, room: int | None
    ) -> int:
        """Write images, up to the first record that has to be split. Their labels are single numbers."""
        images = columns["image"]
        if int(images.lengths.max()) > LARGEST - IMAGE_HEADER:
            return 0
        headers = self._image_headers(keys, columns)
        if headers is None:
            return 0
        split = (headers[:, 2:] == MAGIC).any(axis=1) | kernels.contain_magic(
            images.data, images.offsets
        )
        check_keys(keys)
        sizes = _FRAME + images.lengths + -images.lengths % _WORD
        starts = np.cumsum(sizes) - sizes
        lines, line_ends = self._lines(keys, starts)
        count = min(
            fitting(starts + sizes + line_ends, room),
            int(split.argmax()) if split.any() else len(images),
        )
        if count == 0:
            return 0
        images, headers = images.rows(0, count), headers[:count]
        pieces = _pieces(headers.tobytes(), images)
        if images.is_large:
            base = self._data.write_pieces(pieces)
        else:
            base = self._data.write(b"".join(pieces))
        self._idx.write(lines[: line_ends[count - 1]].data)
        payload = base + starts[:count] + 8 - _WORD * len(self._builder.left_out)
        for field in self._fields:
            column, place = self._builder.columns[field.name], _PLACES[field.name]
            if field.name == "image":
                column.add_rows(payload + place, images.lengths, images.crc32)
                continue
            numbers = (
                np.ascontiguousarray(headers[:, 2 + place // 4 : 4 + place // 4])
                .view(np.uint8)
                .reshape(-1)
            )
            ends = np.arange(count + 1) * 8
            column.add_rows(payload + place, np.diff(ends), kernels.crc32_rows(numbers, ends))
        self._builder.close_samples(count, keys)
        return count

    def _image_headers(self, keys: StoredColumn | None, columns: StoredColumns) -> U32 | None:
        """Return the headers of records and images, uint32[n, 8]; None if a label is not a single number."""
        count = len(columns["image"])
        headers = np.zeros((count, _FRAME // _WORD), "<u4")
        headers[:, 0], headers[:, 1] = MAGIC, columns["image"].lengths + IMAGE_HEADER
        for name in ("label", "id", "id2"):
            if (values := columns.get(name)) is not None:
                if (values.lengths != 8).any():
                    return None
                at = 2 + _PLACES[name] // _WORD
                headers[:, at : at + 2] = values.content.view("<u4").reshape(count, 2)
        if headers[:, 2].any():  # labels of several numbers
            return None
        if "id" not in columns:
            texts: Sequence[str | None] = [None] * count if keys is None else keys.texts
            numbers = [_number(key, row) for row, key in enumerate(texts, self._builder.samples)]
            headers[:, 4:6] = np.array(numbers, "<u8").view("<u4").reshape(count, 2)
        return headers

    def finish(self) -> Sequence[str]:
        """Return the names of the files; everything is already written."""
        return self._names

    def _raw(self, key: str | None, values: Values) -> Packed:
        [field] = self._fields
        value = cast("Buffer", values[field.name])
        refuse_map(self._builder, value)
        return Packed([value], memoryview(value).nbytes, [(field.name, 0, value)])

    def _map(self, key: str | None, values: Values) -> Packed:
        mark_absent(self._builder, values)
        return encode(key, self._fields, values)

    def _image(self, key: str | None, values: Values) -> Packed:
        label = bytes(cast("Buffer", values.get("label", bytes(8))))
        number = _number(key, self._builder.samples).to_bytes(8, "little")
        ids = [
            bytes(cast("Buffer", values.get(name) or default))
            for name, default in (("id", number), ("id2", bytes(8)))
        ]
        flag = int.from_bytes(label[:4], "little")
        if len(label) != (IMAGE_HEADER + 4 * flag if flag else 8):
            raise SpecError(
                f"field 'label': {len(label)} bytes are not the label of an image record"
            )
        if any(len(raw) != 8 for raw in ids):
            raise SpecError("fields 'id' and 'id2' of an image record must have 8 bytes")
        header = b"".join((label[:8], *ids, label[IMAGE_HEADER:]))
        image = cast("Buffer", values["image"])
        stored: dict[str, Buffer] = {
            "image": image,
            "label": header if flag else label,
            "id": ids[0],
            "id2": ids[1],
        }
        places = _PLACES | {"image": len(header)}
        placed = [(field.name, places[field.name], stored[field.name]) for field in self._fields]
        return Packed([header, image], len(header) + memoryview(image).nbytes, placed)

    def _record(self, packed: Packed) -> int:
        pieces, size = packed.pieces, packed.size
        if size > LARGEST:
            raise SpecError(
                f"a record of {size} bytes is too large: recordio "
                f"holds {LARGEST} bytes; use bag, tar or ffrecord"
            )
        crc32_of: dict[int, int] = {}  # CRC-32, by the identity of a piece
        if (sums := kernels.recordio_crc32(pieces)) is not None:
            crc32_of.update(zip(map(id, pieces), sums, strict=True))
            record = [_PART.pack(MAGIC, size), *pieces, bytes(-size % 4)]
            if size < _SMALL:
                record = [b"".join(record)]
            offset = self._data.position
            for piece in record:
                self._data.write(piece)
        else:
            framed = kernels.split_recordio(b"".join(pieces))
            offset = self._data.write(framed)
        payload = offset + 8 - _WORD * len(self._builder.left_out)
        if sums is None and len(framed) > 8 + size + -size % 4:  # it was split
            self._leave_out(framed[: len(framed) - -size % 4], offset)
        for name, start, value in packed.values:
            column, length = self._builder.columns[name], memoryview(value).nbytes
            crc32 = crc32_of.get(id(value)) or kernels.crc32(value)
            column.add(payload + start, length, crc32)
        return offset

    def _leave_out(self, record: Buffer, offset: int, row: int = 0) -> int:
        """Note the length words of a record, which the block file leaves out, and return their number.

        Args:
            record: The record without padding.
            offset: Its offset in the file.
            row: Number of its sample, counted from the first one that is not closed.
        """
        from bushel._index.block_arrays import length_words

        words = length_words(memoryview(record))
        self._builder.left_out += [(self._builder.samples + row, offset + at) for at in words]
        return len(words)


def _number(key: str | None, position: int) -> int:
    """Return MXNet's id of a sample: its key if that is a number, else its position in the file."""
    if key is not None and key.isdecimal() and key.isascii() and len(key) < 21 and int(key) < _U64:
        return int(key)
    return position


def _pieces(headers: bytes, images: StoredColumn) -> list[bytes | memoryview]:
    """Return records as `Sink.write_pieces` takes them: in turns, padding and the next header, and an image."""
    pieces: list[bytes | memoryview] = []
    at, padding = 0, b""
    for image in images.pieces:
        pieces += [padding + headers[at : at + _FRAME], image]
        at, padding = at + _FRAME, bytes(-len(image) % _WORD)
    if padding:
        return [*pieces, padding]
    return pieces


# The `.idx`


def idx_name(name: str) -> str:
    """Return the name of the `.idx` that belongs to a file."""
    return f"{name.removesuffix('.rec')}.idx"


def check_key(key: str) -> str:
    """Return the key if MXNet can read it back from a line of an `.idx`.

    Raises:
        SpecError: MXNet cannot.
    """
    if (
        not key
        or key != key.lstrip()
        or not {"\t", "\n", "\r"}.isdisjoint(key)
        or not key.isprintable()
        and any("\ud800" <= character <= "\udfff" for character in key)
    ):
        raise SpecError(
            f"the .idx of a recordio file cannot hold the key {key!r}: keys "
            "there are text without tabs, line breaks and leading spaces"
        )
    return key


def check_keys(keys: StoredColumn | None) -> None:
    """Check many keys as `check_key` does. Keys of letters, digits and common signs are checked all at once."""
    if keys is not None and not keys.harmless:
        for row in range(len(keys)):
            check_key(keys[row].decode("utf-8", "surrogateescape"))
