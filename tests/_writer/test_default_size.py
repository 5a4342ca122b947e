"""Folders have shards of a usual size; a bag or gulp that is smaller has the layout of one shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.formats import each_format
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._writer import target
from bushel._writer.target import ShardLimits
from bushel.storage.objects.location import ObjectPath

SIZE = 2000
SOURCE = Numbered(9)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_SHARD_BYTES", SIZE)


def labels(path: Any) -> list[int]:
    return [sample["label"] for sample in bushel.open(path, verify=True)]


@each_format
def test_a_larger_folder_is_that_of_a_given_size(tmp_path: Path, container: str, generation: Any) -> None:
    how: dict[str, Any] = {"container": container, "generation": generation}
    bushel.pack(SOURCE, tmp_path / "usual", **how)
    bushel.pack(SOURCE, tmp_path / "given", shard_bytes=SIZE, **how)
    assert files_of(tmp_path / "usual") == files_of(tmp_path / "given")
    assert len(bushel.open(tmp_path / "usual").shards) > 1
    assert labels(tmp_path / "usual") == list(range(9))
    assert bushel.verify(tmp_path / "usual").problems == ()
    assert not (tmp_path / "usual/.bushel/staging").exists()
    bushel.pack(SOURCE, tmp_path / "one", shard_bytes=0, **how)
    assert len(bushel.open(tmp_path / "one").shards) == 1


@each_format
def test_a_smaller_folder_is_that_of_one_shard(tmp_path: Path, container: str, generation: Any) -> None:
    how: dict[str, Any] = {"container": container, "generation": generation}
    bushel.pack(Numbered(1), tmp_path / "usual", **how)
    bushel.pack(Numbered(1), tmp_path / "one", shard_bytes=0, **how)
    assert files_of(tmp_path / "usual") == files_of(tmp_path / "one")
    with bushel.Writer(tmp_path / "usual", mode="append") as writer:
        for number in range(1, 9):
            writer.append(SOURCE[number])
    assert labels(tmp_path / "usual") == list(range(9))
    counts = {"bag": 1, "gulp": 2}
    assert len(bushel.open(tmp_path / "usual").shards) == counts.get(
        container, len(bushel.open(tmp_path / "usual").shards)
    )


@each_format
def test_an_interrupted_run_goes_on(tmp_path: Path, container: str, generation: Any) -> None:
    spec = {"image": "jpg", "label": "int", "text": "utf8"}
    how: dict[str, Any] = {"container": container, "generation": generation}

    def write(name: str, first: int, stop: int, **more: Any) -> None:
        with bushel.Writer(tmp_path / name, spec, **{**how, **more}) as writer:
            assert len(writer) >= first
            for number in range(len(writer), len(SOURCE)):
                if number == stop:
                    raise KeyboardInterrupt
                writer.append(SOURCE[number])

    if generation == "A":
        how["generation"] = "B"  # which alone is written sample by sample
    with pytest.raises(KeyboardInterrupt):
        write("out", 0, 7)
    write("out", 1, -1, mode="resume")
    write("whole", 0, -1)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


@each_format
def test_in_an_object_store(tmp_path: Path, container: str, generation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Buckets(monkeypatch, tmp_path / "scratch")
    how: dict[str, Any] = {"container": container, "generation": generation}
    for name, source in (("few", Numbered(1)), ("many", SOURCE)):
        bushel.pack(source, tmp_path / name, **how)
        bushel.pack(source, f"s3://bucket/{name}", **how)
        assert objects_in(ObjectPath.parse(f"s3://bucket/{name}")) == files_of(tmp_path / name)
        assert labels(f"s3://bucket/{name}") == list(range(len(source)))


def test_a_file_where_the_first_of_several_shards_would_be(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "out", {"x": "bytes"}, container="bag") as writer:
        writer.append({"x": bytes(10)})
        (tmp_path / "out/000000").mkdir()
        (tmp_path / "out/000000/x.bag").write_bytes(b"of somebody else")
        with pytest.raises(FileExistsError, match="another program has put it here"):
            writer.append({"x": bytes(SIZE)})
    assert (tmp_path / "out/000000/x.bag").read_bytes() == b"of somebody else"


@pytest.mark.parametrize(
    ("limits", "total", "written", "before", "expected"),
    [
        (ShardLimits(None, None), 100, 0, None, 100),
        (ShardLimits(30, None), 100, 80, 30, 20),
        (ShardLimits(None, 1 << 30, estimated=True), 100, 0, None, 100),
        (ShardLimits(None, 1 << 30, estimated=True), 100, 40, 40, 40),
        (ShardLimits(None, 1 << 30, estimated=True), 100, 80, 40, 20),
        (ShardLimits(None, 1000), 100, 0, None, None),
        (ShardLimits(None, 1000), 100, 12, 12, 12),
        (ShardLimits(None, 1000), None, 12, 12, None),
    ],
)
def test_how_many_samples_a_shard_will_get(
    limits: ShardLimits, total: int | None, written: int, before: int | None, expected: int | None
) -> None:
    assert limits.expected(total, written, before) == expected
