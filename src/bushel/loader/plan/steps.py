"""How many steps a rank has: without those whose samples are all excluded, and whether other ranks have as many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bushel.loader.plan.bucket_plan import BucketPlan
from bushel.loader.plan.plan import Plan
from bushel.loader.plan.who import positions_of

if TYPE_CHECKING:
    from bushel.loader.options import LoaderOptions
    from bushel.loader.order.orders import AnyPlan


def steps_after(plan: AnyPlan, epoch: int, consumed: int, excluded: frozenset[int]) -> int:
    """Return the number of batches of a rank after `consumed` positions, without batches of excluded samples only."""
    if not excluded:
        return plan.at(epoch).steps(consumed)
    if isinstance(plan, Plan):
        return plan.steps(consumed) - _empty_steps(plan, epoch, consumed, excluded)
    return sum(
        not excluded.issuperset(batch.samples.tolist()) for batch in plan.batches(epoch, consumed)
    )


def _empty_steps(plan: Plan, epoch: int, consumed: int, excluded: frozenset[int]) -> int:
    """Count the steps of excluded samples only. One rank has all samples: with several, none are left out."""
    places = [
        place
        for sample in excluded
        for place in positions_of(plan.order, epoch, sample)
        if place >= consumed
    ]
    steps, counts = np.unique(
        (np.array(places, np.int64) - consumed) // plan.batch_size, return_counts=True
    )
    sizes = np.minimum(plan.batch_size, plan.order.samples - consumed - steps * plan.batch_size)
    return int(np.count_nonzero(counts == sizes))


def unequal_steps(plan: AnyPlan, consumed: int) -> str | None:
    """Return why ranks may have unequal steps after `consumed` positions, and what to do; None if they are equal."""
    if plan.drop_last or plan.pad is not None or isinstance(plan, BucketPlan):
        return None
    ways = 'drop_last=True leaves the last ones out, pad="wrap" fills them up'
    if not isinstance(plan, Plan):
        return f"the {plan.world_size} ranks may have unequal steps at the end of an epoch: {ways}"
    left = max(0, plan.order.samples - consumed) % plan.stride
    if not 0 < left < plan.world_size:
        return None
    return (
        f"the last {left} samples of an epoch do not suffice for all of the {plan.world_size}"
        " ranks, which have "
        f"unequal steps, and may wait for each other for ever: {ways}"
    )


def without_batches(options: LoaderOptions) -> str | None:
    """Return why an epoch has no batch although there are samples, and what to do; None if it should have some."""
    if options.chunk_by is not None:
        return (
            f"all documents together have fewer than the chunk_tokens={options.chunk_tokens}"
            " tokens of one row for "
            "each rank. Give a smaller chunk_tokens"
        )
    if not options.drop_last:
        return None
    return (
        "drop_last=True leaves out all samples, because they do not fill one batch on every rank."
        " Give a smaller "
        "batch_size, or leave drop_last out"
    )
