"""Choose how batches are made: gathered in groups, in threads with or without read-ahead, or one by one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.batch_arrays import ArrayFactory, BufferPool
from bushel.loader.run.groups import Groups, run_groups
from bushel.loader.run.pipeline import Finished, Pipeline
from bushel.loader.run.run import Iteration, PrefetchWindow, run_inline, run_threads

if TYPE_CHECKING:
    from bushel.loader.read.list_fields import ListFields
    from bushel.loader.run.read_ahead import ReadAhead


def run_batches(
    iteration: Iteration,
    plans: Iterator[BatchPlan],
    *,
    threads: int,
    window: PrefetchWindow,
    pool: BufferPool,
) -> Generator[Finished]:
    """Return the batches of an iteration, in the order of their plans."""
    pipeline = iteration.pipeline
    factory = pipeline.factory(pool)
    numbers = (
        frozenset[str]()
        if factory.numbers is None
        else {field.name for field in factory.numbers.fields}
    )
    listed = _listed(pipeline, factory)
    if factory.names and numbers | (frozenset() if listed is None else listed.names) == set(
        factory.names
    ):
        kind = None if pipeline.shape is None else _rows()
        return run_groups(
            iteration, plans, factory, threads=threads, window=window, kind=kind, listed=listed
        )
    if not threads:
        return run_inline(iteration, plans, factory)
    ahead = _read_ahead(pipeline, plans, window) if pipeline.source.remote else None
    return run_threads(iteration, plans, factory, threads=threads, window=window, ahead=ahead)


def _listed(pipeline: Pipeline, factory: ArrayFactory) -> ListFields | None:
    """Return the fields that batches can have without samples, beside those that are gathered; None if none can."""
    if (
        not pipeline.batched
        or callable(pipeline.collate)
        or pipeline.shape is not None
        or pipeline.windows is not None
    ):
        return None
    if pipeline.transforms.sample is not None or pipeline.source.remote:
        return None
    from bushel.loader.read.list_fields import list_fields

    transformed = frozenset(name for step in pipeline.transforms.fields for name in step.fields)
    arguments = (
        pipeline.source.dataset,
        pipeline.fields,
        pipeline.collate or {},
        transformed,
        factory.pool,
    )
    return list_fields(*arguments, decode=pipeline.decode)


def run_one(
    iteration: Iteration, plan: BatchPlan, window: PrefetchWindow, pool: BufferPool
) -> Finished:
    """Return one batch, made in the consumer's thread. Arguments: see `run_batches`."""
    batches = run_batches(iteration, iter([plan]), threads=0, window=window, pool=pool)
    try:
        return next(batches)
    finally:
        batches.close()


def _rows() -> type[Groups]:
    from bushel.loader.run.groups import RowGroups

    return RowGroups


def _read_ahead(
    pipeline: Pipeline, plans: Iterator[BatchPlan], window: PrefetchWindow
) -> ReadAhead | None:
    """Return the `ReadAhead` of a remote dataset; None if its batches have no neighbours in common."""
    from bushel.loader.run.ahead_plan import Grouping
    from bushel.loader.run.read_ahead import ReadAhead

    limit = window.most_bytes // 2
    grouping = Grouping.of(pipeline.order, pipeline.source.size, limit)
    return None if grouping is None else ReadAhead(plans, pipeline.extents, grouping, limit)
