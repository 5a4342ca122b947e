"""Call a function with every item of a list on an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bushel.core.tasks.drive import TaskOptions, drive
from bushel.core.tasks.engine import connect

__all__ = ["map_on_engine"]

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class _ItemTask(Generic[T, U]):
    work: Callable[[T], U]
    items: Sequence[T]

    def __call__(self, number: int) -> U:
        return self.work(self.items[number])


def map_on_engine(
    work: Callable[[T], U], items: Sequence[T], engine: Any, *, finished: Callable[[T], None] | None = None
) -> list[U]:
    """Call a function with every item on an engine, and return the results in order.

    Args:
        work: The function, which can be pickled, as can its results. An item may be given to it twice.
        items: The items, which can be pickled.
        engine: See `bushel.core.tasks.engine.connect`.
        finished: Called in this thread with each item whose result is there.

    Raises:
        BaseException: The first error of `work`.
    """
    results: dict[int, U] = {}

    def take(number: int, result: U) -> None:
        results[number] = result
        if finished is not None:
            finished(items[number])

    drive(_ItemTask(work, items), range(len(items)), connect(engine), TaskOptions(), finished=take)
    return [results[number] for number in range(len(items))]
