"""Progress of a long run, as it is passed to `progress=` callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["OnProgress", "Progress", "ProgressReporter"]

_INTERVAL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `pack`, `convert`, `split`, `merge`, `index`, `verify` and `repair` all report it.

    Attributes:
        done: Number of units that are finished.
        total: Number of units of the whole run; None if it is unknown, as for a stream.
        unit: What `done` and `total` count.
        samples: Number of samples processed so far; 0 where they are not counted.
        bytes: Bytes written, or, by `verify` and `index`, bytes read so far.
        errors: Number of bad samples, or of problems, found so far.
        parts: Number of finished parts and of all parts of the run; None if it has no parts.
        retries: Number of attempts that were tried again.
        stragglers: Number of parts that were started a second time because they were slow.
    """

    done: int
    total: int | None
    unit: Literal["samples", "bytes", "shards"]
    samples: int = 0
    bytes: int = 0
    errors: int = 0
    parts: tuple[int, int] | None = None
    retries: int = 0
    stragglers: int = 0


OnProgress = Callable[[Progress], None]
"""A `progress=` callback. It is called in the thread that called the function, some times per second at most."""


class ProgressReporter:
    """Passes progress to a callback, at most ten times per second.

    Args:
        callback: The `progress=` argument.
    """

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
