"""Calls of tasks in a worker: errors are returned, so that their types survive the way back."""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import Any

from bushel._runtime.pickles import portable
from bushel._runtime.tasks.engine import Task


def call(task: Task, number: int) -> tuple[Any, BaseException | None]:
    """Return the result of a task, or its error in a form that can be pickled."""
    try:
        return task(number), None
    except Exception as error:
        return None, portable(error)


def call_pickled(job: bytes, number: int) -> tuple[Any, BaseException | None]:
    """Call a pickled task. A worker unpickles it once."""
    try:
        task = _load(job)
    except Exception as error:
        return None, RuntimeError(f"a worker cannot load the task: {type(error).__name__}: {error}")
    return call(task, number)


@lru_cache(maxsize=1)
def _load(job: bytes) -> Task:
    task: Task = pickle.loads(job)
    return task
