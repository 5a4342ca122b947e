"""The requests of opening a dataset in a bucket: how many there are, and which run at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.objects.conditional_store import Kept, keeping

import bushel

OUT = "s3://bucket/set"
INDEX = "bucket/set/.bushel"
SHARDS = [f"shard-{number:06d}.tar" for number in range(3)]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Kept]:
    """A bucket with a dataset of 6 samples in 3 shards."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with keeping(monkeypatch) as state:
        with bushel.Writer(OUT, {"n": "int"}, container="tar", shard_samples=2) as writer:
            for number in range(6):
                writer.append({"n": number}, key=f"k{number}")
        state.asked.clear()
        yield state


def test_a_folder_takes_one_request_for_each_table_and_four_more(kept: Kept) -> None:
    assert len(bushel.open(OUT)) == 6
    tables = [f"GET {INDEX}/{name}.safetensors" for name in SHARDS]
    first = ["LIST bucket/set/", f"GET {INDEX}/manifest.json"]
    assert sorted(kept.asked[:2]) == sorted(first)
    assert sorted(kept.asked[2:]) == sorted([*tables, f"GET {INDEX}/removed.safetensors", f"LIST {INDEX}/removed/"])


def test_what_does_not_depend_on_each_other_is_requested_together(kept: Kept) -> None:
    first = threading.Barrier(2)
    then = threading.Barrier(len(SHARDS) + 2)

    def before(asked: str) -> None:  # answers wait until all requests of their round have come
        (first if asked == "LIST bucket/set/" or asked.endswith("manifest.json") else then).wait(60)

    kept.before = before
    assert len(bushel.open(OUT)) == 6


def test_an_object_that_is_not_as_the_table_says_is_asked_for(kept: Kept) -> None:
    data, time = kept.objects["bucket/set/shard-000001.tar"]
    kept.objects["bucket/set/shard-000001.tar"] = data + bytes(1024), time
    with pytest.raises(bushel.errors.FormatError, match="its index is stale"):
        bushel.open(OUT, index="require")
    assert [each for each in kept.asked if each.startswith("HEAD")] == ["HEAD bucket/set/shard-000001.tar"]


def test_an_object_that_is_gone(kept: Kept) -> None:
    del kept.objects["bucket/set/shard-000001.tar"]
    with pytest.raises(bushel.errors.FormatError, match=r"shard-000001.tar\) is listed in the manifest, but missing"):
        bushel.open(OUT)


def test_removed_samples_stay_removed(kept: Kept) -> None:
    bushel.remove(OUT, keys=["k1", "k4"], reason="opt-out")
    kept.asked.clear()
    assert list(bushel.open(OUT).keys) == ["k0", "k2", "k3", "k5"]
    assert kept.asked.count(f"GET {INDEX}/removed.safetensors") == 1


def test_removed_samples_of_objects_that_were_replaced_after_the_listing(kept: Kept) -> None:
    other = "s3://bucket/other"
    with bushel.Writer(other, {"n": "int"}, container="tar", shard_samples=2) as writer:
        for number in range(6):
            writer.append({"n": number + 10}, key=f"k{number}")
    bushel.remove(other, keys=["k1"], reason="opt-out")
    new = {key.replace("/other/", "/set/"): kept.objects[key] for key in kept.objects if "/other/" in key}

    def before(asked: str) -> None:
        if asked.endswith(".tar.safetensors"):  # the list was requested when it did not exist
            kept.objects.update(new)

    kept.before = before
    assert list(bushel.open(OUT).keys) == ["k0", "k2", "k3", "k4", "k5"]


def test_a_file_by_its_name(kept: Kept) -> None:
    assert len(bushel.open(f"{OUT}/{SHARDS[0]}")) == 2
    heads = [each for each in kept.asked if each.startswith("HEAD")]
    assert heads == [f"HEAD bucket/set/{SHARDS[0]}"]
    assert f"GET {INDEX}/removed.safetensors" in kept.asked


@pytest.mark.parametrize("name", ["set/none", "set/none.tar", "none"])
def test_what_does_not_exist(kept: Kept, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"no such file or folder: s3://bucket/{name}"):
        bushel.open(f"s3://bucket/{name}")
