"""Chunks of LitData, written by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

__all__ = ["LEAF", "chunk", "dict_of", "item", "write"]

LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def dict_of(**children: Any) -> dict[str, Any]:
    return {"type": "builtins.dict", "context": json.dumps(list(children)), "children_spec": list(children.values())}


def _zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def chunk(items: Sequence[bytes], level: str | None = None, frame: int = 2) -> bytes:
    """Return the bytes of a chunk; `level` is None, `chunk`, `sample` or `batch`."""
    if level == "sample":
        items = [_zstd(item) for item in items]
    ends = np.cumsum([0, *map(len, items)])
    if level != "batch":
        start = 4 * (len(items) + 2)
        data = struct.pack("<I", len(items)) + (ends + start).astype("<u4").tobytes() + b"".join(items)
        return _zstd(data) if level == "chunk" else data
    groups = [items[at : at + frame] for at in range(0, len(items), frame)]
    packed = [_zstd(b"".join(group)) for group in groups]
    at = 24 + 4 * len(ends) + 24 * len(groups)
    table = b""
    for number, (group, data) in enumerate(zip(groups, packed, strict=True)):
        table += struct.pack("<IIQII", number * frame, len(group), at, len(data), sum(map(len, group)))
        at += len(data)
    head = struct.pack("<8sHHIII", b"LDFZ01\0\0", 1, 0, len(items), frame, len(groups))
    return head + ends.astype("<u4").tobytes() + table + b"".join(packed)


def item(*leaves: bytes) -> bytes:
    return struct.pack(f"<{len(leaves)}I", *map(len, leaves)) + b"".join(leaves)


def write(
    folder: Path,
    formats: Mapping[str, str],
    chunks: Sequence[Sequence[Sequence[bytes]]],
    tree: Any = None,
    level: str | None = None,
    **config: Any,
) -> Path:
    """Write a dataset, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = config.get("item_loader") == "TokensLoader"
    listed = []
    for number, items in enumerate(chunks):
        rows = [b"".join(leaves) if tokens else item(*leaves) for leaves in items]
        data = chunk(rows, level)
        name = f"chunk-0-{number}.bin"
        (folder / name).write_bytes(data)
        listed.append({"chunk_bytes": len(data), "chunk_size": len(rows), "dim": None, "filename": name})
    spec = tree or dict_of(**dict.fromkeys(formats, LEAF))
    whole: dict[str, Any] = {
        "compression": level and "zstd",
        "compression_level": level,
        "data_format": list(formats.values()),
        "data_spec": json.dumps([1, spec]),
        "encryption": None,
        "item_loader": "PyTreeLoader",
    }
    (folder / "index.json").write_text(json.dumps({"chunks": listed, "config": whole | config}))
    return folder
