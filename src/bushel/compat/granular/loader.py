"""`Loader` of Granular 0.20: endless batches in a shuffled order; and its base class, which Granular 0.24's shares."""

from __future__ import annotations

import math
import os
import pickle
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from .base import Closing, WrongTypeError, WrongUseError
from .sources import shuffled

Array = np.ndarray
Arrays = dict[str, Array]
Step = tuple[int, int]
"""An index of the source, and the global step."""


@dataclass(frozen=True)
class Task:
    """The work of a loader's workers: datapoints of `source`, each changed by `fns`.

    `by_call`: the source is called with the index, instead of `source[index]`.
    """

    source: Any
    fns: tuple[Callable[..., Any], ...] = ()
    by_call: bool = False

    def points(self, steps: Sequence[Step], seed: int) -> list[Arrays]:
        """Return the datapoints of some steps."""
        if self.by_call:
            points = [self.source(index) for index, _ in steps]
        elif len(steps) > 1 and hasattr(self.source, "points"):
            points = self.source.points([index for index, _ in steps])
        else:
            points = [self.source[index] for index, _ in steps]
        return [
            self._finished(point, [seed, step])
            for point, (_, step) in zip(points, steps, strict=True)
        ]

    def _finished(self, point: Any, seed: list[int]) -> Arrays:
        point = _as_arrays(point, self.source)
        for fn in self.fns:
            point = _as_dict(fn(point, seed=seed), fn)
        return _as_arrays(point, self.source) if self.fns else point


def _as_dict(point: Any, origin: Any) -> dict[str, Any]:
    if not isinstance(point, dict):
        raise WrongTypeError(
            f"{origin!r} gave a {type(point).__name__}, where a datapoint is a dict"
        )
    return point


def _as_arrays(point: Any, source: Any) -> Arrays:
    return {key: np.asarray(value) for key, value in _as_dict(point, source).items()}


@dataclass(frozen=True)
class Batch:
    """A batch whose `arrays` workers fill.

    `parts` is their work, each with the number of its first datapoint. Results are datapoints not
    yet in place.
    """

    arrays: Arrays
    parts: list[tuple[Future[Sequence[Arrays]], int]]

    def finish(self) -> Arrays:
        """Wait for the workers, and return the arrays."""
        for part, first in self.parts:
            for number, point in enumerate(part.result(), first):
                _put(self.arrays, number, point)
        return self.arrays


def _put(arrays: Arrays, number: int, point: Arrays) -> None:
    """Copy a datapoint to its place in a batch, if it has the keys, shapes and dtypes of the first one."""
    if point.keys() != arrays.keys():
        raise WrongUseError(
            f"a datapoint with the keys {', '.join(point)}, where the first has {', '.join(arrays)}"
        )
    for key, value in point.items():
        target = arrays[key]
        if value.shape != target.shape[1:]:
            raise WrongUseError(
                f"key {key!r} has the shape {value.shape}, where the first has {target.shape[1:]}"
            )
        if value.dtype != target.dtype and not np.can_cast(value.dtype, target.dtype, "same_kind"):
            raise WrongUseError(
                f"key {key!r} has the dtype {value.dtype}, where the first has {target.dtype}"
            )
        target[number] = value


def fill(
    task: Task, steps: Sequence[Step], seed: int, arrays: Arrays, first: int
) -> Sequence[Arrays]:
    """Fill a part of a batch in a thread, which leaves no datapoints to be copied."""
    for number, point in enumerate(task.points(steps, seed), first):
        _put(arrays, number, point)
    return ()


_received: list[Task] = []  # the task of this worker process


def receive(task: bytes) -> None:
    """Receive the task in a new worker process."""
    _received[:] = [pickle.loads(task)]


def send(steps: Sequence[Step], seed: int) -> Sequence[Arrays]:
    """Return the datapoints of some steps to the parent process."""
    return _received[0].points(steps, seed)


def pickled(task: Task) -> bytes:
    """Return the task for another process; with cloudpickle, functions of any kind can be pickled."""
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise WrongTypeError(
                f"mp= cannot pickle the source or a function: {error}. Define it at the "
                "top of a module, or pip install cloudpickle, or omit mp to use threads"
            ) from error
        task_with_functions: bytes = cloudpickle.dumps(task)
        return task_with_functions


