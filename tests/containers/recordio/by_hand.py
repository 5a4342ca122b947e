"""RecordIO files built by hand, for the tests of the container."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.containers.writing import Sample, stored_samples

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions
from bushel.containers.recordio import CONTAINER

M = struct.pack("<I", 0xCED7230A)
FOUR = [b"", b"a", b"abcd", b"abcde"]
FOUR_REC = bytes.fromhex(
    "0a23d7ce 00000000 0a23d7ce 01000000 61000000 0a23d7ce 04000000 61626364 0a23d7ce 05000000 61626364 65000000"
)
FOUR_IDX = b"0\t0\n1\t8\n2\t20\n3\t32\n"
SPLIT = {
    M: "0a23d7ce 00000020  0a23d7ce 00000060",
    b"xy" + M + b"zz": "0a23d7ce 08000000 7879 0a23d7ce 7a7a",
    b"wxyz" + M + b"q": "0a23d7ce 04000020 7778797a  0a23d7ce 01000060 71000000",
    M + M: "0a23d7ce 00000020  0a23d7ce 00000040  0a23d7ce 00000060",
    M + b"k" + M + b"123": "0a23d7ce 00000020  0a23d7ce 08000060 6b 0a23d7ce 313233",
}
PLAIN, IMAGE = {"data": "bytes"}, {"image": "jpg", "label": "int"}
MAPS = {"image": "jpg", "words": "utf8[]", "note": "utf8"}
JPEG, PNG = b"\xff\xd8\xff\xe0 a jpeg", b"\x89PNG\r\n\x1a\n a png"
LABEL, INTEGER = get_codec("recordio-label").encode, get_codec("recordio-label-int").encode


def frame(payload: bytes) -> bytes:
    """A record of one part."""
    return M + struct.pack("<I", len(payload)) + payload + bytes(-len(payload) % 4)


def image(label: Any = 4.0, number: int = 2574, data: bytes = JPEG) -> bytes:
    """The payload of an image record, as mxnet.recordio.pack makes it."""
    if isinstance(label, float):
        return struct.pack("<IfQQ", 0, label, number, 0) + data
    return struct.pack("<IfQQ", len(label), 0, number, 0) + np.array(label, "<f4").tobytes() + data


def shard_of(folder: Path, rec: bytes, idx: bytes | None = None, name: str = "x.rec") -> Shard:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(rec)
    (folder / name).with_suffix(".idx").unlink(missing_ok=True)
    if idx is not None:
        (folder / name).with_suffix(".idx").write_bytes(idx)
    [shard] = CONTAINER.shards(folder / name) or []
    return shard


def index(folder: Path, rec: bytes, idx: bytes | None = None, **options: Any) -> ShardIndex:
    return CONTAINER.index(shard_of(folder, rec, idx), ReadOptions(**options))


def read(folder: Path, rec: bytes, idx: bytes | None = None, **options: Any) -> list[Any]:
    return stored_samples(shard := shard_of(folder, rec, idx), CONTAINER.index(shard, ReadOptions(**options)))


def plain(*values: bytes) -> list[Sample]:
    return [(None, {"data": value}) for value in values]


def positions(samples: Sequence[Sample]) -> list[Any]:
    return [(key or str(number), dict(fields)) for number, (key, fields) in enumerate(samples)]


def content(shard: Shard) -> tuple[bytes, bytes]:
    first, second = (Path(str(shard.path(number))).read_bytes() for number in range(2))
    return first, second
