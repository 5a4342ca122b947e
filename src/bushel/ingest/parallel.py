"""Work in many threads with the results in order, and a bound on the bytes that wait.

Items are handed out in order. A thread takes the next one while less than `limit` bytes of results wait to be taken, or
when its result is the very next one wanted, so the consumer is never kept waiting by results that come later. At most
`limit` bytes wait, beside one result per thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["in_order"]

T = TypeVar("T")
U = TypeVar("U")

_OVERHEAD = 1024  # of a result, beside its own bytes


def in_order(
    work: Callable[[T], U], items: Iterable[T], *, workers: int, limit: int, size: Callable[[U], int]
) -> Generator[U, None, None]:
    """Do something with every item in threads, and give the results in the order of the items.

    Closing the generator, an error and Ctrl-C all stop the threads, after what they are at.

    Args:
        work: Called with each item.
        items: Taken one by one by the threads, one thread at a time.
        workers: Threads.
        limit: Bytes of results that may wait.
        size: Bytes of a result.

    Raises:
        BaseException: What `work` or `items` raised, in its place among the results.
    """
    state = _State(work, iter(items), limit, size)
    threads = [
        threading.Thread(target=state.run, name=f"bushel-pack-{number}", daemon=True) for number in range(workers)
    ]
    try:
        for thread in threads:
            thread.start()
        yield from state.results()
    finally:
        state.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


class _State(Generic[T, U]):
    """What the threads share. `changed` guards all of it."""

    def __init__(self, work: Callable[[T], U], items: Iterator[T], limit: int, size: Callable[[U], int]) -> None:
        self._work, self._items, self._limit, self._size = work, items, limit, size
        self._changed = threading.Condition()
        self._done: dict[int, tuple[U | None, BaseException | None, int]] = {}
        self._held = self._handed = self._taken = 0
        self._end: int | None = None
        self._stopped = False

    def run(self) -> None:
        """What each thread does."""
        while (ticket := self._next()) is not None:
            number, item = ticket
            result, error, held = None, None, _OVERHEAD
            try:
                result = self._work(item)
                held += self._size(result)
            except BaseException as raised:
                error = raised
            with self._changed:
                self._done[number] = result, error, held
                self._held += held
                self._changed.notify_all()
            del item, result, error, ticket

    def _next(self) -> tuple[int, T] | None:
        with self._changed:
            while not (self._stopped or self._end is not None):
                if self._held < self._limit or self._handed == self._taken:
                    number = self._handed
                    try:
                        item = next(self._items)
                    except StopIteration:
                        self._end = number
                    except BaseException as error:
                        self._done[number] = None, error, 0
                        self._end = number + 1
                    else:
                        self._handed += 1
                        return number, item
                    self._changed.notify_all()
                    return None
                self._changed.wait()
        return None

    def results(self) -> Generator[U, None, None]:
        """The results in order."""
        while True:
            with self._changed:
                while self._taken not in self._done and self._taken != self._end:
                    self._changed.wait()
                if self._taken == self._end:
                    return
                result, error, held = self._done.pop(self._taken)
                self._taken += 1
                self._held -= held
                self._changed.notify_all()
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # None only beside an error, or as a result
            del result

    def stop(self) -> None:
        """Hand out nothing more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
