"""Extents as structs of Parquet's logical type FILE, and back: where the bytes of each value are.

A struct has `uri`, `offset`, `size`, `content_type` and `checksum`, as Parquet's LogicalTypes.md specifies them, and
`inline` for values that lie in no file. Nothing here does I/O. `ShardIndex.check` and `Blocks.check` check values from
a file; `rows_of_structs` checks that rows have all members of a struct.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel._index.one_piece import in_one_piece
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I32, I64, U8, U32, Bools, offsets_of
from bushel.errors import UnsupportedError
from bushel.storage.blocks import IN_TABLE, Blocks

_CONTENT_TYPES = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "bmp": "image/bmp",
    "tiff": "image/tiff",
    "avif": "image/avif",
    "heic": "image/heic",
    "jxl": "image/jxl",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "utf8": "text/plain",
    "cls": "text/plain",
    "json": "application/json",
    "msgpack": "application/vnd.msgpack",
}
"""The media types of stored bytes by codec. Others have none, which stands for `application/octet-stream`."""

_PREFIX = b"CRC32:"
_SIGNS = np.frombuffer(b"0123456789abcdef", np.uint8)


def struct_type(pa: Any, *, inline: bool) -> Any:
    """Return the Arrow type of the structs, with `inline` or without."""
    names = {
        "uri": pa.string(),
        "offset": pa.int64(),
        "size": pa.int64(),
        "content_type": pa.string(),
        "checksum": pa.string(),
    }
    return pa.struct([*names.items(), *([("inline", pa.large_binary())] if inline else [])])


def has_inline(index: ShardIndex, extents: FieldExtents) -> bool:
    """Return whether the table itself holds bytes of a field."""
    blocks = index.blocks_of(extents.file)
    return blocks is not None and bool((blocks.file == IN_TABLE).any())


def structs_of(
    pa: Any, index: ShardIndex, extents: FieldExtents, uris: Sequence[str], *, inline: bool, name: str
) -> Any:
    """Return a struct per sample for a plain field, and a list of structs per sample for a sequence field.

    Raises:
        UnsupportedError: A value lies in compressed blocks, or in several pieces, so that no offset and size name it.
    """
    missing = extents.length == MISSING
    number, offset = in_one_piece(index, extents)
    number = np.where(extents.length == 0, np.int32(0), number)
    elsewhere = np.flatnonzero((number < 0) & ~missing)
    held = _held(index, extents, elsewhere)
    if held is None:
        raise UnsupportedError(
            f"{name}: values of the field {extents.field.name!r} are compressed or lie in several pieces, so that no "
            f"offset and size name them: `bushel convert` writes a dataset whose index can be exported"
        )
    nowhere = missing | (number < 0)
    kind = struct_type(pa, inline=inline)
    media = _CONTENT_TYPES.get(extents.codec.partition("(")[0])
    untyped = missing if media else np.ones(extents.rows, np.bool_)
    types = pa.array([media], pa.string()).take(pa.array(np.zeros(extents.rows, np.int32), mask=untyped))
    children = [
        pa.array(uris, pa.string()).take(pa.array(number, mask=nowhere)),
        pa.array(np.ascontiguousarray(np.where(extents.length == 0, 0, offset)), mask=nowhere),
        pa.array(np.ascontiguousarray(extents.length), mask=nowhere),
        types,
        _checksums(pa, extents.crc32, extents.rows, missing),
    ]
    if inline:
        values: list[bytes | None] = [None] * extents.rows
        for row, value in zip(elsewhere.tolist(), held, strict=True):
            values[row] = value
        children.append(pa.array(values, pa.large_binary()))
    structs = pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(missing))
    if extents.starts is None:
        return structs
    offsets = pa.array(np.ascontiguousarray(extents.starts))
    absent = None if extents.absent is None else pa.array(np.ascontiguousarray(extents.absent))
    return pa.LargeListArray.from_arrays(offsets, structs, mask=absent)


def _held(index: ShardIndex, extents: FieldExtents, rows: I64) -> list[bytes] | None:
    """Return the bytes of values that the table itself holds; None if not all of these rows are such values."""
    if not len(rows):
        return []
    blocks = index.blocks_of(extents.file)
    if blocks is None or blocks.held is None or not len(blocks):
        return None
    begin, length = extents.offset[rows], extents.length[rows]
    block = np.clip(np.searchsorted(blocks.start, begin, "right") - 1, 0, len(blocks) - 1)
    inside = begin - blocks.start[block]
    whole = (inside >= 0) & (length <= blocks.sizes[block] - inside) & (blocks.file[block] == IN_TABLE)
    if not (whole & blocks.is_stored(block)).all():
        return None
    first, view = blocks.offset[block] + inside, blocks.held.data
    return [bytes(view[a:b]) for a, b in zip(first.tolist(), (first + length).tolist(), strict=True)]


def _checksums(pa: Any, crc32: U32 | None, rows: int, missing: Bools) -> Any:
    """Return `CRC32:` with eight digits for each row that has a value; nulls if the checksums are not known."""
    if crc32 is None:
        return pa.nulls(rows, pa.string())
    width = len(_PREFIX) + 8
    text = np.empty((rows, width), np.uint8)
    text[:, : len(_PREFIX)] = np.frombuffer(_PREFIX, np.uint8)
    for place in range(8):
        text[:, len(_PREFIX) + place] = _SIGNS[(crc32 >> np.uint32(28 - 4 * place)) & np.uint32(15)]
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    whole = pa.LargeStringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))
    return pa.compute.if_else(pa.array(missing), pa.scalar(None, pa.string()), whole.cast(pa.string()))


@dataclass(frozen=True, slots=True)
class StructRows:
    """The extents of a field that structs name."""

    file: int  # number of the file, or of the block file; -1 for a new block file, which is `blocks`
    offset: I64  # int64[rows]
    length: I64  # int64[rows]
    crc32: U32 | None  # uint32[rows]; None if a checksum is missing or of another kind
    starts: I64 | None  # int64[samples + 1] for a sequence field, else None
    absent: Bools | None  # bool[samples] for a sequence field, else None
    blocks: Blocks | None  # the block file of values that lie in several files, or in the table


def rows_of_structs(pa: Any, structs: Any, numbers: Mapping[str, int], sizes: Sequence[int]) -> StructRows:
    """Return the extents that an array of `structs_of` names, which may come from anywhere.

    Args:
        pa: The module pyarrow.
        structs: The array.
        numbers: The number of the file of each URI.
        sizes: The size of each file in bytes.

    Raises:
        ValueError: A struct lacks a part, names another file, or bytes that are not in it.
    """
    starts = absent = None
    if pa.types.is_large_list(structs.type) or pa.types.is_list(structs.type):
        absent = structs.is_null().to_numpy(zero_copy_only=False)
        counts = pa.compute.list_value_length(structs).fill_null(0).to_numpy(zero_copy_only=False)
        starts = offsets_of(counts)
        structs = structs.flatten()
    if not pa.types.is_struct(structs.type):
        raise ValueError(f"a field is of the type {structs.type}, not a struct")
    parts = dict(zip([each.name for each in structs.type], structs.flatten(), strict=True))
    kinds = {"uri": pa.string(), "offset": pa.int64(), "size": pa.int64(), "checksum": pa.string()}
    if lacking := sorted(kinds.keys() - parts.keys()):
        raise ValueError(f"a struct has no {lacking[0]!r}")
    missing = structs.is_null().to_numpy(zero_copy_only=False)
    own = {name: parts[name].cast(kind) for name, kind in kinds.items()}
    inline = parts["inline"].cast(pa.large_binary()) if "inline" in parts else pa.nulls(len(structs), pa.large_binary())
    held = inline.is_valid().to_numpy(zero_copy_only=False)
    for name in ("uri", "offset", "size"):
        if (own[name].is_null().to_numpy(zero_copy_only=False) & ~missing & ~held).any():
            raise ValueError(f"a value has neither {name!r} nor 'inline'")
    number = _numbers(own["uri"], numbers)
    offset = np.asarray(own["offset"].fill_null(0), np.int64)
    length = np.where(missing, MISSING, np.asarray(own["size"].fill_null(0), np.int64))
    there = np.flatnonzero(~missing & ~held)
    limit = np.asarray(sizes, np.int64)[number[there]]
    bad = (length[there] < 0) | (offset[there] < 0) | (offset[there] > limit - length[there])
    if bad.any():
        row = int(there[bad.argmax()])
        raise ValueError(f"{length[row]} bytes at {offset[row]} are not in {own['uri'][row].as_py()!r}")
    crc32 = _parsed_checksums(pa, own["checksum"], missing)
    files = np.unique(number[there[length[there] > 0]])
    if len(files) <= 1 and not held.any():
        file = int(files[0]) if len(files) else 0
        return StructRows(file, np.where(length > 0, offset, 0), length, crc32, starts, absent, None)
    return _in_blocks(inline, held, (number, offset, length, crc32), (starts, absent))


def _in_blocks(inline: Any, held: Bools, own: tuple[Any, ...], lists: tuple[Any, Any]) -> StructRows:
    """Return extents of a block file with a block for each value: of a file, or held by the table."""
    number, offset, length, crc32 = own
    text, ends = binaries_of(inline)
    length = np.where(held, np.diff(ends), length)
    number = np.where(held, np.int32(IN_TABLE), number)
    offset = np.where(held, ends[:-1], offset)
    rows = np.flatnonzero(length >= 0)
    kept = text if held.any() else None
    blocks = Blocks.of(offset[rows], length[rows], file=number[rows].astype(np.int32), held=kept)
    places = np.zeros(len(length), np.int64)
    places[rows] = blocks.start[:-1]
    return StructRows(-1, places, length, crc32, *lists, blocks)


def binaries_of(array: Any) -> tuple[U8, I64]:
    """Return the bytes of an array of large binaries, and where each begins in them; nulls are empty."""
    own = array.fill_null(b"")
    ends = np.frombuffer(own.buffers()[1], np.int64)[own.offset : own.offset + len(own) + 1]
    data = own.buffers()[2]
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8), ends


def _numbers(uris: Any, numbers: Mapping[str, int]) -> I32:
    """Return the number of the file of each URI; 0 for none."""
    encoded = uris.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if strange := [name for name in names if name is not None and name not in numbers]:
        raise ValueError(f"the uri {strange[0]!r} does not name a file of its shard")
    own = np.array([*(numbers.get(name, 0) for name in names), 0], np.int32)
    return own[np.asarray(encoded.indices.fill_null(len(names)), np.int64)]


def _parsed_checksums(pa: Any, texts: Any, missing: Bools) -> U32 | None:
    """Return the checksums of all values; None if one is missing or of another kind."""
    known = texts.is_valid().to_numpy(zero_copy_only=False)
    width = len(_PREFIX) + 8
    filled = texts.fill_null(_PREFIX.decode() + "0" * 8).cast(pa.large_binary())
    lengths = pa.compute.binary_length(filled).to_numpy(zero_copy_only=False)
    if not (known | missing).all() or (lengths != width).any():
        return None
    rows, first = len(filled), filled.offset
    if not rows:
        return np.zeros(0, np.uint32)
    begin = int(np.frombuffer(filled.buffers()[1], np.int64)[first])
    text = np.frombuffer(filled.buffers()[2], np.uint8)[begin : begin + rows * width].reshape(rows, width)
    values = np.full(256, 255, np.uint8)
    values[_SIGNS] = np.arange(16, dtype=np.uint8)
    digits = values[text[:, len(_PREFIX) :]]
    if (text[:, : len(_PREFIX)] != np.frombuffer(_PREFIX, np.uint8)).any() or (digits > 15).any():
        return None
    found = np.zeros(rows, np.uint32)
    for place in range(8):
        found = (found << np.uint32(4)) | digits[:, place]
    return found
