"""Indexes that are kept in another place than the data."""

from __future__ import annotations

import errno
import logging
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import fails
from tests.containers.read_in_place import FOREIGN
from tests.storage.objects.datasets import write
from tests.storage.objects.range_server import Server, served

import bushel
from bushel.errors import FormatError

PARQUET = FOREIGN / "hf-parquet/data/train-00000-of-00001.parquet"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    yield from served(tmp_path, monkeypatch, 5)


def test_the_index_of_a_folder_that_is_read_only(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "indexes" / "data"
    write(data, "tar", None, shard_samples=15)
    shutil.rmtree(data / ".bushel")
    before = sorted(data.rglob("*"))
    indexed = bushel.index(data, index=place, columns="label")
    assert sorted(data.rglob("*")) == before
    assert (place / ".bushel/manifest.json").exists()
    assert len(list((place / ".bushel").glob("*.safetensors"))) == 3
    again = bushel.open(data, index=str(place))
    assert (again.fingerprint, again.columns) == (indexed.fingerprint, indexed.columns)
    assert again.info.indexed
    assert not bushel.open(data, index="memory").info.indexed
    assert pickle.loads(pickle.dumps(again)).read([20]) == indexed.read([20])
    assert sorted(data.rglob("*")) == before


def test_an_index_that_cannot_be_beside_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, place = tmp_path / "data", tmp_path / "indexes"
    write(data, "tar", None)
    make_folder = os.mkdir

    def mkdir(path: Any, *arguments: Any, **options: Any) -> None:
        if os.fspath(path).startswith(str(data)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))
        make_folder(path, *arguments, **options)

    shutil.rmtree(data / ".bushel")
    monkeypatch.setattr(os, "mkdir", mkdir)
    message = fails("index", data, code=2)
    assert "Read-only file system" in message
    assert "index= (--index) names another folder" in message
    assert len(bushel.index(data, index=place)) == len(bushel.open(data, index=place))


def test_a_scanned_index_is_kept_there(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "indexes"
    write(data, "tar", None, shard_samples=15)
    shutil.rmtree(data / ".bushel")
    first = bushel.open(data, index=place)
    assert not (data / ".bushel").exists()
    assert len(list((place / ".bushel").glob("*.safetensors"))) == 3
    sample = first.read([3])
    path = sorted(data.glob("*.tar"))[0]
    path.write_bytes(path.read_bytes() + bytes(10240))  # it is noticed
    assert bushel.open(data, index=place).read([3]) == sample


def test_the_index_of_files_on_a_server(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copy(PARQUET, server.folder / "a.parquet")
    url, place = f"{server.url}/a.parquet", tmp_path / "indexes"
    with caplog.at_level(logging.WARNING, "bushel"):
        bushel.index(url, index=place, checksums=False)
    assert f"up to {PARQUET.stat().st_size:,} bytes are read to index it" in caplog.text
    asked = len(server.asked)
    remote = bushel.open(url, index=place)
    assert remote.info.unread == 0
    assert remote.info.indexed
    assert len(server.asked) - asked <= 5  # no byte of the file; two ask for lists of removed samples
    local = bushel.open(PARQUET, index="memory")
    assert bytes(remote.read([7], decode=False)[0]["image"]) == bytes(local.read([7], decode=False)[0]["image"])
    assert remote.spec == local.spec
    (server.folder / "a.parquet").write_bytes(PARQUET.read_bytes()[:-1] + b"x")
    with pytest.raises(FormatError):
        bushel.open(url, index=place)


def test_wrong_places(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder, "tar", None, shard_samples=15)
    with pytest.raises(ValueError, match=r"index='requier' should be 'auto', 'memory', 'require'.*'\./requier'"):
        bushel.open(tmp_path / "a", index="requier")
    with pytest.raises(FormatError, match="two shards have the name .*one folder cannot hold the index of both"):
        bushel.open([tmp_path / "a", tmp_path / "b"], index=tmp_path / "indexes")
