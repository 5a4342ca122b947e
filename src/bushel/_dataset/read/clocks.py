"""When the elements of fields are, in seconds: at a rate, by time stamps, or by the packets of clips. Pure: no I/O."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import F64, I64

_SLACK = 1e-6
"""Part of the distance of two elements at a rate by which sums of seconds may be wrong; of stamps, in seconds."""


class Clock(Struct, frozen=True, eq=False):
    """The times of the elements of one value, which follow each other. An element lasts until the next one."""

    count: int  # number of elements, at least 1
    first: float  # seconds, the time of the first one
    end: float  # seconds, when the last one is over
    slack: float  # seconds by which a time may be wrong, since times are rounded

    @abstractmethod
    def times(self, numbers: I64) -> F64:
        """Return when elements begin, in seconds: float64[n]. Numbers are below `count`."""

    @abstractmethod
    def shown(self, seconds: F64) -> I64:
        """Return the last element that begins at or before each time: int64[n], -1 before the first one."""

    @property
    def gap(self) -> float:
        """The mean distance of two elements, in seconds."""
        return (self.end - self.first) / self.count

    def nearest(self, seconds: F64) -> I64:
        """Return the element whose time is nearest to each time: int64[n]. The earlier of two that are equally near."""
        before = np.clip(self.shown(seconds), 0, self.count - 1)
        after = np.minimum(before + 1, self.count - 1)
        is_after = self.times(after) - seconds < seconds - self.times(before) - self.slack
        nearest: I64 = np.where(is_after, after, before)
        return nearest

    def first_from(self, seconds: float) -> int:
        """Return the first element that begins at a time or later; `count` if all begin before it."""
        shown = int(self.shown(np.array([seconds]))[0])
        if shown >= 0 and self.times(np.array([shown]))[0] >= seconds - self.slack:
            return shown
        return shown + 1


class Steady(Clock, frozen=True, eq=False):
    """Elements at a rate, the first one at 0 seconds."""

    rate: float  # elements in a second

    @classmethod
    def of(cls, count: int, rate: float) -> Steady:
        """Return the clock of a number of elements."""
        return cls(count, 0.0, count / rate, _SLACK / rate, rate)

    def times(self, numbers: I64) -> F64:
        """Return when elements begin."""
        return numbers / self.rate

    def shown(self, seconds: F64) -> I64:
        """Return the last element that begins at or before each time."""
        numbers = np.floor(seconds * self.rate + _SLACK)
        return np.clip(numbers, -1, self.count - 1).astype(np.int64)


class Stamped(Clock, frozen=True, eq=False):
    """Elements with a time stamp each."""

    stamps: F64  # float64[count], seconds, ascending

    @classmethod
    def of(cls, stamps: F64, slack: float = _SLACK) -> Stamped:
        """Return the clock of elements with these stamps. The last one lasts as long as the one before it."""
        last = stamps[-1]
        end = last + (last - stamps[-2] if len(stamps) > 1 else 0)
        return cls(len(stamps), float(stamps[0]), max(float(end), last + 2 * slack), slack, stamps)

    def times(self, numbers: I64) -> F64:
        """Return when elements begin."""
        return self.stamps[numbers]

    def shown(self, seconds: F64) -> I64:
        """Return the last element that begins at or before each time."""
        shown: I64 = np.searchsorted(self.stamps, seconds + self.slack, side="right") - 1
        return shown
