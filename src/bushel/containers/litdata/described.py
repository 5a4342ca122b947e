"""The index.json of LitData: its chunks, and the leaves of the tree that an item is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any

import msgspec

from bushel.containers.json_index import IndexFormat
from bushel.errors import FormatError

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


@dataclass(frozen=True, slots=True)
class Description:
    """The contents of an index.json: items of each chunk by its file, the name of each leaf, and the rest."""

    chunks: Mapping[str, int]
    leaves: tuple[str, ...]
    config: _Config


def parsed(data: bytes, path: str) -> Description | None:
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
            file=path,
        )
    if config.item_loader not in (None, "PyTreeLoader", TOKENS):
        raise FormatError(
            f"its chunks are for {config.item_loader}, which is not read", file=path, hint=HINT
        )
    if (config.compression or "zstd").partition(":")[0] != "zstd":
        raise FormatError(
            f"its compression is {config.compression!r}, expected zstd", file=path, hint=HINT
        )
    if len(chunks) < len(index.chunks) or len(leaves) != len(config.data_format):
        message = (
            f"{len(leaves)} leaves have {len(config.data_format)} formats, or two chunks"
            " have one file"
        )
        raise FormatError(message, file=path, hint=HINT)
    return Description(chunks, leaves, config)


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
    keys = (
        msgspec.json.decode(tree["context"])
        if kind in ("builtins.dict", "collections.OrderedDict")
        else count()
    )
    for key, child in zip(
        keys, children, strict=kind in ("builtins.dict", "collections.OrderedDict")
    ):
        yield from _walk(child, (*path, str(key)))
