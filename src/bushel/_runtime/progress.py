"""Progress of a long run: the argument of `progress=` callbacks, and the bar in terminals and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import Lock
from typing import Any, Literal, ParamSpec, TypeVar

from msgspec import Struct

from .messages import count, size
from .public import misspelt, public

P = ParamSpec("P")
R = TypeVar("R")

_INTERVAL_SECONDS = 0.1
_SLOW_SECONDS = 1.0
_TERMINAL = Lock()  # of the one bar that a terminal shows at a time


@public("bushel.runs")
class Progress(Struct, frozen=True):
    """The progress of a run. `pack`, `convert`, `split`, `merge`, `index`, `verify` and `repair` all report it.

    Attributes:
        done: Number of units that are finished.
        total: Number of units of the whole run; None if it is unknown, as for a stream.
        unit: The unit of `done` and `total`.
        samples: Number of samples processed so far; 0 where they are not counted.
        bytes: Bytes written, or, by `verify`, bytes read so far, or, by `index`, size of the shards
            that were read.
        errors: Number of bad samples, or of problems, found so far.
        parts: Number of finished parts and of all parts of the run; None if it has no parts.
        retries: Number of attempts that were tried again.

    Examples:
        >>> reports = []
        >>> done = bushel.pack("photos/", "out/", container="tar", progress=reports.append)
        >>> reports[-1].done, reports[-1].unit
        (12, 'samples')
    """

    done: int
    total: int | None
    unit: Literal["samples", "bytes", "shards"]
    samples: int = 0
    bytes: int = 0
    errors: int = 0
    parts: tuple[int, int] | None = None
    retries: int = 0


OnProgress = Callable[[Progress], None]
"""A `progress=` callback. It is called in the thread that called the function, some times per second at most."""


ShowProgress = OnProgress | bool | None
"""The `progress=` of a public function: a callback; True for a bar in a terminal or notebook; False or None."""


class ProgressReporter:
    """Passes progress to a callback, at most ten times per second."""

    def __init__(self, callback: OnProgress | None) -> None:
        self._callback = callback
        self._next = 0.0
        self._pending: Progress | None = None

    def report(self, progress: Progress) -> None:
        """Call the callback, unless it was called a moment ago."""
        if self._callback is None:
            return
        now = time.monotonic()
        if now < self._next:
            self._pending = progress
            return
        self._next, self._pending = now + _INTERVAL_SECONDS, None
        self._callback(progress)

    def finish(self) -> None:
        """Call the callback with the last progress, if it has not received it yet."""
        if self._callback is not None and self._pending is not None:
            pending, self._pending = self._pending, None
            self._callback(pending)


def callback_of(progress: ShowProgress) -> OnProgress | None:
    """Return the callback of `progress=`, or the one that `user_call` has made of True; None for a bool.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(progress, bool | None):
        return None
    if not callable(progress):
        raise TypeError(
            f"progress={progress!r}: expected True for a bar, or a function "
            "that is called with a bushel.runs.Progress"
        )
    return progress


def user_call(task: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function that users call show a bar with `progress=True`, and say what misspelt arguments may mean.

    Args:
        task: A name of the work, such as "packing"; empty for a function without `progress=`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                if not task or kwargs.get("progress") is not True:
                    return function(*args, **kwargs)
                with progress_bar(task) as report:
                    arguments: Any = {**kwargs, "progress": report}
                    return function(*args, **arguments)
            except TypeError as error:
                if (named := misspelt(error, function, kwargs)) is None:
                    raise
                raise named from None

        return run

    return decorate


@contextmanager
def progress_bar(task: str) -> Iterator[OnProgress | None]:
    """Show a progress bar while the block runs: below the cell of a notebook, or on standard error in a terminal.

    Args:
        task: Name of the work, such as "packing".

    Yields:
        A callback for `progress=`, or None if standard error is neither, or shows another bar.
    """
    started = time.monotonic()
    if _in_notebook():
        yield _in_cell(task, started)
        return
    if not sys.stderr.isatty() or not _TERMINAL.acquire(blocking=False):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(task),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
    )
    try:
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            number = bar.add_task(task, total=None, text="")

            def show(now: Progress) -> None:
                text = _described(now, started)
                bar.update(number, completed=now.done, total=now.total, text=text)

            yield show
    finally:
        _TERMINAL.release()


@contextmanager
def slow_work(task: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar once the block has taken a second.

    Args:
        task: Name of the work, such as "scanning".

    Yields:
        A callback that is given numbers of bytes as they are read, in any thread.
    """
    if not (sys.stderr.isatty() or _in_notebook()):
        yield lambda size: None  # as `progress_bar` shows nothing
        return
    from threading import Timer

    lock, done, ended = Lock(), 0, False
    show: OnProgress | None = None

    def begin() -> None:
        nonlocal show
        with lock:
            if not ended:
                show = bar.enter_context(progress_bar(task))

    def report(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            if show is not None:
                show(Progress(done, None, "bytes"))

    timer = Timer(_SLOW_SECONDS, begin)
    timer.daemon = True
    with ExitStack() as bar:
        timer.start()
        try:
            yield report
        finally:
            timer.cancel()
            with lock:
                ended = True


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _in_cell(task: str, started: float) -> OnProgress:
    """Show a bar of HTML below the cell, which needs no widgets. The last state stays in the notebook."""
    from html import escape

    display: Any = sys.modules["IPython"].display

    def drawn(now: Progress | None) -> Any:
        if now is None or now.total is None:
            attributes = ""
        else:
            attributes = f" max='{max(now.total, 1)}' value='{now.done}'"
        text = "" if now is None else _described(now, started)
        return display.HTML(f"{escape(task)} <progress{attributes}></progress> {escape(text)}")

    handle = display.display(drawn(None), display_id=True)
    return lambda now: handle.update(drawn(now))


def _described(now: Progress, started: float) -> str:
    """Return `12/240 samples  31/s  2 errors`."""
    seconds = max(time.monotonic() - started, 1e-9)
    if now.unit == "bytes":
        finished, total, rate = size(now.done), size(now.total or 0), size(now.done / seconds)
    else:
        finished, total, rate = f"{now.done:,}", f"{now.total or 0:,}", f"{now.done / seconds:,.0f}"
    of_all = "" if now.total is None else f"/{total}"
    unit = "" if now.unit == "bytes" else f" {now.unit}"
    errors = f"  {count(now.errors, 'error')}" if now.errors else ""
    if now.parts is not None:
        errors = f"  {size(now.bytes / seconds)}/s{errors}"
        unit += f"  {now.parts[0]:,}/{now.parts[1]:,} parts"
        if now.retries:
            errors += f"  {now.retries:,} {'retry' if now.retries == 1 else 'retries'}"
    return f"{finished}{of_all}{unit}  {rate}/s{errors}"
