"""MDS, the shards of MosaicML's streaming: an `index.json` names shard files, whose samples have one value per column.

Values are extents of the shard, or of its blocks if it is compressed. docs/format-mds.md has the
rules.

The layout is defined by mosaicml-streaming (`streaming/base/format/mds`).
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any

import msgspec

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel.errors import FormatError
from bushel.storage import AnyPath, BlockFile, File, below
from bushel.storage.restart import COMPRESSIONS, packed_blocks

from .base import ReadOptions, Report
from .json_index import (
    AS_BYTES,
    INDEX,
    IndexFormat,
    ListedContainer,
    ListedField,
    described_field,
    offset_table,
    values_of,
)

HINT = "write the dataset again, or fetch its index.json and shards again"
_CHUNK = 1 << 22
_NAME_BYTES = 200
_Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]


class Data(msgspec.Struct):
    """A file of a shard: its path below the folder, its size in bytes, and its hashes as text by their algorithms."""

    basename: str
    bytes: _Size
    hashes: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The path, with `/`."""
        return self.basename.replace("\\", "/")


class Entry(msgspec.Struct):
    """A shard, as index.json describes it."""

    format: str
    samples: _Size
    raw_data: Data
    column_names: list[str] = []  # the lists of columns are missing in other formats of streaming
    column_encodings: list[str] = []
    column_sizes: list[_Size | None] = []
    zip_data: Data | None = None
    compression: str | None = None

    def packed_in(self, shard: Shard) -> Data | None:
        """Return the compressed file of a shard; None if the expanded one is read."""
        packed = self.zip_data
        return packed if packed is not None and packed.name == shard.files[0] else None

    @property
    def compression_kind(self) -> str:
        """The compression without its level."""
        return (self.compression or "").partition(":")[0]


class _Index(msgspec.Struct):
    shards: list[Entry]


_OWN = re.compile(rb'"(?:column_(?:encodings|names|sizes)|raw_data|zip_data)"\s*:')
_FORMAT = IndexFormat("an index of MDS", _Index, frozenset({"shards"}), _OWN, HINT)


def _problem(entry: Entry) -> str | None:
    """Return a description of what cannot be read of a shard, or None."""
    if entry.format != "mds":
        return (
            f"its format is {entry.format!r}, which Bushel "
            "does not read: write the dataset with MDSWriter"
        )
    # where only the compressed file has to exist
    if len(entry.raw_data.name.encode()) > _NAME_BYTES:
        return (
            f"its file has a name of more than {_NAME_BYTES} "
            "bytes, which no file system takes with a suffix"
        )
    columns = len(entry.column_names)
    if not columns or not columns == len(entry.column_encodings) == len(entry.column_sizes) == len(
        set(entry.column_names)
    ):
        return "its columns do not have one name, one encoding and one size each"
    if entry.zip_data is not None and entry.compression_kind not in COMPRESSIONS:
        return (
            f"its compression is {entry.compression!r}, expected one of {', '.join(COMPRESSIONS)}"
        )
    return None


