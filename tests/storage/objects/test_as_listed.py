"""A remote dataset with a manifest is what its manifest lists, as a local one is."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tests.storage.objects.datasets import write
from tests.storage.objects.memory import Buckets
from tests.storage.objects.range_server import Server

import bushel
from bushel.errors import FormatError, IncompleteWarning
from bushel.storage import as_path, read_whole, remove, write_whole
from bushel.storage.objects.location import ObjectPath

OUT = "s3://bucket/out"


@pytest.fixture(params=["tar", "ffrecord", "recordio"])
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ObjectPath:
    """A dataset of 40 samples in 6 shards."""
    Buckets(monkeypatch, tmp_path / "scratch")
    write(OUT, request.param, None, shard_samples=7)  # type: ignore[arg-type]
    return ObjectPath.parse(OUT)


def second(folder: ObjectPath) -> list[ObjectPath]:
    shard = bushel.open(folder).shards[1].shard
    return [path for number in range(len(shard.files)) if isinstance(path := shard.path(number), ObjectPath)]


def test_a_listed_shard_that_is_gone(folder: ObjectPath) -> None:
    for path in second(folder):
        remove(path)
    with pytest.raises(FormatError, match=r"1 shard \(.*\) is listed in the manifest, but missing"):
        bushel.open(OUT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = bushel.open(OUT, allow_incomplete=True)
    assert len(ds) == 33
    assert not ds.info.complete
    bushel.index(OUT)
    assert len(bushel.open(OUT)) == 33


def test_an_object_that_is_not_listed_is_not_read(folder: ObjectPath) -> None:
    for path in second(folder):
        write_whole(as_path(str(path).replace("00001", "00007")), read_whole(path))
    with pytest.warns(IncompleteWarning, match="not listed in the manifest, and not read"):
        ds = bushel.open(OUT)
    assert list(ds.keys) == [f"key-{number}" for number in range(40)]
    bushel.index(OUT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(bushel.open(OUT)) == 47


def test_a_foreign_object_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Buckets(monkeypatch, tmp_path / "scratch")
    write(OUT, "tar", None, shard_samples=7)  # type: ignore[arg-type]
    spec = bushel.open(OUT).spec
    write_whole(as_path(f"{OUT}/aaa.tar"), b"no tar")
    with pytest.warns(IncompleteWarning, match=r"1 shard \(aaa\.tar\) is not listed"):
        ds = bushel.open(OUT)
    assert (ds.spec, len(ds)) == (spec, 40)


def test_an_incomplete_dataset_is_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Buckets(monkeypatch, tmp_path / "scratch")
    writer = bushel.Writer(OUT, {"n": "int"}, container="tar", shard_samples=2)
    for number in range(5):
        writer.append({"n": number}, key=str(number))
    stopped = RuntimeError("stopped")
    writer.__exit__(RuntimeError, stopped, None)  # which waits for the uploads
    with pytest.warns(IncompleteWarning, match="is incomplete"):
        assert len(bushel.open(OUT)) == 4
    with bushel.Writer(OUT, mode="resume") as writer:
        writer.append({"n": 4}, key="4")
    assert len(bushel.open(OUT)) == 5


def test_a_file_that_is_gone_from_a_server(server: Server) -> None:
    write(server.folder / "set", "tar", None, shard_samples=7)
    gone = sorted((server.folder / "set").glob("*.tar"))[1]
    gone.unlink()
    with pytest.raises(FormatError, match="a file of the dataset is missing") as error:
        bushel.open(f"{server.url}/set")
    assert gone.name in str(error.value)
    ds = bushel.open(f"{server.url}/set", allow_incomplete=True)
    assert len(ds) == 33
    assert not ds.info.complete
    assert ds.keys[7] == "key-14"
