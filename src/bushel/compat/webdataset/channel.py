"""Channels: what tasks in threads put, one consumer takes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

__all__ = ["Channel"]

T = TypeVar("T")


class Channel(Iterator[Any]):
    """An iterator with `take` and `close`, and for use in `with`.

    Args:
        values: Where the values come from.
    """

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    @classmethod
    def fed_by(
        cls, task: Callable[[Iterator[T], Callable[[Any], bool]], None], sources: Sequence[T], *, tasks: int, size: int
    ) -> Self:
        """A channel that several threads feed.

        Args:
            task: Called by each thread with an iterator over the sources, which all share, and with the function that
                takes a value, which waits for room and returns False when no more are wanted.
            sources: Shared among the tasks.
            tasks: Threads.
            size: Values that wait at most.

        Raises:
            ValueError: A number is less than 1.
        """
        if tasks < 1 or size < 1:
            raise ValueError(f"ntasks={tasks}, csize={size}: both are at least 1")
        return cls(_fed(_Tray(size), task, sources, tasks))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._values)

    def take(self) -> Any:
        """The next value.

        Raises:
            EOFError: There is none any more.
        """
        try:
            return next(self._values)
        except StopIteration:
            raise EOFError("the channel is closed: there are no more values") from None

    def close(self) -> None:
        """End the tasks."""
        if hasattr(self._values, "close"):
            self._values.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Tray:
    """Where tasks put values, with room for so many."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: deque[Any] = deque()
        self._changed = threading.Condition()
        self._running = 0
        self._wanted = True
        self._error: BaseException | None = None

    def begin(self, tasks: int) -> None:
        """Expect values of so many tasks."""
        self._running = tasks

    def put(self, value: Any) -> bool:
        """Wait for room; False if no more are wanted."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._values) < self._size or not self._wanted)
            if self._wanted:
                self._values.append(value)
                self._changed.notify_all()
            return self._wanted

    def end(self, error: BaseException | None) -> None:
        """A task has ended. With an error, the others are to end too."""
        with self._changed:
            self._running -= 1
            if error is not None and self._error is None:
                self._error, self._wanted = error, False
            self._changed.notify_all()

    def stop(self) -> None:
        """Want no more values."""
        with self._changed:
            self._wanted = False
            self._changed.notify_all()

    def taken(self) -> Iterator[Any]:
        """The values, until all tasks have ended; then the error of the first that failed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._values or not self._running or self._error is not None)
                if not self._values:
                    break
                value = self._values.popleft()
                self._changed.notify_all()
            yield value
        if self._error is not None:
            raise self._error


class _Shared(Iterator[T]):
    """An iterator for several threads."""

    def __init__(self, values: Sequence[T]) -> None:
        self._values, self._lock = iter(values), threading.Lock()

    def __next__(self) -> T:
        with self._lock:
            return next(self._values)


def _fed(
    tray: _Tray, task: Callable[[Iterator[T], Callable[[Any], bool]], None], sources: Sequence[T], tasks: int
) -> Iterator[Any]:
    shared: Iterator[T] = _Shared(sources)

    def run() -> None:
        error: BaseException | None = None
        try:
            task(shared, tray.put)
        except BaseException as raised:  # raised again where the values are taken
            error = raised
        tray.end(error)

    threads = [threading.Thread(target=run, name=f"bushel-webdataset-{number}", daemon=True) for number in range(tasks)]
    tray.begin(tasks)
    try:
        for thread in threads:
            thread.start()
        yield from tray.taken()
    finally:
        tray.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
