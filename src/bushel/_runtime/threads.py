"""Threads that run jobs, results that another thread sets, and seconds that threads add up.

The waits here are safe from Ctrl-C. `threading.Condition`, and with it `Future.result`, is not: a
KeyboardInterrupt between the release of its lock and the wait becomes "RuntimeError: cannot release
un-acquired lock". The consumer's thread therefore waits only for plain locks and for
`queue.SimpleQueue`, which are written in C.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from .public import public

U = TypeVar("U")

_Job = Callable[[], object]

# number of idle thread groups of one kind that are kept, for as many concurrent readers
_MOST_SPARE = 4


@public("bushel.loader")
def cpu_count() -> int:
    """Return the number of CPUs that this process may use.

    Examples:
        >>> bushel.loader.cpu_count() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Result(Generic[U]):
    """The result of some work, which another thread sets once.

    Attributes:
        done: Whether it is set.
        error: The exception that was set instead of a value.
    """

    __slots__ = ("_ready", "_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        self._value: U | None = None
        self._ready = threading.Lock()
        self._ready.acquire()

    def set(self, value: U) -> None:
        """Set the value."""
        self._value, self.done = value, True
        self._ready.release()

    def fail(self, error: BaseException) -> None:
        """Set an exception instead of a value."""
        self.error, self.done = error, True
        self._ready.release()

    def set_by(self, work: Callable[[], U]) -> None:
        """Call a function, and set what it returns or raises."""
        try:
            value = work()
        except BaseException as error:
            self.fail(error)
        else:
            self.set(value)

    def get(self) -> U:
        """Wait for the value, and return it.

        Raises:
            BaseException: The exception that was set.
        """
        if not self.done:
            self._ready.acquire()
            self._ready.release()
        if self.error is None:
            return self._value  # type: ignore[return-value]  # None only if it was set to None
        try:
            raise self.error
        finally:
            del self  # its error would refer to itself, through the traceback and this frame


@public("bushel.loader")
class Threads:
    """Threads that run submitted jobs in the order of submission.

    They are started as work comes, and ended by `close`, by the garbage collector, or at the end of
    the program, which waits for running work.

    Args:
        count: Number of threads.
        name: Prefix of their names.

    Raises:
        ValueError: `count` is less than 1.

    Examples:
        >>> from queue import SimpleQueue
        >>> done, threads = SimpleQueue(), bushel.loader.Threads(2, "example")
        >>> threads.submit(lambda: done.put("straw"))
        >>> done.get()
        'straw'
        >>> threads.close()
    """

    def __init__(self, count: int, name: str) -> None:
        if count < 1:
            raise ValueError(f"the number of threads must be at least 1, not {count}")
        self._count, self._name, self._process = count, name, os.getpid()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _end, self._jobs, self._threads, self._process)

    def submit(self, job: _Job) -> None:
        """Have one of the threads call a function, which must not raise. After `close`, it is dropped."""
        if not self._end.alive:
            return
        self._jobs.put(job)
        if len(self._threads) < self._count:
            with self._lock:
                number = len(self._threads)
                if number < self._count:
                    name = f"{self._name}-{number}"
                    self._threads.append(
                        threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True)
                    )
                    self._threads[number].start()
            if not self._end.alive:  # closed in the meantime
                self._jobs.put(None)

    def check_process(self) -> None:
        """Check that the threads are in this process.

        Raises:
            RuntimeError: They are not, because the process was forked.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "this iteration started before a fork, and its threads are "
                "in the parent process: start a new iteration in this one"
            )

    def has_current(self) -> bool:
        """Return whether the current thread is one of them."""
        return threading.current_thread() in self._threads

    def close(self, *, wait: bool = True) -> None:
        """Drop jobs that have not started, end the threads, and wait for them.

        In a fork this does nothing.

        Args:
            wait: Whether to wait. One of the threads itself, in which the garbage collector may
                call this, never waits.
        """
        if self._end.detach() is not None:
            _end(self._jobs, self._threads, self._process, wait=wait)


class Clock:
    """Adds up the seconds of stages, and counts.

    Attributes:
        add: Adds a mapping of stages to seconds, and of counts. Any thread may call it. It waits for no
            other thread, as it only appends to a list, so that `sum_up` has to be called now and then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[str, float] = {}
        self._added: deque[Mapping[str, float]] = deque()
        self.add = self._added.append

    def sum_up(self) -> None:
        """Add what was added since the last call to the sums."""
        with self._lock:
            while self._added:
                for name, value in self._added.popleft().items():
                    self._totals[name] = self._totals.get(name, 0) + value

    def drain(self) -> dict[str, float]:
        """Return the counts since the last call."""
        self.sum_up()
        with self._lock:
            totals, self._totals = self._totals, {}
        return totals

    def read(self) -> dict[str, float]:
        """Return the counts so far."""
        self.sum_up()
        with self._lock:
            return dict(self._totals)


class SpareThreads:
    """Idle threads that are kept for the next work of the same kind: starting 31 threads takes 1.5 ms of CPU.

    Several threads of the program may take some at once: each gets its own, as many as if they were
    new. A forked process begins without any. The end of the program ends them.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._spare: deque[Threads] = deque(maxlen=_MOST_SPARE)
        os.register_at_fork(after_in_child=self._spare.clear)

    def take(self) -> Threads:
        """Return threads without work, which are started as work comes."""
        try:
            return self._spare.pop()
        except IndexError:
            return Threads(self._count, self._name)

    def put_back(self, threads: Threads) -> None:
        """Keep threads whose work is done. Those that have waited longest are ended if there are too many."""
        self._spare.append(threads)


def _serve(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job


def _end(
    jobs: SimpleQueue[_Job | None],
    threads: list[threading.Thread],
    process: int,
    *,
    wait: bool = True,
) -> None:
    if os.getpid() != process:
        return
    with suppress(Empty):
        while True:
            jobs.get_nowait()
    for _ in threads:
        jobs.put(None)
    if wait and threading.current_thread() not in threads:
        for thread in threads:
            if thread.ident is not None:  # Ctrl-C may come before it is started
                thread.join()
