"""What opening does for each shard: which files it opens, and when it starts threads."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import bushel
import bushel._runtime.parallel
from bushel._dataset.open import shards as shards_module


def bags(folder: Path, shards: int, size: int) -> None:
    """Write bags with their tables beside them, whose data have `size` bytes, into numbered folders."""
    for number in range(shards):
        shard = folder / f"{number:06d}"
        shard.mkdir(parents=True)
        (shard / "spec.json").write_text(json.dumps({"x": "bytes"}))
        (shard / "x.idx").write_bytes((3).to_bytes(8, "little") + size.to_bytes(8, "little"))
        with open(shard / "x.bag", "wb") as data:
            data.write(b"abc")
            data.truncate(size)


def refuse_threads(*arguments: Any, **options: Any) -> Any:
    """Stand in for `map_each`."""
    raise AssertionError("threads are started")


def test_bags_with_tables_beside_them_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = shards_module._HERE_BYTES + 1  # of a table that had to be scanned, threads would be started
    bags(tmp_path / "ds", 3, size)
    opened: list[str] = []
    open_by_number, mapped = os.open, bushel.kernels.MappedFile

    def note(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(os.path.basename(path))
        return open_by_number(path, *arguments, **options)

    def note_mapped(path: str) -> Any:
        opened.append(os.path.basename(path))
        return mapped(path)

    monkeypatch.setattr(os, "open", note)
    monkeypatch.setattr("bushel.storage.files.MappedFile", note_mapped)
    monkeypatch.setattr("bushel._runtime.parallel.map_each", refuse_threads)
    dataset = bushel.open(tmp_path / "ds", container="bag", index="memory")
    assert len(dataset) == 6
    assert opened.count("x.idx") == 3
    assert "x.bag" not in opened
    assert dataset[4]["x"] == b"abc"


@pytest.mark.parametrize(
    ("waits", "worked", "expected"),
    [(0, 0.0, False), (0, 5.0, True), (1000, 0.0, True)],
    ids=["quick", "long work", "a slow disk"],
)
def test_threads_help_where_shards_wait_or_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: int, worked: float, expected: bool
) -> None:
    bags(tmp_path / "ds", 4, 3)
    usages = iter([(0, 0.0), *[(waits, worked)] * 9])

    def usage(_: int) -> SimpleNamespace:
        switches, seconds = next(usages)
        return SimpleNamespace(ru_nvcsw=switches, ru_utime=seconds, ru_stime=0.0)

    started: list[int] = []
    map_each = bushel._runtime.parallel.map_each

    def note(work: Any, shards: Any, **options: Any) -> Any:
        started.append(len(shards))
        return map_each(work, shards, **options)

    monkeypatch.setattr(shards_module, "_HERE_SECONDS", -1.0)
    monkeypatch.setattr("bushel._dataset.open.shards.resource.getrusage", usage)
    monkeypatch.setattr("bushel._runtime.parallel.map_each", note)
    assert len(bushel.open(tmp_path / "ds", container="bag", index="memory")) == 8
    assert bool(started) is expected
