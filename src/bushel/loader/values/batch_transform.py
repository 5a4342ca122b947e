"""The transform of a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bushel._runtime.permutation import LIMIT
from bushel.loader.values.bad_samples import named
from bushel.loader.values.generator import generator

if TYPE_CHECKING:
    from bushel.loader.plan.plan import BatchPlan
    from bushel.transforms.values import Call


def transformed(call: Call, batch: Any, seed: int, plan: BatchPlan) -> Any:
    """Return a batch after its `batch_transform`, whose random numbers depend on the first position of the batch.

    Raises:
        TypeError: The transform returned None.
    """
    if call.random:
        batch = call.function(batch, rng=generator(seed, plan.epoch, LIMIT + plan.first))
    else:
        batch = call.function(batch)
    if batch is None:
        raise TypeError(f"the batch_transform {named(call.function)} returned None: return the batch")
    return batch
