"""Ranks, workers, seeds and repetition."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Sample: TypeAlias = dict[str, Any]
"""The fields of a sample, by name."""

enforce_security = os.environ.get("WDS_SECURE", "0") not in ("", "0")
"""Forbid commands, pickles and local files in `gopen`. Programs set it: `webdataset.utils.enforce_security = True`."""


class PipelineStage:
    """A stage with state: `run(source)` returns an iterator."""

    def run(self, *args: Any, **kw: Any) -> Iterator[Any]:
        """Read from a source; subclasses override this or `invoke`."""
        return iter(self.invoke(*args, **kw))

    def invoke(self, *args: Any, **kw: Any) -> Any:
        """Read from a source, by the older name."""
        raise NotImplementedError


def identity(x: T) -> T:
    """Return the argument."""
    return x


def is_iterable(obj: object) -> bool:
    """Return whether an object can be iterated over and is not text."""
    return not isinstance(obj, str | bytes) and isinstance(obj, Iterable)


def make_seed(*args: Any) -> int:
    """Return a 31-bit seed from several values, by the original's arithmetic."""
    seed = 0
    for arg in args:
        seed = (seed * 31 + hash(arg)) & 0x7FFFFFFF
    return seed


def guess_batchsize(batch: Sequence[Any]) -> int:
    """Return the number of samples in a batch that is a tuple of fields."""
    return len(batch[0])


def repeatedly(
    source: Iterable[Any],
    nepochs: int | None = None,
    nbatches: int | None = None,
    nsamples: int | None = None,
    batchsize: Callable[[Any], int] = guess_batchsize,
) -> Iterator[Any]:
    """Iterate over a source repeatedly, up to a number of epochs, batches or samples. An empty source ends it."""
    epoch = batch = total = 0
    while True:
        before = batch
        for item in source:
            yield item
            batch += 1
            if nbatches is not None and batch >= nbatches:
                return
            if nsamples is not None:
                total += batchsize(item)
                if total >= nsamples:
                    return
        epoch += 1
        if batch == before or (nepochs is not None and epoch >= nepochs):
            return


def pytorch_worker_info(group: Any = None) -> tuple[int, int, int, int]:
    """Return rank, number of ranks, worker, and number of workers.

    Ranks come from `RANK` and `WORLD_SIZE`, else from torch.distributed; workers from `WORKER` and
    `NUM_WORKERS`, else from the `DataLoader` whose worker this process is. PyTorch is used only if
    the program has imported it.
    """
    rank, world_size = _pair("RANK", "WORLD_SIZE") or torch_ranks(group) or (0, 1)
    worker, num_workers = _pair("WORKER", "NUM_WORKERS") or _workers() or (0, 1)
    return rank, world_size, worker, num_workers


def _pair(one: str, other: str) -> tuple[int, int] | None:
    if one in os.environ and other in os.environ:
        return int(os.environ[one]), int(os.environ[other])
    return None


def torch_ranks(group: Any) -> tuple[int, int] | None:
    """Return rank and number of ranks from torch.distributed, or None if the program does not use it."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    group = group or distributed.group.WORLD
    return distributed.get_rank(group=group), distributed.get_world_size(group=group)


def _workers() -> tuple[int, int] | None:
    data: Any = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return None if info is None else (info.id, info.num_workers)


def pytorch_worker_seed(group: Any = None) -> int:
    """Return a number that differs between the workers of all ranks."""
    rank, _, worker, _ = pytorch_worker_info(group=group)
    return rank * 1000 + worker
