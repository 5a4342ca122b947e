"""Worker processes: the same batches, through shared memory that nobody has to clean up."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.descriptors import descriptors
from tests.ends_of_threads import check_fork
from tests.interrupts import started
from tests.loader.memory_dataset import (
    MemoryDataset,
    die,
    jitter,
    refuse_oddly,
    refuse_seven,
    slow,
    widen,
    widen_by_position,
)

import bushel
from bushel.errors import CorruptError, TooManyErrors
from bushel.loader import Loader, MapView

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="worker processes need Linux's memfd")

ROOT = Path(__file__).parents[3]


def children(parent: int | None = None) -> set[int]:
    """Processes that this one (or another) has started, dead ones that nobody waited for too."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # ended in the meantime
                continue
            if int(stat.rpartition(")")[2].split()[1]) == (parent or os.getpid()):
                found.add(int(entry.name))
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    gc.collect()
    files, processes = descriptors(), children()
    yield
    gc.collect()
    assert descriptors() <= files
    assert children() <= processes


def wait_until(happens: Callable[[], bool]) -> None:
    for _ in range(600):
        if happens():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen in 30 s")


@pytest.mark.parametrize("processes", [1, 3])
def test_batches_are_the_same_as_without_processes(processes: int) -> None:
    def epochs(processes: int) -> list[Any]:
        loader = Loader(
            MemoryDataset(50), 4, shuffle=True, seed=3, processes=processes, transforms={"vector": [jitter]}
        )
        return [
            (batch["__key__"], batch["number"].tolist(), batch["name"], batch["vector"].tolist())
            for _ in range(2)
            for batch in loader
        ]

    assert epochs(processes) == epochs(0)


def test_state_and_resume() -> None:
    loader = Loader(MemoryDataset(40), 4, shuffle=True, processes=2)
    seen: list[int] = []
    for batch in loader:
        seen += batch["number"].tolist()
        if len(seen) == 20:
            break
    assert loader.state_dict()["samples"] == 20
    resumed = Loader(MemoryDataset(40), 7, shuffle=True, processes=3)
    resumed.load_state_dict(loader.state_dict())
    seen += [number for batch in resumed for number in batch["number"].tolist()]
    assert sorted(seen) == list(range(40))


def test_arrays_are_views_of_shared_memory_that_stay_valid_and_writable() -> None:
    loader = Loader(MemoryDataset(24), 4, processes=2, transforms={"vector": [widen]})
    batches = list(loader)
    assert all(not batch["vector"].flags.owndata for batch in batches)
    assert [batch["vector"][:, -1].tolist() for batch in batches] == [[*range(t, t + 4)] for t in range(0, 24, 4)]
    batches[0]["vector"][:] = -1
    assert batches[1]["vector"].min() == 4


def names_in_memory(process: int) -> set[str]:
    """What a process has mapped of shared memory: all but semaphores, whose names go at once, and of tests."""
    return set(re.findall(r"/dev/shm/(?!sem\.|pytest-of)\S+", Path(f"/proc/{process}/maps").read_text()))


def test_shared_memory_has_no_name() -> None:
    others = children()  # such as the tracker that `multiprocessing` started for another test
    named = names_in_memory(os.getpid())  # such as arrays of `multiprocessing` in another test
    view = MapView(MemoryDataset(4), transforms={"vector": [jitter]})  # which counts in shared memory
    assert view.epoch is None
    loader = Loader(MemoryDataset(400), 4, processes=2, transforms={"vector": [widen]})
    for number, _ in enumerate(loader):
        if number < 4:  # so that both processes have segments
            continue
        for process in {os.getpid(), *children()} - others:
            assert "/memfd:bushel (deleted)" in Path(f"/proc/{process}/maps").read_text()
            assert names_in_memory(process) <= named
        break


def test_segments_are_used_again_when_a_batch_is_gone_and_not_before() -> None:
    def segments() -> int:
        return sum(target == "/memfd:bushel (deleted)" for _, target in descriptors())

    def segments_open(keep: int) -> int:
        loader = Loader(MemoryDataset(120), 4, processes=1, transforms={"vector": [widen]})
        kept: list[Any] = []
        most = 0
        for batch in loader:
            kept = [*kept, batch["vector"][1:]][-keep:]
            assert [int(rows[0, 0]) % 4 for rows in kept] == [1] * len(kept)
            most = max(most, segments())
        return most

    assert segments_open(1) < 16
    assert segments_open(20) >= 20  # one for each batch that is kept


