"""LitData: an `index.json` names chunks, whose items have one value for each leaf of a tree.

Leaves are extents of the chunk, or of its blocks if it is compressed. docs/format-litdata.md has
the rules. The layout is defined by litdata (`streaming/writer.py`, `item_loader.py`,
`framed_zstd.py`, `serializers.py`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Struct

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import I64
from bushel.codecs import codec_of_extension
from bushel.codecs.headed import LITDATA_DTYPES, TORCH_DTYPES
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import BlockFile, Blocks, File
from bushel.storage.restart import frames_between, packed_blocks

from .base import ReadOptions
from .json_index import (
    AS_BYTES,
    IndexFormat,
    ListedContainer,
    ListedField,
    Places,
    check_ends,
    described_field,
    offset_table,
    values_of,
)

_FRAMED = struct.Struct("<8sHHIII")
_FRAME = np.dtype(
    [("item", "<u4"), ("items", "<u4"), ("offset", "<u8"), ("stored", "<u4"), ("size", "<u4")]
)
_MAGIC = b"LDFZ01\0\0"
_PACKED = ".zstd.bin"
_CODECS = {
    "str": "utf8",
    "text": "utf8",
    "bool": "uint",
    "int": "i64",
    "float": "float",
    "bytes": "bytes",
    "pil": "pil",
    "jpeg": "jpg",
    "image": "image",
    "tifffile": "tif",
    "numpy": "litdata-array",
    "tensor": "litdata-tensor",
    "pickle": "pickle",
    "graph:pickle": "pickle",
    "json": "litdata-json",
    **dict.fromkeys(("graph", "mesh", "nifti", "pdf"), "bytes"),
}
_TYPES = {"i64": "int", "litdata-json": "json"}
_BY_EXTENSION = ("image", "video", "audio", "file")


def _expanded(name: str) -> str | None:
    """Return the name of the expanded file of a compressed chunk."""
    if name.endswith(_PACKED):
        return f"{name.removesuffix(_PACKED)}.bin"
    return None


def _items(file: File, items: int, level: str | None) -> tuple[File, I64]:
    """Return the file of a chunk, or the block file that it expands to, and where its items begin and the last ends."""
    if file.size >= _FRAMED.size and file.read(0, len(_MAGIC)) == _MAGIC:
        return _framed(file, items)
    if level not in (None, "sample"):
        file = BlockFile.over(file, packed_blocks(file, "zstd", None))
    ends = offset_table(file, items)
    if level == "sample":
        blocks = frames_between(file, ends)
        return BlockFile.over(file, blocks), blocks.start
    return file, ends


def _framed(file: File, items: int) -> tuple[File, I64]:
    """Return the block file and the items of a chunk that consists of frames of zstd, after a table of them."""
    _, version, flags, items_of_header, _, frames = _FRAMED.unpack(file.read(0, _FRAMED.size))
    head = _FRAMED.size + 4 * (items_of_header + 1)
    if (
        version != 1
        or flags
        or items_of_header != items
        or head + frames * _FRAME.itemsize > file.size
    ):
        raise FormatError(
            f"version {version} of {items_of_header} items in "
            f"{frames} frames, expected version 1 of {items} items",
            file.path,
            8,
            HINT,
        )
    ends = np.frombuffer(file.read(_FRAMED.size, head - _FRAMED.size), "<u4").astype(np.int64)
    table = np.frombuffer(file.read(head, frames * _FRAME.itemsize), _FRAME)
    if (table["offset"] > file.size).any():
        raise FormatError("a frame is not inside the file", file.path, head, HINT)
    offset, length = table["offset"].astype(np.int64), table["stored"].astype(np.int64)
    blocks = Blocks.of(offset, length, table["size"].astype(np.int64), "zstd").check(
        file.path, [file.size]
    )
    expanded = BlockFile.over(file, blocks)
    check_ends(expanded, ends, 0, _FRAMED.size)
    return expanded, ends


def _field(name: str, format_: str, file: File, declared: Field | None) -> ListedField:
    """Return the field of a leaf by its format.

    Raises:
        FormatError: The format is unknown, and the caller does not declare the field; or the name
            cannot be the name of a field.
    """
    kind, _, parameter = format_.partition(":")
    codec = _CODECS.get(format_, _CODECS.get(kind))
    if kind in ("no_header_numpy", "no_header_tensor") and re.fullmatch("[0-9]{1,4}", parameter):
        dtype = (LITDATA_DTYPES if kind.endswith("numpy") else TORCH_DTYPES).get(int(parameter))
        codec = "bytes" if dtype == "bfloat16" else dtype and f"array({dtype},-1)"
    elif kind == "jpeg_array":
        return ListedField(described_field("leaf", name, "jpg[]", file), skip=0)
    elif kind in _BY_EXTENSION and parameter:
        codec = codec_of_extension(parameter)
    if codec is None and declared is not None:
        return ListedField(declared)  # the caller knows what the bytes are
    if codec is None:
        raise FormatError(
            f"leaf {name!r} has the unknown format {format_!r}", file.path, hint=AS_BYTES % name
        )
    field = described_field("leaf", name, _TYPES.get(codec, codec), file)
    return ListedField(field, codec if codec in _TYPES else None)


HINT = "write the dataset again, or fetch its index.json and chunks again"
TOKENS = "TokensLoader"
_MOST_DEPTH = 64
_ONLY_LEAF = "data"
_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class _Chunk(msgspec.Struct):
    """A chunk, as index.json describes it; `chunk_size` is its number of items."""

    filename: str
    chunk_size: _Count


class _Config(msgspec.Struct):
    """How the items of all chunks are stored."""

    data_format: list[str]
    data_spec: str | None = None
    compression: str | None = None
    compression_level: str | None = None
    encryption: Any = None
    item_loader: str | None = None


class _Index(msgspec.Struct):
    chunks: list[_Chunk]
    config: _Config


_OWN = re.compile(rb'"(?:chunk_(?:bytes|size)|data_(?:format|spec))"\s*:')
_FORMAT = IndexFormat("an index of LitData", _Index, frozenset({"chunks", "config"}), _OWN, HINT)


class Description(Struct, frozen=True):
    """The contents of an index.json: items of each chunk by its file, the name of each leaf, and the rest."""

    chunks: Mapping[str, int]
    leaves: tuple[str, ...]
    config: _Config


def _leaves(config: _Config) -> tuple[str, ...]:
    """Return the names of the leaves of PyTorch's tree: keys and positions on the way to each, joined by dots."""
    if config.data_spec is None:
        raise ValueError("data_spec is missing, so the names of the leaves are unknown")
    version, tree = msgspec.json.decode(config.data_spec)
    if version != 1:
        raise ValueError(f"the data_spec has version {version}, expected 1")
    leaves = tuple(_walk(tree, ()))
    if len(set(leaves)) < len(leaves):
        raise ValueError("two leaves have the same name")
    if leaves == ("",):
        return ("tokens" if config.item_loader == TOKENS else _ONLY_LEAF,)
    return leaves


