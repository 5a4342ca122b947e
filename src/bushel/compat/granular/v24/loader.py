"""`Loader` of Granular 0.24, whose source is a function from a step to a datapoint."""

from __future__ import annotations

from typing import Any

from bushel.compat.granular.loader import BatchLoader
from bushel.compat.granular.sources import convert
from bushel.compat.granular.tasks import Task

__all__ = ["Loader"]


class Loader(BatchLoader):
    """Makes batches of the steps 0, 1, 2 and so on of a source, without end.

    Args:
        source: Callable with a step, such as those of `granular.sources`; or anything with `[index]`.
        batch: Datapoints in a batch.
        prefetch: Batches to make ahead.
        workers: How many at once, at most.
        recycle_after: Number of batches after which the arrays of a batch are used again; False: never.
        shard_id: Which of several hosts this is.
        num_shards: How many hosts there are.
        mp: A multiprocessing context: workers are processes of it. None: they are threads.
    """

    def __init__(
        self,
        source: Any,
        batch: int,
        prefetch: int = 8,
        workers: int = 32,
        recycle_after: int | bool = False,
        shard_id: int = 0,
        num_shards: int = 1,
        mp: Any = None,
    ) -> None:
        task = Task(convert(source), by_call=True)
        super().__init__(task, batch, prefetch, workers, recycle_after, shard_id, num_shards, mp)
        self.source = source

    def save(self) -> dict[str, int]:
        """What `load` needs to go on: the number of datapoints that all hosts together have been given."""
        return {"step": self.consumed}