def test_segments_grow_with_the_batches() -> None:
    loader = Loader(MemoryDataset(250), 10, processes=1, transforms={"vector": [widen_by_position]})
    for number, batch in enumerate(loader):
        assert [array.size for array in batch["vector"]] == [10 * i**2 for i in range(10 * number, 10 * number + 10)]
        assert all((array == 10 * number + i).all() for i, array in enumerate(batch["vector"]))


def test_an_exception_comes_with_its_key_and_the_traceback_of_the_process() -> None:
    iterator = iter(Loader(MemoryDataset(30), 5, processes=2, transforms={"number": [refuse_seven]}))
    assert next(iterator)["number"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="seven") as caught:
        next(iterator)
    notes = "\n".join(caught.value.__notes__)
    assert "sample 'key 7' (position 7 of the dataset)" in notes
    assert re.search(r"in worker process \d+:\nTraceback .*in refuse_seven\n", notes, re.DOTALL)
    assert all(notes.count(note) == 1 for note in caught.value.__notes__[:-1])  # and not in the traceback again


def test_errors_of_bushel_arrive_whole() -> None:
    with pytest.raises(CorruptError) as caught:
        list(Loader(MemoryDataset(30, unreadable=[11]), 5, processes=2))
    assert (caught.value.key, caught.value.field, caught.value.offset) == ("key 11", "number", 88)


def test_an_exception_that_cannot_be_pickled_is_quoted() -> None:
    with pytest.raises(RuntimeError, match="OwnError: 0 and 2") as caught:
        list(Loader(MemoryDataset(30), 5, processes=2, transforms={"number": [refuse_oddly]}))
    assert "in refuse_oddly" in "\n".join(caught.value.__notes__)


def test_bad_samples_of_all_processes_are_reported_and_limited() -> None:
    dataset = MemoryDataset(40, unreadable=[3, 12], undecodable=[4])
    loader = Loader(dataset, 5, processes=3, on_error="replace")
    assert sum(len(batch["number"]) for batch in loader) == 40
    assert [(bad.sample, bad.field) for bad in loader.errors] == [(3, "number"), (4, None), (12, "number")]
    with pytest.raises(TooManyErrors, match="3 bad samples"):
        list(Loader(dataset, 5, processes=3, on_error="skip", max_errors=2))


def test_lambdas_are_sent_by_value_and_what_cannot_be_pickled_is_refused_by_name() -> None:
    [batch] = Loader(MemoryDataset(5), 5, processes=1, transforms={"number": [lambda number: 2 * number]})
    assert batch["number"].tolist() == [0, 2, 4, 6, 8]
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"processes= pickles the dataset, .*lock"):
        list(Loader(MemoryDataset(5), 2, processes=1, transforms={"number": [lambda number: lock]}))


