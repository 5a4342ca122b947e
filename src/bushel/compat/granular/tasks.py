"""What a loader's workers do, as threads or as processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.compat.granular.errors import WrongTypeError, WrongUseError

__all__ = ["Arrays", "Batch", "Task", "fill", "pickled", "receive", "send"]

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Step = tuple[int, int]
"""Index in the source, and global step."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the workers do.

    Attributes:
        source: Where datapoints come from.
        fns: Called one after another as `fn(datapoint, seed=[seed, step])`.
        by_call: Whether the source is called with the index, rather than asked for `source[index]`.
    """

    source: Any
    fns: tuple[Callable[..., Any], ...] = ()
    by_call: bool = False

    def points(self, steps: Sequence[Step], seed: int) -> list[Arrays]:
        """The datapoints of some steps.

        Raises:
            WrongTypeError: The source or a function gives something else than a dict.
        """
        if self.by_call:
            found = [self.source(index) for index, _ in steps]
        elif len(steps) > 1 and hasattr(self.source, "points"):
            found = self.source.points([index for index, _ in steps])
        else:
            found = [self.source[index] for index, _ in steps]
        return [self._finished(point, [seed, step]) for point, (_, step) in zip(found, steps, strict=True)]

    def _finished(self, point: Any, seed: list[int]) -> Arrays:
        point = _as_arrays(point, self.source)
        for fn in self.fns:
            point = fn(point, seed=seed)
            if not isinstance(point, dict):
                raise WrongTypeError(f"{fn!r} gave a {type(point).__name__}, where a datapoint is a dict")
        return _as_arrays(point, self.source) if self.fns else point


def _as_arrays(point: Any, source: Any) -> Arrays:
    if not isinstance(point, dict):
        raise WrongTypeError(f"{source!r} gave a {type(point).__name__}, where a datapoint is a dict")
    return {key: np.asarray(value) for key, value in point.items()}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch in the making.

    Attributes:
        arrays: What it is made in.
        parts: Work on it, each with the place of its first datapoint; the result is what is still to be put there.
    """

    arrays: Arrays
    parts: list[tuple[Future[Sequence[Arrays]], int]]

    def finish(self) -> Arrays:
        """Wait for it.

        Raises:
            Exception: What went wrong in a worker.
        """
        for part, place in self.parts:
            for number, point in enumerate(part.result(), place):
                _put(self.arrays, number, point)
        return self.arrays


def _put(arrays: Arrays, number: int, point: Arrays) -> None:
    """Put a datapoint at its place in a batch, if it is like the first one."""
    if point.keys() != arrays.keys():
        raise WrongUseError(f"a datapoint with the keys {', '.join(point)}, where the first has {', '.join(arrays)}")
    for key, value in point.items():
        target = arrays[key]
        if value.shape != target.shape[1:]:
            raise WrongUseError(f"key {key!r} has the shape {value.shape}, where the first has {target.shape[1:]}")
        if value.dtype != target.dtype and not np.can_cast(value.dtype, target.dtype, "same_kind"):
            raise WrongUseError(f"key {key!r} has the dtype {value.dtype}, where the first has {target.dtype}")
        target[number] = value


def fill(task: Task, steps: Sequence[Step], seed: int, arrays: Arrays, place: int) -> Sequence[Arrays]:
    """The work of a thread, which leaves nothing to be done."""
    for number, point in enumerate(task.points(steps, seed), place):
        _put(arrays, number, point)
    return ()


_received: list[Task] = []
"""In a worker process: what it does."""


def receive(task: bytes) -> None:
    """Begin a worker process."""
    _received[:] = [pickle.loads(task)]


def send(steps: Sequence[Step], seed: int) -> Sequence[Arrays]:
    """The work of a process."""
    return _received[0].points(steps, seed)


def pickled(task: Task) -> bytes:
    """The task for another process; with functions of any kind where cloudpickle is installed."""
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise WrongTypeError(
                f"mp= pickles the source and the functions, and one cannot be: {error}. Define it at the top of a "
                f"module, or pip install cloudpickle, or leave mp out to use threads"
            ) from error
        task_with_functions: bytes = cloudpickle.dumps(task)
        return task_with_functions
