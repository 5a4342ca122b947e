"""FFRecord files built by hand, for the tests of the container."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.containers.writing import Sample

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel.containers.base import ReadOptions
from bushel.containers.ffrecord import CONTAINER

GOLDEN = bytes.fromhex(
    "70bf43e4 0300000000000000 86a61036 00000000 7f895408"
    "3000000000000000 3500000000000000 3500000000000000 68656c6c6f 000102"
)
NONE = bytes.fromhex("69df2265 0000000000000000")
PLAIN, MAPS = {"data": "bytes"}, {"image": "jpg", "words": "utf8[]", "label": "int"}


def ffr(records: Sequence[bytes], *, checksum: int | None = None) -> bytes:
    """A file, built by hand."""
    ends = list(itertools.accumulate(map(len, records), initial=12 + 12 * len(records)))
    tables = struct.pack("<q", len(records)) + b"".join(zlib.crc32(one).to_bytes(4, "little") for one in records)
    tables += np.array(ends[:-1], "<i8").tobytes()
    head = zlib.crc32(tables) if checksum is None else checksum
    return head.to_bytes(4, "little") + tables + b"".join(records)


def shard_of(folder: Path, data: bytes, name: str = "x.ffr") -> Shard:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    [shard] = CONTAINER.shards(folder / name) or []
    return shard


def index(folder: Path, data: bytes, **options: Any) -> ShardIndex:
    return CONTAINER.index(shard_of(folder, data), ReadOptions(**options))


def plain(*values: bytes) -> list[Sample]:
    return [(None, {"data": value}) for value in values]


def final(shard: Shard) -> bytes:
    assert not list(Path(str(shard.root)).glob(".bushel*"))
    return Path(str(shard.path(0))).read_bytes()
