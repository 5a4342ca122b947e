"""The protocol of engines, which run numbered tasks in other processes or on other machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from bushel._runtime.public import public
from bushel._runtime.structs import Struct


@public("bushel.engines")
class LostWorkerError(RuntimeError):
    """The process or machine that ran a task has died. The task can be tried again.

    Examples:
        >>> from bushel.engines import Attempt, connect
        >>> engine = connect("local")
        >>> engine.submit(hex, Attempt(1, 0))
        >>> engine.wait(seconds=60, unwanted=[Attempt(1, 0)])[0].error
        LostWorkerError('the worker process was killed, as its result was not needed')
        >>> engine.close()
    """


@public("bushel.engines")
class Task(Protocol):
    """A function of a number. It can be pickled, and may be called twice with the same number.

    Examples:
        >>> from bushel.engines import Attempt, connect
        >>> engine = connect("local")
        >>> engine.submit(bin, Attempt(5, 0))  # any function of a number that can be pickled
        >>> engine.wait(seconds=60)[0].result
        '0b101'
        >>> engine.close()
    """

    def __call__(self, number: int, /) -> Any:
        """Do the work with this number and return a small result, which can be pickled."""
        ...


@public("bushel.engines")
class Attempt(Struct, frozen=True):
    """One start of a task.

    Attributes:
        number: Number of the task.
        attempt: Number of this start of it, from 0.

    Examples:
        >>> from bushel.engines import Attempt
        >>> Attempt(number=3, attempt=1)  # the second start of task 3
        Attempt(number=3, attempt=1)
    """

    number: int
    attempt: int


@public("bushel.engines")
class Finished(Struct, frozen=True):
    """The end of an attempt.

    Attributes:
        attempt: Which one.
        result: The result of the task; None after an error.
        error: The error that it raised; `LostWorkerError` if its worker died.

    Examples:
        >>> from bushel.engines import Attempt, Finished
        >>> Finished(Attempt(3, 0), result="part-00003").result
        'part-00003'
    """

    attempt: Attempt
    result: Any = None
    error: BaseException | None = None


@public("bushel.engines")
@runtime_checkable
class Engine(Protocol):
    """Runs attempts of one task elsewhere: at most `slots` at a time, and second attempts of tasks that hang.

    Examples:
        >>> from bushel.engines import Attempt, connect
        >>> engine = connect("local")
        >>> engine.submit(hex, Attempt(255, 0))
        >>> [finished.result for finished in engine.wait(seconds=60)]
        ['0xff']
        >>> engine.close()
    """

    @property
    def slots(self) -> int:
        """Number of attempts that run at a time. It may change."""
        ...

    def submit(self, task: Task, attempt: Attempt) -> None:
        """Start an attempt. Until the engine is closed, all of its attempts have the same task.

        Raises:
            TypeError: The task cannot be pickled.
        """
        ...

    def wait(self, seconds: float, unwanted: Sequence[Attempt] = ()) -> Sequence[Finished]:
        """Return the attempts that have finished since the last call.

        Args:
            seconds: How long to wait if none has finished yet.
            unwanted: Attempts whose results are not needed. End them if you can, and return them as
                finished then.
        """
        ...

    def close(self) -> None:
        """End all attempts that run, hung ones too, and free what this engine has started.

        May be called twice. Attempts of another task can be submitted after it.
        """
        ...


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