def _walk(tree: Any, path: tuple[str, ...]) -> Iterator[str]:
    children, kind = tree["children_spec"], tree["type"]
    if len(path) > _MOST_DEPTH:
        raise ValueError(f"the tree is deeper than {_MOST_DEPTH}")
    if kind is None:
        yield ".".join(path)
        return
    keys: Iterable[Any] = range(len(children))
    if kind in ("builtins.dict", "collections.OrderedDict"):
        keys = msgspec.json.decode(tree["context"])
    for key, child in zip(keys, children, strict=True):
        yield from _walk(child, (*path, str(key)))


class _Litdata(ListedContainer[Description]):
    name = "litdata"
    word, hint = "chunk", HINT

    def parsed(self, data: bytes, path: str) -> Description | None:
        """Return the contents of an index.json; None if it is of another format.

        Raises:
            FormatError: It is damaged, or describes chunks that are not read.
        """
        index = _FORMAT.parse(data, path)
        if index is None:
            return None
        try:
            leaves = _leaves(index.config)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _FORMAT.damaged(error, path) from error
        config, chunks = index.config, {chunk.filename: chunk.chunk_size for chunk in index.chunks}
        if config.encryption is not None:
            raise FormatError(
                "its chunks are encrypted: copy it without encryption, with litdata.optimize",
                path,
            )
        if config.item_loader not in (None, "PyTreeLoader", TOKENS):
            raise FormatError(
                f"its chunks are for {config.item_loader}, which is not read", path, hint=HINT
            )
        if (config.compression or "zstd").partition(":")[0] != "zstd":
            raise FormatError(
                f"its compression is {config.compression!r}, expected zstd", path, hint=HINT
            )
        if len(chunks) < len(index.chunks) or len(leaves) != len(config.data_format):
            raise FormatError(
                f"{len(leaves)} leaves have {len(config.data_format)} "
                "formats, or two chunks have one file",
                path,
                hint=HINT,
            )
        return Description(chunks, leaves, config)

    def files_in(self, contents: Description) -> dict[str, str | None]:
        """Return the files of the chunks, each with the expanded one of a compressed chunk, or None.

        LitData's reader replaces a compressed chunk by the expanded one, which is read then.
        """
        return {name: _expanded(name) for name in contents.chunks}

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the leaves of the items of one chunk are. A compressed chunk is expanded for that."""
        dataset = self.contents_of(shard)
        stored, items = shard.open(), dataset.chunks[shard.name]
        config, spec = dataset.config, options.spec or {}
        plain = shard.files[0] != shard.name or config.compression is None
        with self.expanding(shard):
            level = None if plain else config.compression_level or "chunk"
            file, ends = _items(stored, items, level)
            places: Places = [(ends[:-1], np.diff(ends))]
            if config.item_loader != TOKENS:
                places = values_of(file, ends, [None] * len(dataset.leaves))
            leaves = zip(dataset.leaves, config.data_format, strict=True)
            columns = [_field(name, format_, file, spec.get(name)) for name, format_ in leaves]
            table = self.table(shard, items, file, columns, places)
        options.report(stored.size)
        return table


CONTAINER = _Litdata()
