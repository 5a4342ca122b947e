"""The contract of runs in parts: one plan, each part exactly once, one dataset at the end."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._pack.opening import opened
from tests._pack.pack_sources import Numbered, files_of
from tests.formats import each_format
from tests.sources.folders import image_folder

import bushel
from bushel._index.headers import PartOfRun
from bushel._index.removal_list import RemovalList
from bushel._pack.finish import PartReport, PartTask, finish_run
from bushel._pack.part import ErrorLimit
from bushel._pack.run_folder import RunFolder, RunPlan, Totals, describe, find_run, part_starts, planned_listing
from bushel._pack.scale_out import join_run, run_parts
from bushel._runtime.tasks import format_numbers
from bushel._writer.dataset_writer import DatasetWriter
from bushel._writer.publishing import Overwrite
from bushel._writer.target import WriterOptions
from bushel.engines.local import LocalEngine
from bushel.errors import FormatError, IncompleteWarning, StateError, TooManyErrors, UnsupportedError
from bushel.sources.opening import open_source

Generation = Literal["B", "C"] | None


def contents(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The keys and stored bytes of a dataset, in order."""
    dataset = opened(path)
    stored = dataset.read(range(len(dataset)), decode=False)
    return [(sample.pop("__key__"), {k: _plain(v) for k, v in sample.items()}) for sample in stored]


def _plain(value: Any) -> Any:
    return [bytes(each) for each in value] if isinstance(value, list) else bytes(value)