class BatchLoader(Closing):
    """Prefetches batches in workers: threads, or processes of the multiprocessing context `mp`."""

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
            raise WrongUseError(
                f"batch={batch}, prefetch={prefetch}, "
                f"workers={workers}: expected at least 1, 0 and 0"
            )
        if not 0 <= shard_id < num_shards:
            raise WrongUseError(
                f"shard_id must be from 0 to num_shards - 1, not {shard_id} of {num_shards}"
            )
        self.batch, self.prefetch, self.shard_id, self.num_shards = (
            batch,
            prefetch,
            shard_id,
            num_shards,
        )
        self.recycle_after = int(recycle_after)
        self.seed = 0
        self.step = self.consumed = 0
        self._task, self._context = task, mp
        self._workers = max(1, workers)
        # An executor, not bushel._runtime.parallel: `mp` may ask for processes of any
        # multiprocessing context.
        self._pool: Executor | None = None
        self._finalizer: weakref.finalize[..., BatchLoader] | None = None
        self._process = os.getpid()
        self._pending: deque[Batch] = deque()
        self._used: deque[Arrays] = deque()

    def _index(self, step: int) -> int:
        """Return the index in the source of a step."""
        return step

    @cached_property
    def spec(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """The dtype and shape of each key in the first datapoint, which all others must have."""
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

    def load(self, d: dict[str, int]) -> None:
        """Continue after the batches that a loader had given when it saved this state."""
        self._drop()
        self.step = self.consumed = d["step"]
        self.seed = d.get("seed", self.seed)

    def close(self) -> None:
        """Stop the workers, and wait for them."""
        if self.closed:
            return
        super().close()
        self._drop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._used.clear()

    def _drop(self) -> None:
        """Drop the prefetched batches."""
        self._check_process()
        parts = [part for batch in self._pending for part, _ in batch.parts]
        for part in parts:
            part.cancel()
        wait(parts)
        self._pending.clear()

    def _check_process(self) -> None:
        """Start new workers after a fork; prefetched batches stay with the parent."""
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        self._pending.clear()
        self.step = self.consumed
        self._pool = None
        if self._finalizer is not None:
            self._finalizer.detach()

    def _request(self) -> None:
        """Start work on the next batch."""
        recycled = self.recycle_after and len(self._used) > self.recycle_after
        if recycled:
            arrays = self._used.popleft()
        else:
            arrays = {
                key: np.empty((self.batch, *shape), dtype)
                for key, (dtype, shape) in self.spec.items()
            }
        first = self.step + self.shard_id * self.batch
        steps = [(self._index(step), step) for step in range(first, first + self.batch)]
        size = math.ceil(self.batch / min(self.batch, self._workers))
        pool = self._pool or self._start()
        parts: list[tuple[Future[Sequence[Arrays]], int]] = []
        for place in range(0, self.batch, size):
            part = steps[place : place + size]
            if self._context is None:
                parts.append((pool.submit(fill, self._task, part, self.seed, arrays, place), place))
            else:
                parts.append((pool.submit(send, part, self.seed), place))
        self._pending.append(Batch(arrays, parts))
        self.step += self.num_shards * self.batch

    def _start(self) -> Executor:
        if self._context is None:
            self._pool = ThreadPoolExecutor(self._workers, "granular-loader")
        else:
            self._pool = ProcessPoolExecutor(
                self._workers, self._context, receive, (pickled(self._task),)
            )
        self._finalizer = weakref.finalize(
            self, self._pool.shutdown, wait=False, cancel_futures=True
        )
        return self._pool


class Loader(BatchLoader):
    """Loads a dataset (a reader, or anything with `len()` and `[index]` that gives dicts) without end, in epochs.

    The order is Granular's: epoch `e` of `n` datapoints is `numpy.random.default_rng([seed,
    e]).permutation(numpy.arange(n))`, and batches continue into the next epoch. `fns` are called one after another as
    `fn(datapoint, seed=[seed, step])`, with arrays for values.

    Workers are threads, which start fast and pickle nothing, but run functions in pure Python one
    at a time; or processes of the multiprocessing context `mp`, such as
    `multiprocessing.get_context("spawn")`.
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
            raise WrongTypeError(
                "a source needs len() and [index]; for functions of a step use granular.v24.Loader"
            )
        if not len(source):
            raise WrongUseError("the source has no datapoints")
        task = Task(source, tuple(fns))
        super().__init__(task, batch, prefetch, workers, recycle_after, shard_id, num_shards, mp)
        self.source, self.fns, self.shuffle, self.seed, self.length = (
            source,
            fns,
            shuffle,
            seed,
            len(source),
        )

    def _index(self, step: int) -> int:
        return shuffled(self.length, self.seed, step, self.shuffle)

    def save(self) -> dict[str, int]:
        """Return the state for `load`: the number of datapoints given to all hosts together, and the seed."""
        return {"step": self.consumed, "seed": self.seed}
