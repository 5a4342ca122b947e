"""Writing sidecar files: indexes and manifests, which `sidecar` describes and reads, and smaller files beside them.

An index is a safetensors file of named arrays, and so is a list of removed samples or of shards.
`safetensors.numpy.save` writes the same bytes (https://github.com/huggingface/safetensors), but
copies all arrays: 8 bytes of length, a header of JSON, and the arrays, ordered by type and name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from bushel.codecs.registry import asked_for
from bushel.errors import UnsupportedError
from bushel.kernels import crc32
from bushel.storage import AnyPath, create_whole, replacing, write_all, write_whole

from .clip_frames import ARRAYS
from .headers import (
    COLUMN_ARRAYS,
    CRC32_IS,
    DAMAGES,
    DTYPES,
    SEAL,
    VERSION,
    ZEROS,
    Arrays,
    Header,
    HeaderColumn,
    HeaderField,
)
from .identity import table_digest, type_of
from .line_arrays import EXTENT, LINE_ARRAYS, LineArray
from .sidecar import Manifest, parse_all
from .table import FieldExtents, ShardIndex

T = TypeVar("T")

# an index with more bytes of arrays than this is written without a copy of them in memory
_LARGE = 1 << 20
_PIECE = 1 << 22
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
_PLACES = {dtype: place for place, dtype in enumerate(_KINDS)}


def save_index(index: ShardIndex, path: AnyPath, *, sync: bool = True) -> str:
    """Write a shard's index atomically. With `sync`, wait until it is on disk.

    Returns:
        Its digest.

    Raises:
        OSError: The folder is not writable.
        UnsupportedError: The name of a file is not UTF-8, and an index has no other names.
    """
    try:
        digest = table_digest(index)
        arrays, head = _contents(index, digest)
    except UnicodeEncodeError as error:
        names = next((stamp.name for stamp in index.files if not stamp.name.isprintable()), "")
        message = (
            f"the name {ascii(names)} is not UTF-8, so no index can be stored: rename the file"
        )
        raise UnsupportedError(message) from error
    if not isinstance(path, Path) or sum(array.nbytes for array in arrays.values()) <= _LARGE:
        write_whole(path, b"".join([head, *pieces_of(arrays)]), sync=sync)
        return digest
    with replacing(path, sync=sync) as file:
        write_all(file, head)
        for piece in pieces_of(arrays):
            write_all(file, piece)
    return digest


def encode_index(index: ShardIndex) -> bytes:
    """Return the bytes of a shard's index."""
    arrays, head = _contents(index, table_digest(index))
    return b"".join([head, *pieces_of(arrays)])


class _KeptLines:
    """The blocks of lines of a table, as a sidecar keeps them: of one file, if the table has values of several."""

    def __init__(self, index: ShardIndex) -> None:
        offsets: list[object] = [column.offset for column in index.fields.values()]
        self._lines = next(
            (candidate.lines for candidate in offsets if isinstance(candidate, LineArray)), None
        )
        if self._lines is not None and self._lines.blocks.samples != index.samples:
            self._lines = None

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the sidecar."""
        lines = self._lines
        if lines is None:
            return {}
        return {f"__lines__.{part}": getattr(lines, part) for part in LINE_ARRAYS}

    def has(self, extents: FieldExtents) -> bool:
        """Return whether the blocks have these extents."""
        offset, length = cast("tuple[object, object]", (extents.offset, extents.length))
        return (
            isinstance(offset, LineArray)
            and isinstance(length, LineArray)
            and offset.lines is length.lines is self._lines
            and (offset.field, offset.quotes) == (length.field, length.quotes)
            and (offset.part, length.part) == EXTENT
        )

    def column(self, array: np.ndarray | None) -> int | None:
        """Return the number of the field with these numbers; None if the blocks do not have them."""
        candidate: object = array
        if isinstance(candidate, LineArray) and candidate.lines is self._lines:
            return candidate.field
        return None


def _contents(index: ShardIndex, digest: str) -> tuple[Arrays, bytearray]:
    """Return the arrays of an index in order, and the bytes before them, with the CRC-32 of all."""
    arrays: Arrays = {}
    if (keys := index.keys) is not None:
        for part in ("text", "offsets", "hashes"):
            arrays[f"__key__.{part}"] = getattr(keys, part)
        arrays["__key__.order"] = keys.order.astype(np.uint32, copy=False)
    if index.blocks:
        from .block_arrays import arrays_of_blocks

        arrays |= arrays_of_blocks(index.blocks)
    kept_lines = _KeptLines(index)
    arrays |= kept_lines.arrays
    for name, column in index.fields.items():
        arrays |= _arrays_of(name, column, in_lines=kept_lines.has(column))
    for name, values in index.columns.items():
        parts = {part: getattr(values, part) for part in COLUMN_ARRAYS}
        if kept_lines.column(values.values) is not None:
            del parts["values"]
        arrays |= {
            f"__column__.{name}.{part}": array for part, array in parts.items() if array is not None
        }
    header = Header(
        VERSION,
        index.container,
        index.samples,
        [(stamp.name, stamp.size, stamp.mtime_ns) for stamp in index.files],
        [_field(name, extents, kept_lines) for name, extents in index.fields.items()],
        [stamp.crc32 for stamp in index.files],
        index.labels,
        ZEROS,
        [
            HeaderColumn(name, values.kind, kept_lines.column(values.values))
            for name, values in index.columns.items()
        ],
        digest,
        [list(blocks.filters) for blocks in index.blocks],
    )
    arrays = in_order(arrays)
    head = bytearray(head_of(arrays, header))
    checksum = crc32(head)
    for piece in pieces_of(arrays):
        checksum = crc32(piece, checksum)
    digits = head.index(CRC32_IS) + len(CRC32_IS)
    head[digits : digits + 8] = b"%08x" % checksum
    return arrays, head


def _arrays_of(name: str, column: FieldExtents, *, in_lines: bool) -> Arrays:
    """Return the arrays of a field; without its extents, if blocks of lines have them."""
    parts = ("crc32",) if in_lines else ("offset", "length", "crc32", "starts", "absent")
    arrays: Arrays = {}
    for part in parts:
        if (array := getattr(column, part)) is None:
            continue
        # one number stands for lengths that are all equal
        if part == "length" and (array == array[:1]).all():
            array = array[:1]
        arrays[f"{name}.{part}"] = np.ascontiguousarray(array)
    for scan, (beginning, _, attributes) in ARRAYS.items():
        if (places := getattr(column, scan)) is not None:
            arrays |= {f"{name}.{beginning}_{part}": getattr(places, part) for part in attributes}
    return arrays


def _field(name: str, extents: FieldExtents, lines: _KeptLines) -> HeaderField:
    kind = type_of(extents.field)
    if not lines.has(extents):
        return HeaderField(name, kind, asked_for(extents.codec), extents.file)
    line_array = cast("LineArray", extents.offset)
    lines_of_field = line_array.field, line_array.quotes
    return HeaderField(name, kind, asked_for(extents.codec), extents.file, *lines_of_field)


# Named arrays


def in_order(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return arrays in the order of a file."""
    return dict(sorted(arrays.items(), key=lambda own: (_PLACES[own[1].dtype], own[0])))


