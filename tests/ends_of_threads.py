"""How iterations end: in a fork, in the garbage collector, and by several threads at once."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Thread

__all__ = ["check_fork", "drop_in_cycle", "in_threads", "own_threads", "wait_for_none"]


def check_fork(iterator: Iterator[object]) -> None:
    """Assert that a forked process cannot continue an iteration."""
    child = os.fork()
    if not child:
        status = 1
        try:
            next(iterator)
        except RuntimeError as error:
            status = 0 if "before a fork" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def drop_in_cycle(held: list[object]) -> Iterator[None]:
    """Empty a list, but leave its items in a cycle, which the garbage collector does not touch during the block."""
    cycle: list[object] = held.copy()
    cycle.append(cycle)
    held.clear()
    gc.disable()
    try:
        del cycle
        yield
    finally:
        gc.enable()


def own_threads() -> list[str]:
    """Return the names of Bushel's threads, without those that wait for the next requests to object stores."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("bushel") and not name.startswith("bushel-fetch")]


def wait_for_none(threads: Callable[[], Collection[str]]) -> None:
    """Assert that threads end within 30 seconds."""
    for _ in range(3000):
        if not threads():
            break
        time.sleep(0.01)
    assert not threads()


def in_threads(count: int, work: Callable[[], None]) -> None:
    """Call a function in several threads at once, and wait for them."""
    threads = [Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
