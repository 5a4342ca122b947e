"""Small Granular datasets, and what tests do with them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from tests.containers.writing import stored_samples

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel.containers.bag import CONTAINER
from bushel.containers.base import ReadOptions

Samples = list[tuple[str | None, dict[str, Any]]]

SPEC = {"abc": "bytes", "bar": "utf8[]", "baz": "msgpack", "foo": "int"}
SAMPLES: Samples = [
    (None, {"abc": b"x" * (i + 1), "bar": [b"hello"] * i, "baz": b"\x81\xa1a\x01", "foo": bytes([i])}) for i in range(3)
]
"""The golden dataset of generation B, with three datapoints."""
SPLIT_SPEC = {name: kind for name, kind in SPEC.items() if name != "bar"}


def split(samples: Samples) -> Samples:
    return [(key, {name: value for name, value in fields.items() if name != "bar"}) for key, fields in samples]


def table(*entries: int) -> bytes:
    return struct.pack(f"<{len(entries)}Q", *entries)


def index_of(path: Path, **options: Any) -> tuple[Shard, ShardIndex]:
    shards = CONTAINER.shards(path)
    assert shards is not None
    [shard] = shards
    return shard, CONTAINER.index(shard, ReadOptions(**options))


def read(path: Path, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    shards = CONTAINER.shards(path)
    assert shards is not None
    return [row for shard in shards for row in stored_samples(shard, CONTAINER.index(shard, ReadOptions(**options)))]


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def dataset(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def refs_bag(*refs: list[Any]) -> bytes:
    records = [msgpack.packb(ref) for ref in refs]
    return b"".join(records) + table(*np.cumsum([len(record) for record in records]).tolist())


SHUFFLED = {
    "a.bag": b"onetwothree" + table(3, 6, 11),
    "s.bag": b"abcd" + table(1, 2, 3, 4),
    "refs.bag": refs_bag([2, [1, 2]], [0, []], [2, [0, 1]]),
    "spec.json": b'{"a": "bytes", "s": "bytes[]"}',
}