def test_functions_and_classes_of_the_main_script_work_without_a_guard(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        """
import sys
from dataclasses import dataclass
from bushel.loader import Loader
from tests.loader.memory_dataset import MemoryDataset

OFFSET = 100

@dataclass
class Pair:
    one: int
    two: int

class OwnError(Exception):
    pass

def own(number):
    if number == 107:
        raise OwnError("seven")
    return number + OFFSET

def refuse(number):
    raise OwnError(f"the number {number}")

print(len(list(Loader(MemoryDataset(8), 2, processes=2))))
transforms = {"number": [own, lambda number: Pair(number, -number)]}
for batch in Loader(MemoryDataset(6), 2, processes=2, transforms=transforms):
    print([one == Pair(one.one, -one.one) for one in batch["number"]], batch["number"][0])
try:
    list(Loader(MemoryDataset(8), 2, processes=2, transforms={"number": [refuse]}))
except OwnError as error:
    print("caught", error)
import threading
lock = threading.Lock()
try:
    list(Loader(MemoryDataset(8), 2, processes=2, transforms={"number": [lambda number: lock]}))
except TypeError as error:
    print(error)
"""
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[:4] == ["4", *(f"[True, True] Pair(one={100 + n}, two={-100 - n})" for n in (0, 2, 4))]
    assert lines[4] == "caught the number 0"
    assert lines[5].startswith("processes= pickles the dataset, transforms and collate functions, and one cannot be")
    assert "lock" in lines[5]
    assert done.stderr == ""


def test_a_job_longer_than_a_socket_holds_reaches_every_process() -> None:
    table = np.arange(1 << 20)[::-1].copy()
    loader = Loader(MemoryDataset(12), 2, processes=3, transforms={"number": [partial(np.take, table)]})
    found = [batch["number"].tolist() for batch in loader]
    assert found == [[len(table) - 1 - t, len(table) - 2 - t] for t in range(0, 12, 2)]


def test_a_worker_process_imports_nothing_that_only_its_parent_needs() -> None:
    code = "import sys, bushel.loader.run.processes; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bushel.loader.run.threads" in done.stdout.split()
    of_the_parent = {
        "bushel.loader.loader",
        "bushel.loader.streaming",
        "bushel.opening",
        "bushel.loader.order.bucketed",
        "bushel._dataset.views.info",
        "bushel._dataset.views.stream",
        "difflib",
        "subprocess",
        "tempfile",
        "zipfile",
    }
    assert of_the_parent.isdisjoint(done.stdout.split())


def test_break_and_garbage_collection_end_the_processes() -> None:
    before = children()
    for _ in Loader(MemoryDataset(4000), 4, processes=2, transforms={"number": [slow]}):
        assert len(children() - before) == 2
        break
    assert children() <= before
    iterator = iter(Loader(MemoryDataset(4000), 4, processes=2))
    next(iterator)
    del iterator
    assert children() <= before


def test_a_worker_process_that_is_killed_ends_the_iteration_with_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"worker process \d+ was killed by signal 9"):
        list(Loader(MemoryDataset(30), 5, processes=2, transforms={"number": [die]}))


@pytest.mark.parametrize("victim", [signal.SIGKILL, signal.SIGINT])
def test_worker_processes_end_when_the_trainer_is_killed(victim: signal.Signals) -> None:
    program = """
from bushel.loader import Loader
from tests.loader.memory_dataset import MemoryDataset, slow, widen
for batch in Loader(MemoryDataset(100_000), 64, processes=2, transforms={"number": [slow], "vector": [widen]}):
    print("going", flush=True)
"""
    trainer = started(program)
    threads = children(trainer.pid)
    assert len(threads) == 2
    trainer.send_signal(victim)
    _, errors = trainer.communicate(timeout=60)
    assert trainer.returncode == -victim
    assert errors.count("Traceback") == (victim == signal.SIGINT)
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in threads))


def test_a_fork_in_mid_iteration_harms_nobody() -> None:
    iterator = iter(Loader(MemoryDataset(40), 4, processes=2))
    first = next(iterator)["number"].tolist()
    check_fork(iterator)
    assert first + [number for batch in iterator for number in batch["number"].tolist()] == list(range(40))


def test_stats_come_from_the_processes() -> None:
    loader = Loader(MemoryDataset(40), 4, processes=2, transforms={"number": [slow]})
    assert sum(len(batch["number"]) for batch in loader) == 40
    stats = loader.stats()
    assert (stats.samples, stats.batches, stats.errors, stats.ready is not None) == (40, 10, 0, True)
    assert stats.transform > 40 * 0.05
    assert np.isclose(stats.seconds, stats.waiting + stats.training)


def modules_in_the_process(values: Sequence[Any]) -> str:
    return " ".join(sys.modules)


@pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 imports all of itself")
def test_the_first_batch_of_files_does_not_import_masked_arrays(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"number": "int"}, container="tar", shard_samples=4) as writer:
        for number in range(8):
            writer.append({"number": number}, key=str(number))
    loader = Loader(bushel.open(tmp_path / "data"), 8, processes=1, collate={"number": modules_in_the_process})
    [batch] = list(loader)
    assert "numpy.ma" not in batch["number"].split()
    assert "bushel.loader.read.batch_reader" in batch["number"].split()
