"""Channels: values that tasks in threads put, and that one consumer takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from bushel.loader import Threads

T = TypeVar("T")


class Channel(Iterator[Any]):
    """An iterator over `values` with `take` and `close`, which can be used in `with`."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    @classmethod
    def fed_by(
        cls,
        task: Callable[[Iterator[T], Callable[[Any], bool]], None],
        sources: Sequence[T],
        *,
        tasks: int,
        size: int,
    ) -> Self:
        """Return a channel that several threads feed.

        Args:
            task: Called by each thread with an iterator over the sources, which all threads share,
                and with a function that puts a value: it waits for room, and returns False when no
                    more values are wanted.
            sources: The sources.
            tasks: Number of threads.
            size: Maximum number of waiting values.
        """
        if tasks < 1 or size < 1:
            raise ValueError(f"ntasks={tasks}, csize={size}: both are at least 1")
        return cls(_fed(_Buffer(size), task, sources, tasks))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._values)

    def take(self) -> Any:
        """Return the next value; after the last one, raise an EOFError."""
        try:
            return next(self._values)
        except StopIteration:
            raise EOFError("the channel is closed and has no more values") from None

    def close(self) -> None:
        """End the tasks."""
        if hasattr(self._values, "close"):
            self._values.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Shared(Iterator[T]):
    """An iterator for several threads."""

    def __init__(self, values: Sequence[T]) -> None:
        self._values, self._lock = iter(values), threading.Lock()

    def __next__(self) -> T:
        with self._lock:
            return next(self._values)


class _Buffer:
    """Values of several tasks for one consumer, with room for `size` values."""

    def __init__(self, size: int) -> None:
        self._room = threading.Semaphore(size)
        # values, or None with the end of a task: what it raised, if anything
        self._values: SimpleQueue[tuple[Any, list[BaseException] | None]] = SimpleQueue()
        self._wanted = True

    def put(self, value: Any) -> bool:
        """Wait for room; return False if no more values are wanted."""
        self._room.acquire()
        if self._wanted:
            self._values.put((value, None))
        else:
            self._room.release()  # for the other tasks that wait
        return self._wanted

    def run(
        self, task: Callable[[Iterator[T], Callable[[Any], bool]], None], sources: Iterator[T]
    ) -> None:
        """Run a task. If it fails, the other tasks end too."""
        failures = []
        try:
            task(sources, self.put)
        except BaseException as error:  # raised again in the consumer
            failures.append(error)
            self.stop()
        self._values.put((None, failures))

    def stop(self) -> None:
        """Refuse more values."""
        self._wanted = False
        self._room.release()

    def taken(self, tasks: int) -> Iterator[Any]:
        """Yield the values until all tasks have ended or one has failed."""
        while tasks:
            value, failures = self._values.get()
            if failures is None:
                self._room.release()
                yield value
                continue
            for failure in failures:
                raise failure
            tasks -= 1


def _fed(
    buffer: _Buffer,
    task: Callable[[Iterator[T], Callable[[Any], bool]], None],
    sources: Sequence[T],
    tasks: int,
) -> Iterator[Any]:
    threads = Threads(tasks, "bushel-webdataset")
    run = partial(buffer.run, task, _Shared(sources))
    try:
        for _ in range(tasks):
            threads.submit(run)
        yield from buffer.taken(tasks)
    finally:
        buffer.stop()
        threads.close()
