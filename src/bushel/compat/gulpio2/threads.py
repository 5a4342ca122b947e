"""The frames of one clip on several processors."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, TypeVar, cast

__all__ = ["do_all"]

T = TypeVar("T")
U = TypeVar("U")

_MOST = 8
"""Threads for one clip: with more, starting them costs what they save."""


def do_all(work: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Do something that releases the GIL with every item, in this thread and, for several items, in others.

    The threads end with the call, so nothing is left to be shared, forked or closed. In a worker process everything
    is done by one thread: its siblings use the other processors.

    Returns:
        The results in the order of the items.

    Raises:
        Exception: What `work` raised for the first item for which it did.
    """
    threads = min(_processors(), len(items), _MOST)
    if threads < 2:
        return [work(item) for item in items]
    results: list[U | None] = [None] * len(items)
    failed: dict[int, BaseException] = {}
    waiting = deque(range(len(items)))

    def run() -> None:
        while waiting and not failed:
            try:
                number = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                results[number] = work(items[number])
            except BaseException as error:  # raised below, by the thread that waits for it
                failed[number] = error

    helpers = [Thread(target=run, name="bushel-frames", daemon=True) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    try:
        run()
    finally:
        waiting.clear()
        for helper in helpers:
            helper.join()
    if failed:
        raise failed[min(failed)]
    return cast("list[U]", results)


def _processors() -> int:
    if multiprocessing.parent_process() is not None:
        return 1
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
