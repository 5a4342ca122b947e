"""The parts of a run in threads of one process, which write together and exclude others."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered

import bushel
from bushel.engines import Finished, Task


class Threads:
    """An engine whose tasks are threads of this process."""

    slots = 4

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.slots)
        self._busy: dict[Future[Any], int] = {}

    def submit(self, task: Task, number: int) -> None:
        self._busy[self._pool.submit(task, number)] = number

    def wait(self, seconds: float) -> list[Finished]:
        done, _ = wait(self._busy, seconds, FIRST_COMPLETED)
        finished = []
        for each in done:
            error = each.exception()
            finished.append(Finished(self._busy.pop(each), None if error else each.result(), error))
        return finished

    def close(self) -> None:
        self._pool.shutdown()


class Slow(Numbered):
    """A source that waits in the middle until it may go on, and says that it is there."""

    def __init__(self, count: int, there: threading.Barrier) -> None:
        super().__init__(count)
        self._there, self._lock = there, threading.Lock()

    def __getitem__(self, position: int) -> dict[str, Any]:
        if position % 6 == 3:
            self._there.wait(60)
        return super().__getitem__(position)


def test_parts_in_threads_write_together(tmp_path: Path) -> None:
    """Each of four parts waits until all four are being written."""
    source = Slow(24, threading.Barrier(4))
    done = bushel.pack(source, tmp_path / "out", container="tar", parts=4, engine=Threads(), sync=False)
    assert (done.samples, len(bushel.open(tmp_path / "out"))) == (24, 24)
    alone = bushel.pack(Numbered(24), tmp_path / "alone", container="tar", parts=4, sync=False)
    assert alone.samples == 24
    theirs = [sample["label"] for sample in bushel.open(tmp_path / "alone")]
    assert [sample["label"] for sample in bushel.open(tmp_path / "out")] == theirs
    assert bushel.verify(tmp_path / "out").ok


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_a_writer_of_the_same_process_is_refused_meanwhile(tmp_path: Path, mode: Any) -> None:
    there = threading.Barrier(5)
    refused: list[BaseException] = []

    def other() -> None:
        spec = None if mode == "append" else {"label": "int"}
        for target in ("out", "out/part-00000"):
            try:
                bushel.Writer(tmp_path / target, spec, container="tar", mode=mode, sync=False)
            except bushel.errors.InUseError as error:
                refused.append(error)
        there.wait(60)

    thread = threading.Thread(target=other)
    source = Slow(24, there)
    original, once = there.wait, threading.Lock()

    def first(timeout: float) -> int:  # the other writer tries when a part is being written
        with once:
            if not thread.ident:
                thread.start()
        return original(timeout)

    there.wait = first  # type: ignore[method-assign,assignment]
    bushel.pack(source, tmp_path / "out", container="tar", parts=4, engine=Threads(), sync=False)
    thread.join()
    assert len(refused) == 2
    assert sorted(sample["label"] for sample in bushel.open(tmp_path / "out")) == sorted(
        sample["label"] for sample in (Numbered(24)[at] for at in range(24))
    )


def test_the_same_run_twice_in_one_process(tmp_path: Path) -> None:
    def run(_: int) -> bushel.runs.PackResult:
        return bushel.pack(Numbered(60), tmp_path / "out", container="tar", parts=6, mode="resume", sync=False)

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run, range(3)))
    assert sum(each.samples for each in results) == 60
    assert [each.samples + each.kept for each in results] == [60, 60, 60]
    ds = bushel.open(tmp_path / "out")
    assert sorted(sample["label"] for sample in ds) == list(range(60))
    assert bushel.verify(tmp_path / "out").ok
