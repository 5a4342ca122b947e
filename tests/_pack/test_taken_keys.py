"""Keys that samples of several parts have: the first sample keeps its key, and later ones are errors, as in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.ends_of_threads import in_threads
from tests.formats import each_format
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._pack.commit import publish
from bushel._pack.finish import finish_run
from bushel._pack.run_folder import find_run
from bushel.engines.local import LocalEngine
from bushel.errors import StateError, TooManyErrors
from bushel.storage.objects.location import ObjectPath

TWICE = {3: 1, 8: 1, 9: 8, 13: 2, 14: 4, 15: 5}


class Repeating(Numbered):
    """Some samples have the key of an earlier one; one of them is in the same part as that, with 4 parts of 5."""

    def __getitem__(self, position: int) -> dict[str, Any]:
        sample = super().__getitem__(position)
        return {**sample, "__key__": f"k{TWICE.get(position, position):04d}"}


SOURCE = Repeating(20, bad=(6,))


def contents(path: Any) -> list[tuple[str, int]]:
    return [(sample["__key__"], sample["label"]) for sample in bushel.open(path, verify=True)]


@each_format
def test_as_one_run_would_do(tmp_path: Path, container: str, generation: Any) -> None:
    options: dict[str, Any] = {"container": container, "generation": generation, "max_errors": None}
    one = bushel.pack(SOURCE, tmp_path / "one", **options)
    done = bushel.pack(SOURCE, tmp_path / "out", parts=4, shard_samples=2, **options)
    assert (done.samples, done.kept, done.errors, done.bytes) == (14, 0, 6, one.bytes)
    assert contents(tmp_path / "out") == contents(tmp_path / "one")
    logs = [(tmp_path / f"{name}.errors.jsonl").read_text() for name in ("out", "one")]
    assert logs[0] == logs[1]
    assert bushel.verify(tmp_path / "out").problems == ()
    run, plan = find_run(tmp_path / "out")
    assert (run.missing(plan), run.with_taken_keys(), run.errors()) == ([], {1, 2, 3}, {0: 1, 1: 2, 2: 2, 3: 1})


def test_part_by_part_and_on_an_engine(tmp_path: Path) -> None:
    options: dict[str, Any] = {"container": "tar", "parts": 4, "max_errors": 6, "shard_samples": 2}
    bushel.pack(SOURCE, tmp_path / "one", **options)
    done = bushel.pack(SOURCE, tmp_path / "engine", engine=LocalEngine(2), **options)
    assert (done.samples, done.errors) == (14, 6)
    for part in (3, 1, 0, 2):
        bushel.pack(SOURCE, tmp_path / "out", part=part, **options)
    run, plan = find_run(tmp_path / "out")
    with pytest.raises(StateError, match="Parts 1-3 must be written again without these: run the same"):
        finish_run(run, plan)
    assert run.missing(plan) == [1, 2, 3]
    for part in (3, 1, 2):
        bushel.pack(SOURCE, tmp_path / "out", part=part, **options)
    assert finish_run(run, plan).samples == 14
    for name in ("out", "engine"):
        assert files_of(tmp_path / name) == files_of(tmp_path / "one")
    logs = {(tmp_path / f"{name}.errors.jsonl").read_text() for name in ("one", "out", "engine")}
    assert len(logs) == 1
    bushel.pack(SOURCE, tmp_path / "out", part=2, mode="overwrite", **options)
    assert finish_run(run, plan).samples == 14
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")


def test_the_budget_is_that_of_the_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"container": "tar", "parts": 4}
    with pytest.raises(TooManyErrors, match="With these, 6 items cannot be packed, but max_errors allows 5"):
        bushel.pack(SOURCE, tmp_path / "out", max_errors=5, **options)
    assert find_run(tmp_path / "out")[0].with_taken_keys() == set()
    assert bushel.pack(SOURCE, tmp_path / "out", max_errors=6, **options).errors == 6
    with pytest.raises(ValueError, match="key 'k0001' is in the dataset already"):
        bushel.pack(Repeating(10), tmp_path / "strict", container="tar", parts=5, strict=True, max_errors=None)


@pytest.mark.parametrize("target", ["out", "x.tar"])
def test_a_kill_after_a_part_was_written_again(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"container": "tar", "parts": 4, "max_errors": None, "shard_samples": None}
    published: list[int] = []

    def dying(run: Any, record: Any) -> None:
        if record.again:
            raise KeyboardInterrupt
        published.append(record.part)
        publish(run, record)

    with monkeypatch.context() as patch:
        patch.setattr("bushel._pack.commit.publish", dying)
        with pytest.raises(KeyboardInterrupt):
            bushel.pack(SOURCE, tmp_path / target, **options)
    run, plan = find_run(tmp_path / target)
    assert run.missing(plan) == [2, 3]
    assert bushel.pack(SOURCE, tmp_path / target, **options).errors == 6
    bushel.pack(SOURCE, tmp_path / "one", container="tar", max_errors=None)
    pattern = tmp_path / "out" if target == "out" else tmp_path / "x-part-*.tar"
    assert contents(str(pattern)) == contents(tmp_path / "one")


def test_two_drivers_at_once(tmp_path: Path) -> None:
    options: dict[str, Any] = {"container": "tar", "parts": 4, "max_errors": None}
    bushel.pack(SOURCE, tmp_path / "one", **options)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            bushel.pack(SOURCE, tmp_path / "out", **options)
        except Exception as error:
            failures.append(error)

    in_threads(3, work)
    assert not failures
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")


@pytest.mark.parametrize("container", ["tar", "bag", "recordio"])
def test_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str) -> None:
    Buckets(monkeypatch, tmp_path / "scratch")
    options: dict[str, Any] = {"container": container, "parts": 4, "max_errors": None, "shard_samples": 2}
    bushel.pack(SOURCE, tmp_path / "out", **options)
    bushel.pack(SOURCE, "s3://bucket/out", **options)
    assert objects_in(ObjectPath.parse("s3://bucket/out")) == files_of(tmp_path / "out")
    assert contents("s3://bucket/out") == contents(tmp_path / "out")
    names = objects_in(ObjectPath.parse("s3://bucket/out"), sidecars=True)
    assert not [name for name in names if "attempts" in name]
    assert bushel.verify("s3://bucket/out").problems == ()
