"""The protocol of engines, which run numbered tasks in other processes or on other machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from bushel._runtime.public import public

if TYPE_CHECKING:
    from distributed import Client


@public("bushel.engines")
class LostWorkerError(RuntimeError):
    """The process or machine that ran a task has died. The task can be tried again.

    Examples:
        >>> import os
        >>> from bushel.engines import connect
        >>> engine = connect("local")
        >>> engine.submit(os._exit, 1)
        >>> type(engine.wait(seconds=60)[0].error)
        <class 'bushel.engines.LostWorkerError'>
        >>> engine.close()
    """


@public("bushel.engines")
class Task(Protocol):
    """A function of a number. It can be pickled, and may be called twice with the same number.

    Examples:
        >>> from bushel.engines import connect
        >>> engine = connect("local")
        >>> engine.submit(bin, 5)  # any function of a number that can be pickled
        >>> engine.wait(seconds=60)[0].result
        '0b101'
        >>> engine.close()
    """

    def __call__(self, number: int, /) -> Any:
        """Do the work with this number and return a small result, which can be pickled."""
        ...


@public("bushel.engines")
class Finished(Struct, frozen=True):
    """The end of a task.

    Attributes:
        number: Number of the task.
        result: The result of the task; None after an error.
        error: The error that it raised; `LostWorkerError` if its worker died.

    Examples:
        >>> from bushel.engines import Finished
        >>> Finished(3, result="part-00003").result
        'part-00003'
    """

    number: int
    result: Any = None
    error: BaseException | None = None


@public("bushel.engines")
@runtime_checkable
class Engine(Protocol):
    """Runs one task with many numbers elsewhere, at most `slots` at a time.

    Examples:
        >>> from bushel.engines import connect
        >>> engine = connect("local")
        >>> engine.submit(hex, 255)
        >>> [finished.result for finished in engine.wait(seconds=60)]
        ['0xff']
        >>> engine.close()
    """

    @property
    def slots(self) -> int:
        """Number of tasks that run at a time. It may change."""
        ...

    def submit(self, task: Task, number: int) -> None:
        """Start a task with a number. Until the engine is closed, the task is the same.

        A number that has finished may be submitted again, after an error.

        Raises:
            TypeError: The task cannot be pickled.
        """
        ...

    def wait(self, seconds: float) -> Sequence[Finished]:
        """Return the tasks that have finished since the last call; wait this long if none has."""
        ...

    def close(self) -> None:
        """End all tasks that run, hung ones too, and free what this engine has started.

        May be called twice. Another task can be submitted after it.
        """
        ...


AnyEngine: TypeAlias = "str | Engine | Client"
"""An engine, its name (`local`, `ray`, `dask`), an address such as `tcp://host:8786`, or a `distributed.Client`."""


def format_numbers(numbers: Iterable[int]) -> str:
    """Return ascending numbers as ranges: `7,19-22`."""
    return ",".join(
        f"{first}" if first == last else f"{first}-{last}" for first, last in _ranges(numbers)
    )


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is None or first is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last