class TestPlan:
    def test_the_same_call_joins_and_another_is_refused(self, tmp_path: Path) -> None:
        options: dict[str, Any] = {"container": "tar", "parts": 3, "seed": 4}
        bushel.pack(Numbered(20), tmp_path / "out", part=1, **options)
        done = bushel.pack(Numbered(20), tmp_path / "out", **options)
        assert (done.samples, done.kept) == (13, 7)
        again = bushel.pack(Numbered(20), tmp_path / "out", **options)
        assert (again.samples, again.kept) == (0, 20)
        for change, message in (
            ({"parts": 4}, "parts=3; this call has parts=4"),
            ({"shard_samples": 2}, "shard_samples=None; this call has shard_samples=2"),
            ({"shuffle": True}, "shuffle="),
            ({"transforms": {"image": len}}, "transforms=None"),
        ):
            with pytest.raises(StateError, match=message):
                bushel.pack(Numbered(20), tmp_path / "out", **{**options, **change})
        with pytest.raises(StateError, match="source="):
            bushel.pack(Numbered(21), tmp_path / "out", **options)
        with pytest.raises(UnsupportedError, match="append"):
            bushel.pack(Numbered(20), tmp_path / "out", mode="append", **options)

    def test_other_samples_in_memory_are_another_run(self, tmp_path: Path) -> None:
        options: dict[str, Any] = {"container": "tar", "parts": 2, "spec": {"n": "int", "x": "array"}}

        def samples(first: int, key: str = "k") -> list[dict[str, Any]]:
            return [{"__key__": f"{key}{n}", "n": n, "x": np.arange(first, first + 3)} for n in range(4)]

        bushel.pack(samples(0), tmp_path / "out", **options)
        assert bushel.pack(samples(0), tmp_path / "out", **options).samples == 0
        for other in (samples(1), samples(0, "other")):
            with pytest.raises(StateError, match="source="):
                bushel.pack(other, tmp_path / "out", **options)
        arrays = {"n": np.arange(4), "name": ["a", "b", "c", "d"], "__key__": list("wxyz")}
        bushel.pack(arrays, tmp_path / "arrays", container="tar", parts=2)
        assert bushel.pack(arrays, tmp_path / "arrays", container="tar", parts=2).samples == 0
        for other_arrays in ({**arrays, "n": np.arange(1, 5)}, {**arrays, "name": ["a", "b", "c", "x"]}):
            with pytest.raises(StateError, match="source="):
                bushel.pack(other_arrays, tmp_path / "arrays", container="tar", parts=2)

    def test_a_dataset_that_is_there_is_not_replaced(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(3), tmp_path / "out", container="bag")
        with pytest.raises(FileExistsError, match="not of this run"):
            bushel.pack(Numbered(3), tmp_path / "out", container="bag", parts=2)
        assert len(opened(tmp_path / "out")) == 3

    @pytest.mark.parametrize("container", ["bag", "tar", "gulp", "ffrecord", "recordio"])
    def test_parts_are_not_written_beside_other_shards(self, tmp_path: Path, container: str) -> None:
        """Parts are replaced one by one, so a folder with shards of its own would have both, and not open."""
        options: dict[str, Any] = {"container": container, "mode": "overwrite", "sync": False}
        source = image_folder(tmp_path / "photos", 4)
        bushel.pack(source, tmp_path / "out", parts=2, **options)
        bushel.pack(source, tmp_path / "out", parts=2, **options)
        bushel.pack(source, tmp_path / "out", **options)
        with pytest.raises(FileExistsError, match="overwrite' and without parts"):
            bushel.pack(source, tmp_path / "out", parts=2, **options)
        assert len(opened(tmp_path / "out")) == 4
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes/a.txt").write_text("a")
        with pytest.raises(FileExistsError, match=r"has other files \(a\.txt\)"):
            bushel.pack(source, tmp_path / "notes", parts=2, **options | {"mode": "create"})
        for _ in range(2):
            bushel.pack(source, tmp_path / "notes", parts=2, **options)
            assert len(opened(tmp_path / "notes")) == 4
        with pytest.raises(FileExistsError, match="is a file, and parts need a folder"):
            bushel.pack(source, tmp_path / "notes/a.txt", parts=2, **options)

    def test_another_driver_writes_all_samples_meanwhile(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A driver that finds only parts of the other one has written no sample, and all of them are there."""
        source = Numbered(20, bad=(3,))
        options: dict[str, Any] = {"container": "tar", "parts": 2, "max_errors": 1}
        for part in range(2):
            bushel.pack(source, tmp_path / "out", part=part, **options)
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "written", lambda self, plan: {})  # as it was when this driver started
            done = bushel.pack(source, tmp_path / "out", **options)
        assert (done.samples, done.kept, done.errors) == (0, 19, 1)

    def test_another_driver_creates_the_plan_meanwhile(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        options: dict[str, Any] = {"container": "tar", "parts": 2}
        load_plan, answers = RunFolder.load_plan, [0, 0]

        def late(run: RunFolder) -> RunPlan | None:
            if answers:  # `planned_listing` and `join_run` have looked before it was there
                answers.pop()
                return None
            return load_plan(run)

        bushel.pack(Numbered(6), tmp_path / "out", part=0, **options)
        monkeypatch.setattr(RunFolder, "load_plan", late)
        done = bushel.pack(Numbered(6), tmp_path / "out", **options)
        assert (done.samples, done.kept, answers) == (3, 3, [])

    def test_only_the_plan(self, tmp_path: Path) -> None:
        done = bushel.pack(Numbered(7), tmp_path / "out", container="tar", parts=3, part="plan")
        assert (done.samples, len(done.paths)) == (0, 3)
        run, plan = find_run(tmp_path / "out")
        assert (plan.starts, run.missing(plan)) == ([0, 2, 4, 7], [0, 1, 2])
        with pytest.raises(bushel.errors.FormatError, match="interrupted"):
            bushel.open(tmp_path / "out")
        with pytest.raises(FileNotFoundError, match="no plan of a run"):
            find_run(tmp_path)

    @given(st.integers(0, 1000), st.integers(1, 60))
    def test_sizes_differ_by_one(self, samples: int, parts: int) -> None:
        starts = part_starts(samples, parts)
        sizes = [last - first for first, last in zip(starts, starts[1:], strict=False)]
        assert (len(sizes), sum(sizes), starts[0], starts[-1]) == (parts, samples, 0, samples)
        assert max(sizes) - min(sizes) <= 1

    @given(st.sets(st.integers(0, 40)))
    def test_numbers_as_ranges(self, numbers: set[int]) -> None:
        found: list[int] = []
        for piece in filter(None, format_numbers(sorted(numbers)).split(",")):
            first, _, last = piece.partition("-")
            found += range(int(first), int(last or first) + 1)
        assert found == sorted(numbers)
        assert format_numbers([7, 19, 20, 21, 22]) == "7,19-22"

    def test_descriptions_distinguish_functions(self) -> None:
        def by(text: str) -> Any:
            return lambda key: key + text

        assert describe(by("a")) == describe(by("a"))
        assert describe(by("a")) != describe(by("b"))
        assert describe(len) == "builtins.len"
        assert describe({"b": (1, None)}) == {"b": [1, None]}
        msgspec.json.encode(describe([Numbered(3), {3}, by("a")]))


class TestDataset:
    @each_format
    def test_it_is_that_of_one_run(self, tmp_path: Path, container: str, generation: Generation) -> None:
        photos = image_folder(tmp_path / "photos", 23)
        options: dict[str, Any] = {"container": container, "generation": generation, "shuffle": True, "seed": 1}
        bushel.pack(photos, tmp_path / "out", parts=4, shard_samples=3, **options)
        bushel.pack(photos, tmp_path / "one", **options)
        assert contents(tmp_path / "out") == contents(tmp_path / "one")
        dataset = opened(tmp_path / "out")
        assert dataset.labels == opened(tmp_path / "one").labels
        assert dataset.info.complete
        assert bushel.verify(tmp_path / "out").problems == ()
        manifest = json.loads((tmp_path / "out/.bushel/manifest.json").read_text())
        assert sum(shard["samples"] for shard in manifest["shards"]) == 23
        assert manifest["shards"][0]["name"].startswith("part-00000/")
        assert not (tmp_path / "out/.bushel/overwrite").exists()
        assert len(bushel.index(tmp_path / "out")) == 23
        assert json.loads((tmp_path / "out/.bushel/manifest.json").read_text()) == manifest

    @each_format
    def test_parts_in_any_order_and_the_same_bytes(
        self, tmp_path: Path, container: str, generation: Generation
    ) -> None:
        options: dict[str, Any] = {"container": container, "generation": generation, "parts": 3, "max_errors": None}
        source = Numbered(20, bad=(4, 15))
        bushel.pack(source, tmp_path / "one", **options)
        for part in (2, 0, 1):
            bushel.pack(source, tmp_path / "out", part=part, threads=part + 1, **options)
        with pytest.warns(IncompleteWarning, match="bushel finish"):
            bushel.open(tmp_path / "out")
        finish_run(*find_run(tmp_path / "out"))
        assert files_of(tmp_path / "out") == files_of(tmp_path / "one")
        logs = [(tmp_path / f"{name}.errors.jsonl").read_text() for name in ("out", "one")]
        assert logs[0] == logs[1]
        assert [json.loads(line)["position"] for line in logs[0].splitlines()] == [4, 15]

    def test_a_large_one_is_opened_by_its_manifest(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bushel.pack(Numbered(9), tmp_path / "out", container="bag", parts=3, shard_samples=2)
        expected = contents(tmp_path / "out")
        monkeypatch.setattr("bushel._dataset.open.discovery._MANY", 2)
        monkeypatch.setattr("bushel._dataset.open.shards._STAT_ALL", 2)
        dataset = bushel.open(tmp_path / "out")
        assert not any(shard.loaded for shard in dataset.shards)
        assert contents(tmp_path / "out") == expected
        os.rename(tmp_path / "out/part-00001", tmp_path / "away")
        with pytest.raises(FormatError, match="part-00001/.* listed in the manifest, but missing"):
            bushel.open(tmp_path / "out")
        assert len(bushel.open(tmp_path / "out", allow_incomplete=True)) == 6

    def test_more_parts_than_samples(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(2), tmp_path / "out", container="tar", parts=5)
        assert len(opened(tmp_path / "out")) == 2

    @pytest.mark.parametrize("container", ["tar", "gulp"])
    @pytest.mark.parametrize("columns", [False, True])
    def test_samples_without_keys_are_numbered_through(self, tmp_path: Path, container: str, columns: bool) -> None:
        spec = {"frames": "jpg[]", "label": "int"} if container == "gulp" else {"label": "int"}
        if columns and container == "gulp":
            pytest.skip("sequences are not columns")

        def samples() -> Any:
            if columns:
                return {"label": np.arange(10)}
            frames = {"frames": [np.zeros((8, 8, 3), np.uint8)]} if container == "gulp" else {}
            return [{**frames, "label": number} for number in range(10)]

        bushel.pack(samples(), tmp_path / "one", container=container, spec=spec)
        bushel.pack(samples(), tmp_path / "out", container=container, spec=spec, parts=3, threads=2)
        bushel.pack(samples(), tmp_path / "single", container=container, spec=spec, parts=1)
        keys = list(opened(tmp_path / "one").keys)
        assert len(set(keys)) == 10
        for name in ("out", "single"):
            assert list(opened(tmp_path / name).keys) == keys
            assert [sample["label"] for sample in opened(tmp_path / name)] == list(range(10))
        assert files_of(tmp_path / "single" / "part-00000") == files_of(tmp_path / "one")

    def test_bad_samples_without_keys_leave_gaps_between_parts_only(self, tmp_path: Path) -> None:
        source = [{"label": "x" if number in (1, 5) else number} for number in range(9)]
        bushel.pack(source, tmp_path / "out", container="tar", spec={"label": "int"}, parts=3, max_errors=9)
        assert [int(key) for key in opened(tmp_path / "out").keys] == [0, 1, 3, 4, 6, 7, 8]
        assert [sample["label"] for sample in opened(tmp_path / "out")] == [0, 2, 3, 4, 6, 7, 8]

    def test_a_dataset_without_keys_is_converted(self, tmp_path: Path) -> None:
        bushel.pack([{"label": number} for number in range(7)], tmp_path / "in", container="bag", spec={"label": "int"})
        bushel.convert(tmp_path / "in", tmp_path / "out", container="tar", parts=3)
        assert list(opened(tmp_path / "out").keys) == [f"{number:09d}" for number in range(7)]


class TestConvert:
    @each_format
    def test_it_is_that_of_one_run(self, tmp_path: Path, container: str, generation: Generation) -> None:
        bushel.pack(image_folder(tmp_path / "photos", 17), tmp_path / "in", container="tar", shard_samples=5)
        options: dict[str, Any] = {"container": container, "generation": generation}
        done = bushel.convert(tmp_path / "in", tmp_path / "out", parts=3, **options)
        assert (done.samples, done.kept) == (17, 0)
        one = bushel.convert(tmp_path / "in", tmp_path / "one", **options)
        assert (done.bytes, done.spec, done.limits) == (one.bytes, one.spec, one.limits)
        assert contents(tmp_path / "out") == contents(tmp_path / "one")
        assert opened(tmp_path / "out").labels == opened(tmp_path / "one").labels
        again = bushel.convert(tmp_path / "in", tmp_path / "out", parts=3, **options)
        assert (again.samples, again.kept) == (0, 17)
        with pytest.raises(StateError, match="fields="):
            bushel.convert(tmp_path / "in", tmp_path / "out", parts=3, fields=["image"], **options)

    def test_keys_that_several_samples_have(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(6), tmp_path / "in.tar")
        twice = bushel.concat([bushel.open(tmp_path / "in.tar"), bushel.open(tmp_path / "in.tar")])
        with pytest.raises(StateError, match="'k0000' in part-00000 and part-00002; .*; and 1 more. The parts are not"):
            bushel.convert(twice, tmp_path / "out", container="bag", parts=4)

    def test_streams_are_refused(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(3), tmp_path / "x.tar")
        with pytest.raises(ValueError, match="in its own order, in one part"):
            bushel.convert(bushel.open_stream(str(tmp_path / "x.tar")), tmp_path / "y.rec", parts=2)


class TestErrors:
    def test_one_budget_for_all_parts(self, tmp_path: Path) -> None:
        source = Numbered(30, bad=(1, 11, 12, 21))
        options: dict[str, Any] = {"container": "bag", "parts": 3}
        bushel.pack(source, tmp_path / "out", part=1, max_errors=3, **options)
        bushel.pack(source, tmp_path / "out", part=0, max_errors=3, **options)
        with pytest.raises(TooManyErrors, match="4 of the first 22 items cannot be packed, but max_errors allows 3"):
            bushel.pack(source, tmp_path / "out", part=2, max_errors=3, **options)
        assert len((tmp_path / "out.errors.jsonl").read_text().splitlines()) == 4
        run, plan = find_run(tmp_path / "out")
        assert run.missing(plan) == [2]
        done = bushel.pack(source, tmp_path / "out", max_errors=4, **options)
        assert (done.samples, done.kept, done.errors) == (9, 17, 4)
        os.unlink(tmp_path / "out/.bushel/run/result.json")
        with pytest.raises(TooManyErrors, match="4 items"):
            finish_run(run, plan, allowed=3)

    def test_parts_on_an_engine_whose_errors_are_too_many_only_together(self, tmp_path: Path) -> None:
        source = Numbered(40, bad=(1, 11, 21, 31))
        options: dict[str, Any] = {"container": "bag", "parts": 4, "engine": LocalEngine(1)}
        with pytest.raises(TooManyErrors, match="3 items of .* cannot be packed, but max_errors allows 2"):
            bushel.pack(source, tmp_path / "out", max_errors=2, **options)
        assert len((tmp_path / "out.errors.jsonl").read_text().splitlines()) >= 3
        done = bushel.pack(source, tmp_path / "out", max_errors=4, **options)
        assert (done.samples + done.kept, done.errors) == (36, 4)

    def test_missing_parts_are_named(self, tmp_path: Path) -> None:
        for part in (0, 2):
            bushel.pack(Numbered(30), tmp_path / "out", container="bag", parts=5, part=part)
        with pytest.raises(StateError, match="3 of 5 parts of .* are missing: 1,3-4"):
            finish_run(*find_run(tmp_path / "out"))


class _Writes:
    """Writes a tar of one sample, differently each time; something else may happen before it is complete."""

    def __init__(self, run: RunFolder, plan: RunPlan) -> None:
        self.run, self.plan = run, plan
        self.between: Any = None
        self.calls = 0

    def write(self, number: int, lock: Any, limit: Any, log: Any, progress: Any) -> Totals:
        self.calls += 1
        part, options = self.run.part(number), WriterOptions(container="tar", mode="overwrite")
        with DatasetWriter(part, {"x": "bytes"}, options, lock=lock, part=self._note) as writer:
            writer.append({"x": b"%d" % self.calls}, key=str(number))
            if self.between is not None:
                self.between, between = None, self.between
                between()
        return Totals(1, 1, 0, [])

    def _note(self) -> PartOfRun:
        return PartOfRun(self.plan.id, 1, [], [])


def _run(path: Path, parts: int = 1) -> tuple[PartTask, _Writes]:
    run = RunFolder(path, ".tar")
    lock, plan = join_run(run, RunPlan("pack", "tar", parts, list(range(parts + 1)), {}), "create", None)
    lock.release()
    writes = _Writes(run, plan)
    return PartTask(run, plan, writes.write, ErrorLimit()), writes


class TestCommit:
    @pytest.mark.parametrize("target", ["out", "x.tar"])
    def test_a_second_process_waits_and_finds_the_part_written(
        self, tmp_path: Path, target: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        task, writes = _run(tmp_path / target)
        reports: list[PartReport] = []
        other = threading.Thread(target=lambda: reports.append(task(0)))

        def start() -> None:
            other.start()
            end = time.monotonic() + 60
            while "waiting for the process that writes this part" not in caplog.text:
                assert other.is_alive()
                assert time.monotonic() < end
                time.sleep(0.01)
            other.join(0.1)
            assert other.is_alive()
            assert not task.run.part(0).exists()

        writes.between = start
        reports.append(task(0))
        other.join()
        assert [report.is_new for report in reports] == [True, False]
        assert "waiting for the process that writes this part" in caplog.text
        finish_run(task.run, task.plan)
        pattern = "x-part-*.tar" if target == "x.tar" else "out"
        assert [bytes(sample["x"]) for sample in bushel.open(str(tmp_path / pattern))] == [b"1"]
        assert not list(tmp_path.rglob("*.lock"))

    @pytest.mark.parametrize("target", ["out", "x.tar"])
    @pytest.mark.parametrize("step", ["_repeat", "_remove_staged"])
    @pytest.mark.parametrize("again", [True, False])
    def test_a_kill_while_a_part_gets_its_name(
        self, tmp_path: Path, target: str, step: str, again: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task, writes = _run(tmp_path / target)
        publish = Overwrite.publish

        def killed(replaced: Overwrite, lists: Mapping[str, RemovalList]) -> None:
            monkeypatch.setattr(f"bushel.storage.publish.{step}", _die)
            publish(replaced, lists)

        with monkeypatch.context() as patch:
            patch.setattr(Overwrite, "publish", killed)
            with pytest.raises(KeyboardInterrupt):
                task(0)
        monkeypatch.undo()
        assert task.run.missing(task.plan) == [0] * (step == "_repeat")
        if again:
            assert not task(0).is_new
        result = finish_run(task.run, task.plan)
        assert writes.calls == 1
        assert result.samples == 1
        assert finish_run(task.run, task.plan) == result
        assert not list(tmp_path.rglob("overwrite"))

    def test_the_part_of_another_run_is_missing(self, tmp_path: Path) -> None:
        task, _ = _run(tmp_path / "out")
        with bushel.Writer(task.run.part(0), {"x": "bytes"}, container="tar", mode="overwrite") as writer:
            writer.append({"x": b"other"}, key="0")
        assert task.run.missing(task.plan) == [0]
        with pytest.raises(StateError, match="1 of 1 parts of .* are missing: 0"):
            finish_run(task.run, task.plan)
        assert task(0).is_new
        assert finish_run(task.run, task.plan).samples == 1

    def test_a_part_that_is_committed_and_lost_is_missing(self, tmp_path: Path) -> None:
        task, _ = _run(tmp_path / "out")
        task(0)
        os.rename(tmp_path / "out/part-00000", tmp_path / "away")
        with pytest.raises(StateError, match="1 of 1 parts of .* are missing: 0"):
            finish_run(task.run, task.plan)

    def test_many_processes_at_once(self, tmp_path: Path) -> None:
        task, writes = _run(tmp_path / "out", 6)
        reports: list[PartReport] = []
        failures: list[BaseException] = []

        def work(first: int) -> None:
            try:
                reports.extend(task((first + number) % 6) for number in range(6))
                finish_run(task.run, task.plan)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert (sum(report.is_new for report in reports), writes.calls) == (6, 6)
        assert finish_run(task.run, task.plan).samples == 6
        assert [key for key, _ in contents(tmp_path / "out")] == list("012345")

    def test_overwriting_keeps_the_old_parts_until_they_are_replaced(self, tmp_path: Path) -> None:
        options: dict[str, Any] = {"container": "bag", "parts": 2}
        bushel.pack(Numbered(6), tmp_path / "out", **options)
        with pytest.raises(TooManyErrors):
            bushel.pack(Numbered(8, bad=(5,)), tmp_path / "out", mode="overwrite", **options)
        with pytest.warns(IncompleteWarning):
            assert len(bushel.open(tmp_path / "out")) == 4 + 3
        done = bushel.pack(Numbered(8, bad=(5,)), tmp_path / "out", mode="overwrite", max_errors=1, **options)
        assert (done.samples, done.kept) == (3, 4)
        assert len(opened(tmp_path / "out")) == 7
        bushel.pack(Numbered(8), tmp_path / "out", mode="overwrite", **options)
        assert len(opened(tmp_path / "out")) == 8


def _die(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_memory_of_a_run_does_not_depend_on_what_was_done(tmp_path: Path) -> None:
    task, writes = _run(tmp_path / "out", 3)
    seen: list[bushel.runs.Progress] = []
    totals = run_parts(task, None, seen.append)
    assert (totals.written.samples, totals.kept) == (3, 0)
    assert seen[-1].parts == (3, 3)


class TestListing:
    @pytest.mark.parametrize("kind", [None, "files"])
    def test_the_source_is_listed_once(self, tmp_path: Path, kind: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        photos, out = image_folder(tmp_path / "photos", 9), tmp_path / "out"
        (photos / "empty").mkdir()

        def pack(part: int | None) -> bushel.runs.PackResult:
            listing = planned_listing(out)
            source = photos if kind is None else open_source(photos, kind, listing=listing)
            return bushel.pack(source, out, container="ffrecord", parts=3, part=part)

        pack(1)
        assert planned_listing(out) is not None
        monkeypatch.setattr("bushel.sources.files.walk", None)
        monkeypatch.setattr("bushel.containers.kept_folder._walk", None)
        (photos / "class0/new.jpg").write_bytes(b"not in the plan")
        assert pack(None).samples == 6
        monkeypatch.undo()
        assert len(opened(out)) == 9

    def test_another_folder_is_refused(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            image_folder(tmp_path / name, 4)
        bushel.pack(tmp_path / "a", tmp_path / "out", container="tar", parts=2)
        with pytest.raises(StateError, match="source="):
            bushel.pack(tmp_path / "b", tmp_path / "out", container="tar", parts=2)

    def test_a_damaged_listing(self, tmp_path: Path) -> None:
        bushel.pack(image_folder(tmp_path / "a", 4), tmp_path / "out", container="tar", parts=2)
        [path] = (tmp_path / "out/.bushel/run").glob("listing-*")
        path.write_bytes(b"x")
        with pytest.raises(bushel.errors.FormatError, match="listing of the source is damaged"):
            planned_listing(tmp_path / "out")


def test_a_part_is_put_on_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        calls.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    counts = []
    for parts in (2, 12):
        calls.clear()
        bushel.pack(Numbered(24), tmp_path / str(parts), container="bag", parts=parts)
        counts.append(len(calls))
    # 41 if a part is staged as a whole, and its shard in it once more
    assert counts[1] - counts[0] <= 10 * 29
