from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.engines.conformance import check_engine
from tests.engines.jobs import Doubling, KillsOnce

import bushel
from bushel._pack.run_folder import find_run
from bushel._runtime.tasks import drive
from bushel.engines import LostWorkerError, connect
from bushel.engines.local import LocalEngine


def run(folder: Path, numbers: int, retries: int = 3) -> dict[int, int]:
    results: dict[int, int] = {}
    note, engine = results.__setitem__, LocalEngine(2)
    drive(Doubling(folder), range(numbers), engine, finished=note, retries=retries, backoff=0.01)
    return results


def test_killed_and_failing_workers(tmp_path: Path) -> None:
    for way in ("kill-1", "kill-4", "break-2"):
        (tmp_path / way).touch()
    assert run(tmp_path, 6) == {number: 2 * number for number in range(6)}
    (tmp_path / "refuse-3").touch()
    with pytest.raises(ValueError, match="number 3"):
        run(tmp_path, 6)
    (tmp_path / "kill-0").touch()
    with pytest.raises(LostWorkerError, match="killed by signal 9"):
        run(tmp_path, 1, retries=0)


def test_conformance(tmp_path: Path) -> None:
    check_engine(lambda: LocalEngine(2), tmp_path)


def test_tasks_that_cannot_be_pickled() -> None:
    engine, lock = connect("local"), threading.Lock()
    with pytest.raises(TypeError, match="pickle"):
        engine.submit(lambda number: lock, 0)
    engine.close()
    with pytest.raises(ValueError, match="processes=0"):
        LocalEngine(0)


def test_packing_with_a_worker_that_dies(tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.touch()
    seen: list[bushel.runs.Progress] = []
    done = bushel.pack(
        KillsOnce(20, note, 11),
        tmp_path / "out",
        container="tar",
        parts=4,
        engine=LocalEngine(2),
        progress=seen.append,
    )
    assert (done.samples, done.kept, seen[-1].parts, seen[-1].done, seen[-1].retries) == (20, 0, (4, 4), 20, 1)
    bushel.pack(Numbered(20), tmp_path / "one", container="tar", parts=4)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")


def test_converting_with_an_engine(tmp_path: Path) -> None:
    bushel.pack(Numbered(12), tmp_path / "in", container="tar", shard_samples=4)
    done = bushel.convert(tmp_path / "in", tmp_path / "out", container="recordio", engine=LocalEngine(2))
    assert done.samples == 12
    assert find_run(tmp_path / "out")[1].parts == 3
    bushel.convert(tmp_path / "in", tmp_path / "one", container="recordio", parts=3)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")


def test_indexing_and_verifying_with_an_engine(tmp_path: Path) -> None:
    bushel.pack(Numbered(20), tmp_path / "out", container="tar", shard_samples=6)
    expected = bushel.verify(tmp_path / "out")
    seen: list[bushel.runs.Progress] = []
    assert bushel.verify(tmp_path / "out", engine=LocalEngine(2), progress=seen.append) == expected
    assert (seen[-1].done, expected.ok) == (seen[-1].total, True)
    shutil.rmtree(tmp_path / "out/.bushel")
    seen.clear()
    dataset = bushel.index(tmp_path / "out", engine=LocalEngine(2), progress=seen.append)
    assert (len(dataset), dataset.info.checksums, seen[-1].done) == (20, True, 4)
    damaged = sorted((tmp_path / "out").glob("*.tar"))[1]
    data = bytearray(damaged.read_bytes())
    data[1024 + 700] ^= 1  # behind the header with the names of fields
    damaged.write_bytes(data)
    result = bushel.verify(tmp_path / "out", engine=LocalEngine(2))
    assert result == bushel.verify(tmp_path / "out")
    assert not result.ok


def test_ctrl_c_ends_the_workers(tmp_path: Path) -> None:
    engine = LocalEngine(2)

    def interrupt(number: int, result: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "hang-1").touch()
    with pytest.raises(KeyboardInterrupt):
        drive(Doubling(tmp_path), range(2), engine, finished=interrupt)
    assert engine.wait(0) == []
