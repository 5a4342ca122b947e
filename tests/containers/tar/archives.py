"""Small tar archives, made by Python's tarfile, and how to read them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.containers.summed import summed_table
from tests.containers.writing import stored_samples

from bushel._index.shard import Shard
from bushel.containers.tar import CONTAINER
from bushel.spec import parse_spec


def archive(files: Sequence[tuple[str, bytes]], **how: Any) -> bytes:
    """An archive by Python's tarfile."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", **how) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return target.getvalue()


def as_webdataset(samples: Sequence[tuple[str, Mapping[str, bytes]]]) -> bytes:
    """What webdataset's TarWriter(mtime=0) writes: the same calls of tarfile."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w|") as tar:
        for key, fields in samples:
            for extension in sorted(fields):
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size, member.mode, member.mtime = len(fields[extension]), 0o444, 0
                member.uname = member.gname = "bigdata"
                tar.addfile(member, io.BytesIO(fields[extension]))
    return target.getvalue()


def without_description(data: bytes) -> bytes:
    """The archive without the comment at its start, and with the end that it then has."""
    if data[156:157] != b"g":
        return data
    at = 512 + -(-int(data[124:135], 8) // 512) * 512
    end = len(data)
    while end > at and not any(data[end - 512 : end]):
        end -= 512
    rest = data[at:end] + bytes(1024)
    return rest + bytes(-len(rest) % 10240)


def shard_of(folder: Path, data: bytes, name: str = "x.tar") -> Shard:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_bytes(data)
    [shard] = CONTAINER.shards(folder / name) or []
    return shard


def content(shard: Shard) -> bytes:
    with shard.path(0).open("rb") as handle:
        data = handle.read()
    assert isinstance(data, bytes)
    return data


def read(folder: Path, data: bytes, spec: Mapping[str, str] | None = None) -> list[tuple[str, dict[str, Any]]]:
    shard = shard_of(folder, data)
    return stored_samples(shard, summed_table(CONTAINER, shard, None if spec is None else parse_spec(spec)))


SMALL = {
    "plain": as_webdataset([("a", {"cls": b"3", "txt": b"hi"}), ("b", {"txt": b"x" * 600})]),
    "pax": archive([("n" * 120 + ".txt", b"hi"), ("é.cls", b"1")], format=tarfile.PAX_FORMAT),
    "gnu": archive([("n" * 120 + ".txt", b"hi"), ("é.cls", b"1")], format=tarfile.GNU_FORMAT),
}
