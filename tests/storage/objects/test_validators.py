"""Servers that say neither ETag nor time of modification: bytes are compared with checksums instead."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.storage.objects.range_server import Server

import bushel
from bushel.errors import CorruptError

SPEC = {"data": "bytes", "label": "int"}


def write(folder: Path, version: int, **options: Any) -> None:
    with bushel.Writer(folder, SPEC, container="tar", sync=False, **options) as writer:
        for number in range(40):
            writer.append(
                {"data": b"%d %d" % (version, number) * 500, "label": 100 * version + number}, key=f"k{number}"
            )


@pytest.fixture
def silent(server: Server) -> Server:
    server.tags = server.times = False
    return server


def replace(server: Server, shard_samples: int) -> None:
    """Replace the data by another version of the same size."""
    write(server.folder / "other", 2, shard_samples=shard_samples)
    for path in (server.folder / "other").glob("*.tar"):
        assert path.stat().st_size == (server.folder / "set" / path.name).stat().st_size
        shutil.copy(path, server.folder / "set" / path.name)


@pytest.mark.parametrize("listed", [False, True])
def test_a_replaced_file_is_noticed(silent: Server, listed: bool) -> None:
    shard_samples = 1 if listed else 20  # of more than 32 shards, each is opened when it is read
    write(silent.folder / "set", 1, shard_samples=shard_samples)
    ds = bushel.open(f"{silent.url}/set")
    assert ds.shards[0].loaded != listed
    assert ds[0] == {"__key__": "k0", "data": b"1 0" * 500, "label": 100}
    replace(silent, shard_samples)
    for read in (lambda: ds[1], lambda: ds.read([4, 5]), lambda: ds[7, ["label"]]):
        with pytest.raises(CorruptError, match="CRC-32"):
            read()
    with pytest.raises(CorruptError):
        next(iter(bushel.Loader(ds, 4, to="numpy", collate={"data": "list"})))
    unchecked = bushel.open(f"{silent.url}/set", verify=False)
    assert unchecked[1]["data"] == b"2 1" * 500


def test_a_server_with_either_is_not_compared(server: Server) -> None:
    write(server.folder / "set", 1, shard_samples=3)
    server.tags = False
    ds = bushel.open(f"{server.url}/set")
    assert not any(map(ds.reader.checks, ds.shards))
    local = bushel.open(server.folder / "set")
    assert not any(map(local.reader.checks, local.shards))


def test_without_checksums_the_size_decides(silent: Server) -> None:
    write(silent.folder / "set", 1, shard_samples=3)
    shutil.rmtree(silent.folder / "set" / ".bushel")
    ds = bushel.open(f"{silent.url}/set/shard-{{000000..000013}}.tar")
    assert ds[0]["label"] == 100
    path = silent.folder / "set" / "shard-000000.tar"
    path.write_bytes(path.read_bytes() + bytes(10240))
    with pytest.raises(bushel.errors.FormatError, match="has changed since"):
        ds.read([1])
