"""Shards of MDS, written by hand."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

__all__ = ["PACK", "images_list", "shard", "write"]

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
    "br": lambda data: bytes(cramjam.brotli.compress(data)),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
}
SIZES = {"int": 8, "int8": 1, "uint16": 2, "float16": 2, "float32": 4, "float64": 8}


def images_list(values: Sequence[bytes], before: bytes = b"") -> bytes:
    """Return a list of values, as jpeg_array stores it."""
    sizes = np.array([len(value) for value in values], "<u4").tobytes()
    return before + np.uint32(len(values)).tobytes() + sizes + b"".join(values)


def shard(columns: Mapping[str, str], samples: Sequence[Mapping[str, bytes]]) -> bytes:
    """Return the bytes of a shard."""
    names = sorted(columns)
    rows = []
    for sample in samples:
        sizes = [len(sample[name]) for name in names if columns[name] not in SIZES]
        rows.append(np.array(sizes, "<u4").tobytes() + b"".join(sample[name] for name in names))
    start = 4 * (len(rows) + 2)
    offsets = start + np.cumsum([0, *map(len, rows)])
    return np.uint32(len(rows)).tobytes() + offsets.astype("<u4").tobytes() + b"".join(rows)


def write(
    folder: Path,
    columns: Mapping[str, str],
    shards: Sequence[Sequence[Mapping[str, bytes]]],
    compression: str | None = None,
    hashes: Callable[[bytes], dict[str, str]] = lambda _: {},
) -> Path:
    """Write a dataset, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(columns)
    entries: list[dict[str, Any]] = []
    for number, samples in enumerate(shards):
        data = shard(columns, samples)
        name = f"shard.{number:05}.mds"
        packed = None if compression is None else PACK[compression](data)
        (folder / (name if packed is None else f"{name}.{compression}")).write_bytes(data if packed is None else packed)
        zipped = packed and {"basename": f"{name}.{compression}", "bytes": len(packed), "hashes": hashes(packed)}
        entries.append(
            {
                "column_encodings": [columns[each] for each in names],
                "column_names": names,
                "column_sizes": [SIZES.get(columns[each]) for each in names],
                "compression": compression,
                "format": "mds",
                "hashes": [],
                "raw_data": {"basename": name, "bytes": len(data), "hashes": hashes(data)},
                "samples": len(samples),
                "size_limit": 1 << 26,
                "version": 2,
                "zip_data": zipped,
            }
        )
    (folder / "index.json").write_text(json.dumps({"shards": entries, "version": 2}))
    return folder
