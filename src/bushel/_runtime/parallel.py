"""Work in several threads: an ordered, bounded map.

Everything in Bushel that works in parallel does it with this module, or with the threads and
results that it is made of (`bushel._runtime.threads`). Work in other processes goes through it too:
the work function then passes its item to a worker process and waits for the answer (see
`bushel._runtime.processes`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from math import inf
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .arrays import check_count
from .public import public
from .threads import Result, SpareThreads, Threads

if TYPE_CHECKING:
    from .tasks import Engine

T = TypeVar("T")
U = TypeVar("U")


@public("bushel.loader")
def parallel_map(
    work: Callable[[T], U],
    items: Iterable[T],
    *,
    threads: int,
    limit: float | None = None,
    weight: Callable[[T], int] | None = None,
    size: Callable[[U], int] | None = None,
    ordered: bool = True,
    draw_in_workers: bool = False,
    stop: threading.Event | None = None,
    name: str = "bushel-map",
) -> Generator[U]:
    """Call a function with every item in threads, and yield the results in the order of the items.

    Closing the generator, an error and Ctrl-C drop the items that are not begun and wait for the
    ones that are. The garbage collector may close it too, even in one of its own threads.

    The cost of an item is its weight while it is worked on, and then the size of its result until
    that is taken. An item is drawn while the cost of all is below `limit`, and always if no result
    is left to be taken. Without `weight` and `size`, every item costs 1.

    Args:
        work: Called with each item.
        items: Drawn one by one, as the limit allows.
        threads: Number of threads.
        limit: Bound on the cost; by default `threads + 1`.
        weight: Return the weight of an item; by default 0 if `size` is given.
        size: Return the size of a result; by default 0 if `weight` is given.
        ordered: Whether results keep the order of the items; else they come as they are finished.
        draw_in_workers: Draw items in the worker threads, one thread at a time. By default the
            consumer's thread draws them when it takes a result.
        stop: Set before running work is waited for, so that long work can check it and end early.
        name: Prefix of the threads' names.

    Raises:
        BaseException: The error that `work` or `items` raised, in its place among the results.
        RuntimeError: The process was forked since the first result: the threads are in the parent
            process.

    Examples:
        >>> from bushel.loader import parallel_map
        >>> list(parallel_map(str.upper, ["a", "b", "c"], threads=2))
        ['A', 'B', 'C']
    """
    pool = Threads(threads, name)
    if weight is None and size is None:
        weight = size = _one
    tasks = _Tasks(
        work,
        iter(items),
        pool,
        limit=threads + 1 if limit is None else limit,
        weight=weight or _zero,
        size=size or _zero,
        ordered=ordered,
        draw_in_workers=draw_in_workers,
    )
    try:
        yield from tasks.results(threads if draw_in_workers else 0)
    finally:
        tasks.stop()
        if stop is not None:
            stop.set()
        pool.close()


def map_each(
    work: Callable[[T], U],
    items: Sequence[T],
    *,
    threads: int,
    finished: Callable[[U], None] | None = None,
    engine: Engine | None = None,
    stop: threading.Event | None = None,
) -> list[U]:
    """Call a function with every item, in threads or on an engine, and return the results in order.

    Args:
        work: The function.
        items: The items. The only one is worked on in this thread.
        threads: Number of threads.
        finished: Called with each result, from this thread.
        engine: Where the function is called instead; it can be pickled then.
        stop: Set when this ends, so that work which threads have begun can end, too.

    Raises:
        BaseException: The first error of `work` in the order of items. Work that has not started is
            dropped.
    """
    if engine is not None:
        from .tasks import map_on_engine

        return map_on_engine(work, items, engine, finished=finished)
    check_count("threads", threads, least=1)
    results_in_turn: Iterable[U] = map(work, items)
    if len(items) > 1:
        results_in_turn = parallel_map(work, items, threads=threads, limit=len(items), stop=stop)
    results: list[U] = []
    for result in results_in_turn:
        results.append(result)
        if finished is not None:
            finished(result)
    return results


def for_each(
    work: Callable[[T], object],
    items: Iterable[T],
    *,
    threads: int,
    spare: SpareThreads,
    limit: float = inf,
    weight: Callable[[T], int] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Call a function with every item, in this thread and in others, until one call fails.

    No call runs any more when this returns. After an error or Ctrl-C, items that are not begun are
    dropped. Ctrl-C is noticed after the call that this thread is in.

    Args:
        work: Called with each item.
        items: Drawn one by one, by the thread that works on each.
        threads: Number of threads, with this one.
        spare: Where the other threads are taken from, and kept for the next call. After an error
            they are ended.
        limit: Bound on the weight of the items that are worked on at a time. An item above it is
            worked on alone.
        weight: Return the weight of an item, such as the memory that its work needs.
        stop: Set before running work is waited for, so that long work can check it and end early.

    Raises:
        BaseException: The first error that `work` raised.
    """
    pool, stop = spare.take(), stop or threading.Event()

    def work_or_stop(item: T) -> None:
        try:
            work(item)
        except BaseException:
            stop.set()
            raise

    tasks = _Tasks(
        work_or_stop,
        iter(items),
        pool,
        limit=limit,
        weight=weight or _zero,
        ordered=False,
    )
    try:
        for _ in tasks.shared(threads - 1):
            pass
    except BaseException:
        tasks.stop()
        stop.set()
        pool.close()
        raise
    spare.put_back(pool)


