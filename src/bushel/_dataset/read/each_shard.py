"""Call a function for every shard, in threads or on an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from bushel.containers.base import Shard
from bushel.storage import is_local

_REMOTE_WORKERS = 8  # number of remote shards that are indexed at once; each may have 64 MiB of requests in flight
T = TypeVar("T")


def each_shard(
    shards: Sequence[Shard],
    work: Callable[[Shard], T],
    *,
    threads: int | None = None,
    finished: Callable[[T], None] | None = None,
    engine: Any = None,
) -> list[T]:
    """Call a function with every shard in threads or on an engine, and return the results in order.

    Args:
        shards: The shards.
        work: The function.
        threads: Number of threads.
        finished: Called with each result, from this thread.
        engine: Where the function is called instead; it can be pickled then.

    Raises:
        BaseException: The first error of `work` in the order of shards. Work that has not started is dropped.
    """
    if engine is not None:
        from bushel._runtime.tasks.drive import map_on_engine
        from bushel.engines import connect

        return map_on_engine(work, shards, connect(engine), finished=finished and (lambda _, result: finished(result)))
    each: Iterable[T]
    if len(shards) <= 1:
        each = map(work, shards)
    else:
        from bushel._runtime.parallel import parallel_map
        from bushel._runtime.threads import cpu_count

        usual = cpu_count() if is_local(shards[0].root) else _REMOTE_WORKERS
        each = parallel_map(work, shards, threads=threads or usual, limit=len(shards), name="bushel-index")
    results: list[T] = []
    for result in each:
        results.append(result)
        if finished is not None:
            finished(result)
    return results
