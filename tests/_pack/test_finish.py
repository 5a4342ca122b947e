"""The finish is a tree of tasks: the same dataset whether its leaves are read in threads, in processes or remotely."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._pack.pack_sources import Numbered, files_of
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._pack import finish, leaves
from bushel._pack.key_hashes import RepeatedTask, ranges_of_hashes, save_hashes
from bushel._pack.run_folder import find_run
from bushel._pack.run_plan import RunPlan, part_starts
from bushel.engines import Attempt, Finished, Task
from bushel.engines.local import LocalEngine
from bushel.storage.objects.location import ObjectPath


class Here:
    """An engine that runs each attempt when it is submitted."""

    slots = 1

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self._finished: list[Finished] = []

    def submit(self, task: Task, attempt: Attempt) -> None:
        self.tasks.append(type(getattr(task, "work", task)).__name__)
        self._finished.append(Finished(attempt, task(attempt.number)))

    def wait(self, seconds: float, unwanted: Sequence[Attempt] = ()) -> list[Finished]:
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        self._finished = []


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make leaves of two parts, and look at few keys at a time."""
    monkeypatch.setattr(leaves, "_PARTS", 2)
    monkeypatch.setattr(finish, "_LEAVES", 2)
    monkeypatch.setattr("bushel._pack.key_hashes._AT_ONCE", 5)


SOURCE = Numbered(20, bad=(4, 15))
OPTIONS: dict[str, Any] = {"container": "tar", "parts": 7, "shard_samples": 2, "max_errors": 2}


def everything(path: Path) -> tuple[dict[str, bytes], bytes, Any]:
    manifest = json.loads((path / ".bushel/manifest.json").read_text())
    for shard in manifest["shards"]:
        shard["files"] = [file[:2] for file in shard["files"]]  # without times
    return files_of(path), path.with_name(f"{path.name}.errors.jsonl").read_bytes(), manifest


def test_leaves_in_threads_and_on_an_engine(tmp_path: Path, small: None) -> None:
    bushel.pack(SOURCE, tmp_path / "threads", **OPTIONS)
    engine = Here()
    bushel.pack(SOURCE, tmp_path / "here", engine=engine, **OPTIONS)
    assert engine.tasks == ["PartTask"] * 7 + ["LeafTask"] * 4 + ["RepeatedTask"] * 4
    bushel.pack(SOURCE, tmp_path / "processes", engine=LocalEngine(2), **OPTIONS)
    found = [everything(tmp_path / name) for name in ("threads", "here", "processes")]
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert sorted(path.name for path in (tmp_path / "here/.bushel/run").glob("finish-*")) == []


def test_in_an_object_store(tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    Buckets(monkeypatch, tmp_path / "scratch")
    bushel.pack(SOURCE, tmp_path / "out", **OPTIONS)
    out = ObjectPath.parse("s3://bucket/out")
    bushel.pack(SOURCE, str(out), engine=Here(), **OPTIONS)
    assert objects_in(out) == files_of(tmp_path / "out")
    assert list(bushel.open(str(out)).keys) == list(bushel.open(tmp_path / "out").keys)
    assert not [name for name in objects_in(out, sidecars=True) if "finish-" in name]
    run, plan = find_run(str(out))
    assert (run.missing(plan), run.load_result() is not None) == ([], True)


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_a_leaf_is_bounded_by_its_keys_and_there_are_as_many_as_they_have_parts(samples: int, parts: int) -> None:
    plan = RunPlan("pack", "tar", samples, part_starts(samples, 1)[:1] * parts + [samples], {})
    size = leaves.leaf_size(plan)
    assert size >= 1
    assert size == 1 or size * (samples // parts) <= 4 << 20
    assert size <= max(64, int(parts**0.5) + 1)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=20), min_size=1, max_size=6), st.data())
def test_hashes_of_several_files(tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], data: Any) -> None:
    folder = tmp_path_factory.mktemp("keys")
    if files[0]:
        files[-1] = list({*files[-1], data.draw(st.sampled_from(files[0]))})
    for number, own in enumerate(files):
        save_hashes(folder / f"{number}", np.array(own, np.uint64))
    counts: dict[int, int] = {}
    for value in (value for own in files for value in own):
        counts[value] = counts.get(value, 0) + 1
    paths = [folder / f"{number}" for number in range(len(files))]
    ranges = ranges_of_hashes(data.draw(st.sampled_from([0, 10**7, 10**9, 10**12])))
    assert [ranges[0].start, ranges[-1].stop] == [0, 256]
    assert all(before.stop == after.start for before, after in zip(ranges, ranges[1:], strict=False))
    if len(ranges) > 8:
        ranges = ranges_of_hashes(10**7)
    task = RepeatedTask(paths, ranges)
    found = np.concatenate([task(number) for number in range(len(ranges))]).tolist()
    assert found == sorted(value for value, count in counts.items() if count > 1)
