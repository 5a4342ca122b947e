"""`Loader`: endless batches in a shuffled order, of Granular 0.20, and what that of 0.24 shares with it."""

from __future__ import annotations

import math
import os
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from functools import cached_property
from typing import Any, Self

import numpy as np

from bushel.compat.granular.closing import Closing
from bushel.compat.granular.errors import WrongTypeError, WrongUseError
from bushel.compat.granular.sources import permutation
from bushel.compat.granular.tasks import Arrays, Batch, Task, fill, pickled, receive, send

__all__ = ["BatchLoader", "Loader"]


class BatchLoader(Closing):
    """Makes batches ahead in workers.

    Args:
        task: What the workers do.
        batch: Datapoints in a batch.
        prefetch: Batches to make ahead.
        workers: How many at once, at most.
        recycle_after: Number of batches after which the arrays of a batch are used again; False: never.
        shard_id: Which of several hosts this is.
        num_shards: How many hosts there are. Each gets `batch` consecutive steps in turn.
        mp: A multiprocessing context: workers are processes of it. None: they are threads.
    """

    def __init__(
        self,
        task: Task,
        batch: int,
        prefetch: int,
        workers: int,
        recycle_after: int | bool,
        shard_id: int,
        num_shards: int,
        mp: Any,
    ) -> None:
        super().__init__()
        if batch < 1 or prefetch < 0 or workers < 0:
            raise WrongUseError(f"batch={batch}, prefetch={prefetch}, workers={workers}: one of them is too small")
        if not 0 <= shard_id < num_shards:
            raise WrongUseError(f"shard_id={shard_id} of num_shards={num_shards}")
        self.batch, self.prefetch, self.shard_id, self.num_shards = batch, prefetch, shard_id, num_shards
        self.recycle_after = int(recycle_after)
        self.seed = 0
        self.step = self.consumed = 0
        self._task, self._context = task, mp
        self._workers = max(1, workers)
        self._pool: Executor | None = None
        self._finalizer: weakref.finalize[..., BatchLoader] | None = None
        self._process = os.getpid()
        self._pending: deque[Batch] = deque()
        self._used: deque[Arrays] = deque()

    def _index(self, step: int) -> int:
        """Which datapoint of the source a step is."""
        return step

    @cached_property
    def spec(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Keys to dtype and shape, as the first datapoint has them. All others must have the same."""
        [point] = self._task.points([(0, 0)], self.seed)
        return {key: (value.dtype, value.shape) for key, value in point.items()}

    def __iter__(self) -> Self:
        self._check_process()
        while not self.closed and len(self._pending) < self.prefetch:
            self._request()
        return self

    def __next__(self) -> Arrays:
        if self.closed:
            raise WrongUseError("the loader is closed")
        self._check_process()
        while len(self._pending) <= self.prefetch:
            self._request()
        batch = self._pending.popleft()
        try:
            arrays = batch.finish()
        except Exception as error:
            self.close()
            raise RuntimeError("".join(traceback.format_exception(error))) from error
        except BaseException:
            self.close()
            raise
        self.consumed += self.batch * self.num_shards
        if self.recycle_after:
            self._used.append(arrays)
            return dict(arrays)
        return arrays

    def load(self, state: dict[str, int]) -> None:
        """Go on where a loader was when it gave this state."""
        self._drop()
        self.step = self.consumed = state["step"]
        self.seed = state.get("seed", self.seed)

    def close(self) -> None:
        """Stop the workers, and wait until they have."""
        if self.closed:
            return
        super().close()
        self._drop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._used.clear()

    def _drop(self) -> None:
        """Give up what was made ahead."""
        self._check_process()
        parts = [part for batch in self._pending for part, _ in batch.parts]
        for part in parts:
            part.cancel()
        wait(parts)
        self._pending.clear()

    def _check_process(self) -> None:
        """Begin anew where this is a fork of the process that has the workers: what is being made comes to that one."""
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        self._pending.clear()
        self.step = self.consumed
        self._pool = None
        if self._finalizer is not None:
            self._finalizer.detach()

    def _request(self) -> None:
        """Have the next batch made."""
        recycled = self.recycle_after and len(self._used) > self.recycle_after
        if recycled:
            arrays = self._used.popleft()
        else:
            arrays = {key: np.empty((self.batch, *shape), dtype) for key, (dtype, shape) in self.spec.items()}
        first = self.step + self.shard_id * self.batch
        steps = [(self._index(step), step) for step in range(first, first + self.batch)]
        size = math.ceil(self.batch / min(self.batch, self._workers))
        pool = self._pool or self._start()
        parts: list[tuple[Future[Sequence[Arrays]], int]] = []
        for place in range(0, self.batch, size):
            own = steps[place : place + size]
            if self._context is None:
                parts.append((pool.submit(fill, self._task, own, self.seed, arrays, place), place))
            else:
                parts.append((pool.submit(send, own, self.seed), place))
        self._pending.append(Batch(arrays, parts))
        self.step += self.num_shards * self.batch

    def _start(self) -> Executor:
        if self._context is None:
            self._pool = ThreadPoolExecutor(self._workers, "granular-loader")
        else:
            self._pool = ProcessPoolExecutor(self._workers, self._context, receive, (pickled(self._task),))
        self._finalizer = weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        return self._pool


class Loader(BatchLoader):
    """Loads a dataset in a new order each epoch, without end.

    The order is that of Granular: epoch `e` of `n` datapoints is
    `numpy.random.default_rng([seed, e]).permutation(numpy.arange(n))`, and batches go on from one epoch into the next.

    Args:
        source: A reader, or anything with `len()` and `[index]` that gives dicts.
        batch: Datapoints in a batch.
        fns: Called one after another as `fn(datapoint, seed=[seed, step])`, with arrays for values; each gives a dict.
            The seed is another one for each datapoint and each epoch.
        shuffle: Whether to shuffle.
        prefetch: Batches to make ahead.
        workers: How many at once, at most.
        recycle_after: Number of batches after which the arrays of a batch are used again; False: never.
        shard_id: Which of several hosts this is.
        num_shards: How many hosts there are.
        mp: A multiprocessing context (`multiprocessing.get_context("spawn")`): workers are processes of it. None: they
            are threads, which costs no start and no pickling, but lets functions in pure Python work one at a time.
        seed: Of the order, and of `fns`.
    """

    def __init__(
        self,
        source: Any,
        batch: int,
        fns: Sequence[Callable[..., Any]] = (),
        shuffle: bool = True,
        prefetch: int = 8,
        workers: int = 32,
        recycle_after: int | bool = False,
        shard_id: int = 0,
        num_shards: int = 1,
        mp: Any = None,
        seed: int = 0,
    ) -> None:
        if not hasattr(source, "__len__"):
            raise WrongTypeError("a source has len() and [index]; for functions of a step use granular.v24.Loader")
        if not len(source):
            raise WrongUseError("the source has no datapoints")
        task = Task(source, tuple(fns))
        super().__init__(task, batch, prefetch, workers, recycle_after, shard_id, num_shards, mp)
        self.source, self.fns, self.shuffle, self.seed, self.length = source, fns, shuffle, seed, len(source)

    def _index(self, step: int) -> int:
        epoch, position = divmod(step, self.length)
        return int(permutation(self.length, self.seed, epoch)[position]) if self.shuffle else position

    def save(self) -> dict[str, int]:
        """What `load` needs to go on: how many datapoints all hosts together have been given, and the seed."""
        return {"step": self.consumed, "seed": self.seed}