def head_of(arrays: Arrays, header: object) -> bytes:
    """Return the bytes before arrays in order: the length of their JSON, and the JSON, with a header as its text.

    msgspec encodes the header.
    """
    entries: dict[str, Any] = {"__metadata__": {"bushel": msgspec.json.encode(header).decode()}}
    at = 0
    for name, array in arrays.items():
        end = at + array.nbytes
        entries[name] = {
            "dtype": _KINDS[array.dtype],
            "shape": array.shape,
            "data_offsets": (at, end),
        }
        at = end
    described = msgspec.json.encode(entries)
    described += b" " * (-len(described) % 8)
    return len(described).to_bytes(8, "little") + described


def pieces_of(arrays: Arrays) -> Iterator[memoryview]:
    """Yield the bytes of arrays in order, 4 MiB at most at a time."""
    for array in arrays.values():
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE].data


def encode(arrays: Mapping[str, np.ndarray], header: object) -> bytes:
    """Return the bytes of a file of small arrays, with a header that msgspec can encode as its text."""
    return b"".join(encoded(arrays, header))


def encoded(arrays: Mapping[str, np.ndarray], header: object) -> list[bytes | memoryview]:
    """Return the bytes of `encode` in pieces, which the arrays hold."""
    arrays = in_order(arrays)
    return [head_of(arrays, header), *pieces_of(arrays)]


def parse(
    data: memoryview, kinds: Mapping[str, str], header: msgspec.json.Decoder[T]
) -> tuple[T, Arrays]:
    """Return the header of a file, and its arrays, which are not copied.

    `kinds` has the type of each array: `U8`, `U32`, `U64` or `I64`. They have one dimension.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        text, arrays = parse_all(data)
        chosen = {name: arrays[name] for name in kinds}
        for name, array in chosen.items():
            if (_KINDS[array.dtype], array.ndim) != (kinds[name], 1):
                raise ValueError(f"array {name!r} is {array.dtype}{list(array.shape)}")
        return header.decode(text), chosen
    except DAMAGES as error:
        raise ValueError(str(error)) from error


def body_crc32(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the CRC-32 of the bytes of arrays, in this order."""
    checksum = 0
    for array in arrays.values():
        checksum = crc32(np.ascontiguousarray(array).view(np.uint8), checksum)
    return checksum


def whole_crc32(header: Any, arrays: Mapping[str, np.ndarray]) -> int:
    """Return the CRC-32 of arrays, and then of all that their header says but its own `crc32`."""
    return crc32(msgspec.json.encode(replace(header, crc32=0)), body_crc32(arrays))


# Manifests

# a manifest of more shards has no white space, which takes half of it
_INDENTED = 1000


def save_manifest(manifest: Manifest, path: AnyPath, *, sync: bool = True) -> None:
    """Write a manifest atomically. With `sync`, wait until it is on disk."""
    write_whole(path, _encoded(manifest), sync=sync)


def create_manifest(manifest: Manifest, path: AnyPath) -> None:
    """Write a manifest, unless there is one."""
    create_whole(path, _encoded(manifest))


def _encoded(manifest: Manifest) -> bytes:
    data = msgspec.json.encode(manifest)
    if len(manifest.shards) <= _INDENTED:
        data = msgspec.json.format(data, indent=1)
    return sealed(data)


def sealed(manifest: bytes) -> bytes:
    """Return the JSON of a manifest with the CRC-32 of all bytes before it as its last member."""
    body = manifest.rstrip()[:-1].rstrip() + b',\n "crc32": "'
    return body + SEAL % crc32(body)
