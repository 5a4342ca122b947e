"""Runs in parts in an object store: the same bytes as on a disk, and nothing of processes that were killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.formats import each_format
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._dataset.open.locking import lock_of
from bushel._pack.finish import finish_run
from bushel._pack.run_folder import find_run
from bushel.errors import UnsupportedError
from bushel.storage import list_names, write_whole
from bushel.storage.objects.location import ObjectPath

OUT = "s3://bucket/out"


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Buckets:
    return Buckets(monkeypatch, tmp_path / "scratch")


@each_format
def test_the_same_bytes_as_on_a_disk(tmp_path: Path, buckets: Buckets, container: str, generation: Any) -> None:
    options: dict[str, Any] = {"container": container, "generation": generation, "parts": 3, "shard_samples": 3}
    source = Numbered(14, bad=(5,))
    bushel.pack(source, tmp_path / "out", max_errors=1, **options)
    bushel.pack(source, OUT, max_errors=1, part=1, **options)
    done = bushel.pack(source, OUT, max_errors=1, **options)
    assert done.samples + done.kept == 13
    assert objects_in(ObjectPath.parse(OUT)) == files_of(tmp_path / "out")
    dataset = bushel.open(OUT, verify=True, index="require")
    assert list(dataset.keys) == list(bushel.open(tmp_path / "out").keys)
    assert [sample["label"] for sample in dataset] == [label for label in range(14) if label != 5]
    assert bushel.verify(OUT).problems == ()
    assert (ObjectPath.parse("s3://bucket") / "out.errors.jsonl").read_bytes() == (
        tmp_path / "out.errors.jsonl"
    ).read_bytes()
    left = objects_in(ObjectPath.parse(OUT), sidecars=True)
    assert not [name for name in left if name.endswith((".lock", ".partial"))]
    assert buckets.staged() == []
    assert not list(buckets.scratch.rglob("*.safetensors"))
    bushel.convert(OUT, "s3://bucket/again", container=container, generation=generation, parts=3, shard_samples=3)
    assert list(bushel.open("s3://bucket/again").keys) == list(dataset.keys)


@pytest.mark.parametrize("target", [OUT, "s3://bucket/x.tar"])
def test_a_kill_before_the_manifest_of_a_part(buckets: Buckets, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"container": "tar", "parts": 2}

    def dying(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bushel._writer.written_shards.Marker.complete", dying)
        with pytest.raises(KeyboardInterrupt):
            bushel.pack(Numbered(6), target, **options)
    run, plan = find_run(target)
    assert run.missing(plan) == [0, 1]
    if target == OUT:
        write_whole(ObjectPath.parse(f"{OUT}/part-00000/shard-000007.tar"), b"of the killed process")
    assert bushel.pack(Numbered(6), target, **options).samples == 6
    result = finish_run(*find_run(target))
    assert result.samples == 6
    pattern = [OUT] if target == OUT else [f"s3://bucket/x-part-0000{part}.tar" for part in range(2)]
    dataset = bushel.open(pattern if target != OUT else OUT, verify=True, index="require")
    assert [sample["label"] for sample in dataset] == list(range(6))


def test_what_cannot_be_overwritten(buckets: Buckets) -> None:
    bushel.pack(Numbered(3), OUT, container="tar")
    with pytest.raises(FileExistsError, match="not of this run"):
        bushel.pack(Numbered(3), OUT, container="tar", parts=2)
    with pytest.raises(UnsupportedError, match="cannot replace a folder in an object store"):
        bushel.pack(Numbered(3), OUT, container="tar", parts=2, mode="overwrite")


def test_folders_are_listed_in_parallel(buckets: Buckets) -> None:
    names = [f"a/{folder}/{file}.jpg" for folder in range(3) for file in range(4)] + ["a/1/deep/er.jpg", "a/top.jpg"]
    for name in names:
        write_whole(ObjectPath.parse(f"s3://bucket/photos/{name}"), b"x")
    for root in ("s3://bucket/photos", "s3://bucket"):
        prefix = "" if root.endswith("photos") else "photos/"
        assert sorted(list_names(ObjectPath.parse(root))) == sorted(prefix + name for name in names)
    assert list_names(ObjectPath.parse("s3://bucket/nothing")) == []


@pytest.mark.parametrize("target", [OUT, "s3://bucket/x.tar"])
def test_the_lock_of_a_process_that_lost_the_store(buckets: Buckets, target: str) -> None:
    options: dict[str, Any] = {"container": "tar", "parts": 2}
    bushel.pack(Numbered(6), target, part=0, **options)
    run, plan = find_run(ObjectPath.parse(target))
    left = lock_of(run.part(0).parent, run.part(0).name)
    write_whole(left, b"of a process that wrote its part, and then lost its network")
    bushel.pack(Numbered(6), target, part=1, **options)
    finish_run(run, plan)
    assert not left.is_file()