@public("bushel.loader")
def map_all(
    work: Callable[[T], U], items: Sequence[T], *, threads: int, name: str = "bushel-map"
) -> list[U]:
    """Call a function with every item, in this thread and in others, and return the results in order.

    The other threads end before this returns.

    Args:
        work: Called with each item.
        items: The items.
        threads: Number of threads, with this one.
        name: Prefix of the threads' names.

    Raises:
        BaseException: The error that `work` raised for the first item that failed.

    Examples:
        >>> bushel.loader.map_all(len, ["a", "bb", "ccc"], threads=2)
        [1, 2, 3]
    """
    helpers = min(threads, len(items)) - 1
    if helpers < 1:
        return [work(item) for item in items]
    pool = Threads(helpers, name)
    tasks = _Tasks(work, iter(items), pool)
    try:
        return list(tasks.shared(helpers))
    finally:
        tasks.stop()
        pool.close()


def _zero(_: Any) -> int:
    return 0


def _one(_: Any) -> int:
    return 1


class _Task(Generic[T, U]):
    """An item that was drawn, and its result."""

    __slots__ = ("_tasks", "cost", "item", "result")

    def __init__(self, tasks: _Tasks[T, U], item: T, cost: int) -> None:
        self._tasks, self.item, self.cost = tasks, item, cost
        self.result: Result[U] = Result()

    def __call__(self) -> None:
        """Do the work. Consumers submit this call to the threads."""
        self._tasks.work_on(self)


_NOTHING: Any = object()


class _Tasks(Generic[T, U]):
    """The items of a map that are drawn but not yet consumed.

    Items are drawn by the consumer, which submits a task for each, or by the threads: each thread
    draws and works (`serve`) until the limit is reached. It then returns, and is submitted again
    when there is.
    """

    def __init__(
        self,
        work: Callable[[T], U],
        items: Iterator[T],
        pool: Threads,
        *,
        limit: float = inf,
        weight: Callable[[T], int] = _zero,
        size: Callable[[U], int] = _zero,
        ordered: bool = True,
        draw_in_workers: bool = True,
    ) -> None:
        self._work, self._items, self._threads = work, items, pool
        self._limit, self._weight, self._size = limit, weight, size
        self._ordered, self._draw_in_workers = ordered, draw_in_workers
        # for the consumer; None: all items are drawn
        self._queue: SimpleQueue[_Task[T, U] | None] = SimpleQueue()
        self._drawing, self._counting = threading.Lock(), threading.Lock()
        self._drawn: T = _NOTHING  # an item that waits for room
        self._cost = self._untaken = self._returned = 0
        self._stopped = False

    def shared(self, helpers: int) -> Generator[U]:
        """Work in this thread, too, until the limit is reached, and yield the results."""
        for _ in range(helpers):
            self._threads.submit(self.serve)
        self.serve()
        yield from self.results()

    def results(self, threads: int = 0) -> Generator[U]:
        """Yield the results. `threads` of the threads begin to serve before."""
        for _ in range(threads):
            self._threads.submit(self.serve)
        all_drawn = False
        while self._untaken or not all_drawn:
            self._threads.check_process()
            if not self._draw_in_workers:
                while (task := self._draw()) is not None:
                    self._threads.submit(task)
            task = self._queue.get()
            if task is None:
                all_drawn = True
                continue
            result = task.result.get()
            self._change(-task.cost, taken=1)
            del task
            yield result
            del result

    def stop(self) -> None:
        """Draw no more items."""
        self._stopped = True

    def serve(self) -> None:
        """Draw items and work on them, in one of the threads, while there is room."""
        while (task := self._draw()) is not None:
            self.work_on(task)
            del task

    def work_on(self, task: _Task[T, U]) -> None:
        """Call the function with an item, and set the result of its task."""
        weight = task.cost
        try:
            result = self._work(task.item)
            task.cost = self._size(result)
        except BaseException as error:
            self._stopped = True
            task.result.fail(error)
        else:
            self._change(task.cost - weight)
            task.result.set(result)
        task.item = _NOTHING
        if not self._ordered:
            self._queue.put(task)

    def _draw(self) -> _Task[T, U] | None:
        """Draw an item, unless the limit is reached or no item is left."""
        with self._drawing:
            if self._stopped or not self._has_room():
                return None
            try:
                item = next(self._items) if self._drawn is _NOTHING else self._drawn
                self._drawn, weight = item, self._weight(item)
            except StopIteration:
                self._stopped = True
                self._queue.put(None)
                return None
            except BaseException as error:
                if not (self._draw_in_workers or isinstance(error, Exception)):
                    raise  # Ctrl-C does not wait for its place
                self._stopped = True
                with self._counting:
                    self._untaken += 1
                task: _Task[T, U] = _Task(self, _NOTHING, 0)
                task.result.fail(error)
                self._queue.put(task)
                return None
            if weight and not self._has_room(weight):
                return None
            with self._counting:
                self._cost += weight
                self._untaken += 1
            self._drawn = _NOTHING
            task = _Task(self, item, weight)
            if self._ordered:
                self._queue.put(task)
            return task

    def _has_room(self, weight: int = 1) -> bool:
        """Return whether an item may be worked on. A thread without room returns from `serve`."""
        with self._counting:
            if not self._untaken or self._cost + weight <= self._limit:
                return True
            self._returned += 1
            return False

    def _change(self, cost: int, *, taken: int = 0) -> None:
        """Change the cost, and let threads that returned serve again when that makes room."""
        with self._counting:
            self._cost += cost
            self._untaken -= taken
            idle = 0
            if self._draw_in_workers and (not self._untaken or self._cost < self._limit):
                idle, self._returned = self._returned, 0
        for _ in range(idle):
            self._threads.submit(self.serve)
