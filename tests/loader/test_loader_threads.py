"""Threads: a bounded prefetch, and nothing left behind however an iteration ends."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ends_of_threads import drop_in_cycle, own_threads, wait_for_none
from tests.interrupts import started
from tests.loader.memory_dataset import MemoryDataset

import bushel
from bushel.loader import Loader


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    gc.collect()
    before = set(threading.enumerate())
    yield
    gc.collect()
    assert set(threading.enumerate()) <= before


def test_an_iteration_has_threads_and_its_end_joins_them() -> None:
    loader = Loader(MemoryDataset(40), 4, threads=2)
    assert not own_threads()
    iterator = iter(loader)
    assert not own_threads()
    next(iterator)
    assert own_threads()
    list(iterator)
    assert not own_threads()


def test_break_joins_them() -> None:
    for _ in Loader(MemoryDataset(400), 4, threads=3):
        assert own_threads()
        break
    assert not own_threads()


def test_an_exception_in_the_loop_joins_them() -> None:
    def train() -> None:
        for _ in Loader(MemoryDataset(400), 4, threads=3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    assert not own_threads()


def test_an_exception_in_a_worker_joins_them() -> None:
    with pytest.raises(ValueError, match="no number"):
        list(Loader(MemoryDataset(400, undecodable=[40]), 4, threads=3))
    assert not own_threads()


def test_garbage_collection_joins_them() -> None:
    iterator = iter(Loader(MemoryDataset(400), 4, threads=2))
    next(iterator)
    cycle: list[Any] = [iterator]
    cycle.append(cycle)
    del iterator, cycle
    gc.collect()
    assert not own_threads()


def test_garbage_collection_in_a_worker_ends_them_too() -> None:
    dropped = threading.Event()

    def collect(number: int) -> int:
        if number >= 8:
            assert dropped.wait(30)
            gc.collect()
        return number

    held: list[Any] = [iter(Loader(MemoryDataset(400), 4, threads=2, prefetch=4, transforms={"number": [collect]}))]
    next(held[0])
    with drop_in_cycle(held):
        dropped.set()
        wait_for_none(own_threads)


def test_no_more_batches_are_ahead_than_prefetch() -> None:
    dataset = MemoryDataset(4000)
    loader = Loader(dataset, 10, threads=4, prefetch=3)
    for consumed, _ in enumerate(loader, 1):
        assert len(dataset.reads) <= consumed + 2
        if consumed == 50:
            break


def test_slow_samples_do_not_change_the_order() -> None:
    turn = threading.Semaphore(0)

    def wait_for_odd(number: int) -> int:
        if number == 0:
            assert turn.acquire(timeout=30)
        elif number == 3:
            turn.release()
        return number

    loader = Loader(MemoryDataset(8), 2, threads=3, transforms={"number": [wait_for_odd]})
    assert [batch["number"].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_fork_in_mid_iteration_can_start_again_and_harms_nobody() -> None:
    loader = Loader(MemoryDataset(40), 4, threads=2)
    iterator = iter(loader)
    first = next(iterator)["number"].tolist()
    child = os.fork()
    if not child:
        status = 1
        try:
            assert len(list(Loader(MemoryDataset(40), 4, threads=2))) == 10
            try:
                next(iterator)
            except RuntimeError as error:
                status = 0 if "before a fork" in str(error) else 2
            del iterator
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert first + sum((batch["number"].tolist() for batch in iterator), []) == list(range(40))


def test_the_consumer_never_waits_for_a_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C within `threading.Condition.wait`, which `Future.result` calls, can end in a RuntimeError instead."""
    consumer, wait = threading.current_thread(), threading.Condition.wait

    def checked(self: threading.Condition, timeout: float | None = None) -> bool:
        assert threading.current_thread() is not consumer or sys._getframe(2).f_code.co_name == "start"
        return wait(self, timeout)

    monkeypatch.setattr(threading.Condition, "wait", checked)
    assert len(list(Loader(MemoryDataset(400), 4, threads=2, transforms={"number": [str]}))) == 100


def test_ctrl_c_ends_the_program() -> None:
    program = """
import time
from bushel.loader import Loader
from tests.loader.memory_dataset import MemoryDataset

def slow(number):
    time.sleep(0.05)
    return number

for batch in Loader(MemoryDataset(100_000), 64, threads=2, transforms={"number": [slow]}):
    print("going", flush=True)
"""
    child = started(program)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("processes", [0, 1])
def test_an_iteration_that_is_left_open_ends_without_a_word(processes: int, tmp_path: Path) -> None:
    bushel.pack([{"n": number} for number in range(400)], tmp_path / "set", container="bag")
    program = f"""
import sys
import bushel

class Kept: pass

batches = iter(bushel.Loader(bushel.open({str(tmp_path / "set")!r}), 4, processes={processes}, prefetch=2))
next(batches)
kept = Kept()  # until modules have lost their names
kept.itself, kept.batches = kept, batches
sys.modules["kept"] = kept
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
