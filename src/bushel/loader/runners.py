"""The choice of how batches are made: gathered in groups, in threads with or without reading ahead, or one by one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from bushel.loader.batch_arrays import BufferPool
from bushel.loader.grouped import Groups, run_groups
from bushel.loader.pipeline import Finished, Pipeline
from bushel.loader.plan import BatchPlan
from bushel.loader.run import Iteration, PrefetchWindow, run_inline, run_threads

if TYPE_CHECKING:
    from bushel.loader.read_ahead import ReadAhead

__all__ = ["run_batches"]


def run_batches(
    iteration: Iteration,
    plans: Iterator[BatchPlan],
    *,
    workers: int,
    window: PrefetchWindow,
    pool: BufferPool,
) -> Generator[Finished]:
    """Return the batches of an iteration, in the order of their plans.

    Args:
        iteration: The work, and its consumer.
        plans: The batches; each is drawn as late as possible.
        workers: Number of threads; 0 to do all work in the consumer's thread.
        window: How many batches are worked on at a time.
        pool: Memory of the batches' arrays, which later iterations use again.
    """
    pipeline = iteration.pipeline
    factory = pipeline.factory(pool)
    if factory.numbers is not None and {field.name for field in factory.numbers.fields} == set(factory.names):
        kind = None if pipeline.shape is None else _rows()
        return run_groups(iteration, plans, factory, workers=workers, window=window, kind=kind)
    if not workers:
        return run_inline(iteration, plans, factory)
    ahead = _read_ahead(pipeline, plans, window) if pipeline.source.remote else None
    return run_threads(iteration, plans, factory, workers=workers, window=window, ahead=ahead)


def _rows() -> type[Groups]:
    from bushel.loader.row_groups import RowGroups

    return RowGroups


def _read_ahead(pipeline: Pipeline, plans: Iterator[BatchPlan], window: PrefetchWindow) -> ReadAhead | None:
    """Return the `ReadAhead` of a remote dataset; None if its batches have no neighbours in common."""
    from bushel.loader.ahead_plan import Grouping
    from bushel.loader.read_ahead import ReadAhead

    limit = window.most_bytes // 2
    grouping = Grouping.of(pipeline.order, pipeline.source.size, limit)
    return None if grouping is None else ReadAhead(plans, pipeline.extents, grouping, limit)