def compared(file: File, expected: Data, report: Report) -> Iterator[FormatError]:
    """Compare a file with its size and hashes in index.json, and yield an error for each difference."""
    if file.size != expected.bytes:
        yield FormatError(
            f"it has {file.size} bytes, index.json says {expected.bytes}", file.path, hint=HINT
        )
        return
    hashes = {}
    for name in expected.hashes:
        new_hash = _hash(name)
        if new_hash is None:
            advice = "another tool has to compare it"
            if name.startswith("xx"):
                advice = "pip install xxhash"
            warnings.warn(
                f"{file.path}: the hash {name} was not compared: {advice}",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            hashes[name] = new_hash
    for at in range(0, file.size if hashes else 0, _CHUNK):
        data = file.read(at, min(_CHUNK, file.size - at))
        report(len(data))
        for running_hash in hashes.values():
            running_hash.update(data)
    for name, finished_hash in hashes.items():
        if finished_hash.hexdigest() != expected.hashes[name]:
            yield FormatError(
                f"its {name} is {finished_hash.hexdigest()}, expected {expected.hashes[name]}",
                file.path,
                hint=HINT,
            )


def _hash(name: str) -> Any:
    """Return an object like one of hashlib that computes a hash; None for an unknown hash."""
    if name in hashlib.algorithms_available and not name.startswith("shake_"):
        return hashlib.new(name, usedforsecurity=False)
    try:
        xxhash: Any = import_module("xxhash")
    except ImportError:
        return None
    return getattr(xxhash, name)() if name in xxhash.algorithms_available else None


_CODECS = {
    "bytes": ("bytes", None),
    "str": ("utf8", None),
    "int": ("int", "i64"),
    **{f"int{bits}": ("int", None) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": ("uint", None) for bits in (8, 16, 32, 64)},
    "float16": ("array(float16)", None),
    "float32": ("float", "f32"),
    "float64": ("float", None),
    "str_int": ("int", "cls"),
    "str_float": ("float", "float-text"),
    "str_decimal": ("utf8", None),
    "pil": ("pil", None),
    "jpeg": ("jpg", None),
    "png": ("png", None),
    "json": ("json", None),
    "pkl": ("pickle", None),
    "ndarray": ("mds-array", None),
}
"""The type of a field by the encoding of its column, and the codec of its stored bytes if that differs."""
_LISTS = {"jpeg_array": ("jpg[]", 0), "jpegarray": ("jpg[]", 0)} | {
    f"list[{kind}]": (f"{_CODECS[kind][0]}[]", 4) for kind in ("pil", "jpeg", "png")
}
"""The types of lists, and the bytes before the number of their elements."""


class _Mds(ListedContainer[dict[str, Entry]]):
    name = "mds"
    word, hint = "shard", HINT

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shards that the index.json of a folder lists, or the shards of its streams: sub-folders with one.

        The expanded file of a compressed shard is read if it is there, too.
        """
        shards = super().shards(path)
        if shards is not None or not path.is_dir() or (path / INDEX).exists():
            return shards
        streams = sorted(entry.name for entry in path.iterdir() if (entry / INDEX).exists())
        shards_of_streams = [self.listed(below(path, name)) for name in streams]
        return [shard for shards in shards_of_streams if shards for shard in shards] or None

    def parsed(self, data: bytes, path: str) -> dict[str, Entry] | None:
        """Return the shards of an index.json by the names of their files; None if it is of another format.

        Raises:
            FormatError: It is damaged, or lists a shard of another format.
        """
        index = _FORMAT.parse(data, path)
        if index is None:
            return None
        for number, entry in enumerate(index.shards):
            if (problem := _problem(entry)) is not None:
                raise FormatError(f"shard {number}: {problem}", path, hint=HINT)
        entries = {shard.raw_data.name: shard for shard in index.shards}
        if len(entries) < len(index.shards):
            raise FormatError("two shards have the same file", path, hint=HINT)
        return entries

    def files_in(self, contents: dict[str, Entry]) -> dict[str, str | None]:
        """Return the files of the shards, each with its compressed file, or None."""
        return {
            name: None if entry.zip_data is None else entry.zip_data.name
            for name, entry in contents.items()
        }

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the values of one shard are. A compressed shard is expanded for that."""
        entry = self.contents_of(shard)[shard.name]
        file = _opened(shard, entry)
        with self.expanding(shard):
            # the original takes 0 for a variable size
            sizes = [size or None for size in entry.column_sizes]
            places = values_of(file, offset_table(file, entry.samples), sizes)
            pairs = zip(entry.column_names, entry.column_encodings, strict=True)
            columns = [_field(name, encoding, options, file) for name, encoding in pairs]
            table = self.table(shard, entry.samples, file, columns, places)
        options.report(file.size)
        return table

    def check_stored(self, shard: Shard, report: Report) -> Iterator[FormatError]:
        """Compare sizes and hashes of the shard's files, as they are and expanded, with those in index.json."""
        entry = self.contents_of(shard)[shard.name]
        packed = entry.packed_in(shard)
        yield from compared(shard.open(), packed or entry.raw_data, report)
        if packed is None:
            return
        try:
            with self.expanding(shard):
                yield from compared(_opened(shard, entry), entry.raw_data, report)
        except FormatError as error:
            yield error


CONTAINER = _Mds()


def _opened(shard: Shard, entry: Entry) -> File:
    """Return the file of the samples: the block file that it expands to if it is compressed."""
    stored = shard.open()
    if entry.packed_in(shard) is None:
        return stored
    blocks = packed_blocks(stored, entry.compression_kind, entry.raw_data.bytes)
    return BlockFile.over(stored, blocks)


def _field(name: str, encoding: str, options: ReadOptions, file: File) -> ListedField:
    """Return the field of a column by its encoding.

    Raises:
        FormatError: The encoding is unknown, and the caller does not declare the field.
    """
    kind, _, parameters = encoding.partition(":")
    stored, skip = None, None
    if encoding in _LISTS:
        codec, skip = _LISTS[encoding]
    elif kind == "ndarray" and parameters:
        dtype, _, shape = parameters.partition(":")
        codec = f"array({dtype},{shape})" if shape else f"mds-array({dtype})"
    elif encoding in _CODECS:
        codec, stored = _CODECS[encoding]
    elif options.spec is not None and name in options.spec:
        return ListedField(options.spec[name])  # the caller knows what the bytes are
    else:
        raise FormatError(
            f"column {name!r} has the encoding {encoding!r}, which is unknown",
            file.path,
            hint=AS_BYTES % name,
        )
    return ListedField(described_field("column", name, codec, file), stored, skip)
