"""Tokens of Megatron-LM: a `.bin` of numbers, and an `.idx` with the offsets of sequences and documents.

docs/format-megatron.md has the rules. A sample is a document; with
`spec={"tokens": "array(uint16,-1)[]"}` it is the list of the document's sequences.
"""

from __future__ import annotations

import struct

import numpy as np
from msgspec import Struct

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import I64, offsets_of
from bushel.errors import FormatError, SpecError
from bushel.spec import Field
from bushel.storage import AnyPath, File, below, names_in

from .base import Container, ReadOptions
from .plain_table import PlainField, table_of

_MAGIC = b"MMIDIDX\0\0"
_HEADER = struct.Struct("<9sQBQQ")
_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float64",
    7: "float32",
    8: "uint16",
}
_FIELD = "tokens"


class _Megatron(Container):
    name = "megatron"
    files_per_shard = 2
    has_own_index = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of a `.bin` with its `.idx`, or a shard for each such pair in a folder."""
        if path.is_dir():
            names = set(names_in(path))
            stems = sorted(
                name[:-4] for name in names if name.endswith(".bin") and f"{name[:-4]}.idx" in names
            )
            return [_shard(path, stem) for stem in stems] or None
        stem = path.name[:-4]
        if (
            not path.name.endswith((".bin", ".idx"))
            or not below(path.parent, f"{stem}.bin").is_file()
        ):
            return None
        if below(path.parent, f"{stem}.idx").is_file():
            return [_shard(path.parent, stem)]
        return None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the tokens of each document are."""
        data, file = shard.open(), shard.open(1)
        table = _read(file, data)
        options.report(file.size)
        field = _field(options, f"array({table.dtype},-1)", file)
        samples = len(table.first) - 1
        if field.sequence:
            place = PlainField(field.type, table.offset, table.length, starts=table.first)
        else:
            place = PlainField(field.type, *_documents(table, file))
        return table_of(self.name, shard, samples, {field.name: place})


CONTAINER = _Megatron()


class _Table(Struct, frozen=True):
    """The checked contents of an `.idx`."""

    dtype: str  # name of the tokens' dtype
    offset: I64  # int64[sequences], bytes from the start of the `.bin`
    length: I64  # int64[sequences], bytes
    first: I64  # int64[documents + 1], number of sequences before each document


def _shard(root: AnyPath, stem: str) -> Shard:
    return Shard(root, f"{stem}.bin", (f"{stem}.bin", f"{stem}.idx"))


def _field(options: ReadOptions, kind: str, file: File) -> Field:
    if options.spec is None:
        return Field(_FIELD, kind)
    if len(options.spec) != 1:
        raise SpecError(f"{file.path} has one field: spec= names {len(options.spec)}")
    [(name, declared)] = options.spec.items()
    return Field(name, kind, declared.sequence)


def _read(file: File, data: File) -> _Table:
    """Read an `.idx`. Its counts are compared with its size before anything is allocated.

    Raises:
        FormatError: It is damaged, or does not fit its `.bin`.
    """

    def refuse(message: str, offset: int) -> FormatError:
        return FormatError(
            message, file.path, offset, "preprocess the corpus again, or restore the file"
        )

    if file.size < _HEADER.size:
        raise refuse(f"an .idx has at least {_HEADER.size} bytes, but this one has {file.size}", 0)
    magic, version, code, sequences, borders = _HEADER.unpack(file.read(0, _HEADER.size))
    if magic != _MAGIC:
        raise refuse(f"an .idx of Megatron begins with {_MAGIC!r}, found {magic!r}", 0)
    if version != 1 or code not in _DTYPES:
        raise refuse(
            f"version {version} with dtype {code} is unknown: "
            "expected version 1 and a dtype from 1 to 8",
            9,
        )
    needed = _HEADER.size + 12 * sequences + 8 * borders
    # a byte per sequence is the mode of multimodal data
    if file.size not in (needed, needed + sequences):
        message = (
            f"{sequences} sequences and {borders} borders of "
            f"documents need {needed} bytes, not {file.size}"
        )
        raise refuse(message, 18)
    at = _HEADER.size
    counts = np.frombuffer(file.read(at, 4 * sequences), "<i4").astype(np.int64)
    offset = np.frombuffer(file.read(at + 4 * sequences, 8 * sequences), "<i8").astype(np.int64)
    first = np.frombuffer(file.read(at + 12 * sequences, 8 * borders), "<i8").astype(np.int64)
    item = np.dtype(_DTYPES[code]).itemsize
    length = counts * item
    bad = (counts < 0) | (offset < 0) | (offset > data.size - length)
    if bad.any():
        row = int(bad.argmax())
        message = (
            f"sequence {row} of {counts[row]} tokens at {offset[row]} "
            f"is not in the {data.size} bytes of {data.path}"
        )
        raise refuse(message, at + 4 * row)
    if borders < 2:  # without documents, each sequence is one
        first = np.arange(sequences + 1)
    elif first[0] != 0 or first[-1] != sequences or (first[1:] < first[:-1]).any():
        raise refuse(
            f"the borders of documents do not ascend from 0 to {sequences}", at + 12 * sequences
        )
    return _Table(_DTYPES[code], offset, length, first)


def _documents(table: _Table, file: File) -> tuple[I64, I64]:
    """Return offset and length of each document, whose sequences follow each other in the `.bin`."""
    begins = np.zeros(len(table.offset) + 1, np.bool_)
    begins[table.first] = True
    apart = (table.offset[1:] != table.offset[:-1] + table.length[:-1]) & ~begins[1:-1]
    if apart.any():
        row = int(apart.argmax()) + 1
        raise FormatError(
            f"sequence {row} does not follow the one before it, and is of the same document",
            file.path,
            _HEADER.size + 4 * len(table.length) + 8 * row,
            f"spec={{'tokens': 'array({table.dtype},-1)[]'}} reads the sequences of a document as a list",
        )
    ends = offsets_of(table.length)[table.first]
    length = np.diff(ends)
    start = np.append(table.offset, 0)[np.minimum(table.first[:-1], len(table.offset))]
    return np.where(length > 0, start, 0), length
