"""Work done ahead of its consumer: several items at once, results in order, a bounded number of them waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["work_ahead"]

T = TypeVar("T")
U = TypeVar("U")


def work_ahead(
    work: Callable[[T], U], items: Iterable[T], *, workers: int, stop: threading.Event | None = None
) -> Generator[U, None, None]:
    """Do something with every item in threads, and give the results in the order of the items.

    At most `workers + 1` results exist that have not been taken, so memory is bounded however slow the consumer is.
    Closing the generator, an error and Ctrl-C all drop what has not begun and wait for what has.

    Args:
        work: Called with each item.
        items: Taken one by one, in this thread, as results are taken.
        workers: How many at once.
        stop: Set before waiting for running work, so that long work can look at it and end early.

    Raises:
        BaseException: What `work` or `items` raised, in its place among the results.
    """
    pool = ThreadPoolExecutor(workers, "bushel-ahead")
    waiting: deque[Future[U]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        if stop is not None:
            stop.set()
        pool.shutdown(cancel_futures=True)
