"""Windows in time: when the elements of values are, where windows may start, and which elements they have.

The clock of a value says when its elements are: at a rate, or by time stamps. Pure: no I/O.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import F64, I64, Array, Bools

from .windows import WindowShape, elements_within, window_counts

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


class Room(Struct, frozen=True):
    """Where the windows of one sample may start: at times at or after `first` and before `stop`."""

    first: float  # seconds
    stop: float  # seconds
    elements: range  # the elements of the window's own field at which a window may start


def room_in_time(shape: WindowShape, clocks: Mapping[str, Clock]) -> Room:
    """Return where the windows of a sample may start: from where all fields have begun until one of them ends.

    A field is there half the distance of its elements before the first one, since that one is the
    nearest then. Fields without a clock may end earlier.

    Raises:
        ValueError: The fields have no time in common.
    """
    main = clocks[shape.field]
    rest = [clock for name, clock in clocks.items() if name != shape.field]
    first = max([main.first, *(clock.first - clock.gap / 2 - clock.slack for clock in rest)])
    end = min([main.end, *(clock.end + clock.gap / 2 for clock in rest)])
    if first >= end:
        spans = (f"{name!r} {clock.first:g} to {clock.end:g} s" for name, clock in clocks.items())
        raise ValueError(f"has no time that all fields have: {', '.join(spans)}")
    if shape.pad:
        first, end = main.first, main.end
    stop = end - main.slack
    if shape.offsets[shape.field] is None and shape.time is not None:
        stop = end - shape.time.seconds + 2 * main.slack
    for name, clock in clocks.items():
        offsets = shape.offsets[name]
        if offsets is not None and offsets.dtype.kind == "f":
            stop = min(stop, end - float(offsets.max()) - main.slack)
        elif offsets is not None:
            last = clock.count - 1 - int(offsets.max())  # the last element that may be the first
            limit = clock.first
            if last >= 0:
                limit = float(clock.times(np.array([last]))[0]) + 2 * clock.slack
            stop = min(stop, limit)
    begin = main.first_from(first)
    return Room(first, stop, range(begin, max(main.first_from(stop), begin + shape.pad)))


def first_and_count(shape: WindowShape, clocks: Mapping[str, Clock]) -> tuple[float, int]:
    """Return where the first window of a sample starts, in elements or seconds as the hop, and the number of windows.

    Raises:
        ValueError: The fields have no time in common.
    """
    room, main = room_in_time(shape, clocks), clocks[shape.field]
    if not isinstance(shape.hop, float):
        if shape.pad:
            return 0, int(window_counts(np.array([main.count]), shape)[0])
        return room.elements.start, -(-len(room.elements) // shape.hop)
    if shape.pad and shape.time is not None:
        beyond = main.end - main.first - shape.time.seconds - 2 * main.slack
        return room.first, max(int(np.ceil(beyond / shape.hop)), 0) + 1
    return room.first, max(int(np.ceil((room.stop - room.first) / shape.hop)), 0)


def elements_in_time(
    shape: WindowShape, clocks: Mapping[str, Clock], start: float, names: Collection[str]
) -> dict[str, tuple[I64, Bools]]:
    """Return the elements that a window has of fields, and which of these stand for others that are outside.

    Args:
        shape: The windows.
        clocks: The clocks of the window's own field and of `names`.
        start: Where the window starts, in elements of its own field or in seconds, as the hop.
        names: The fields.
    """
    assert shape.time is not None
    main, main_offsets, take = clocks[shape.field], shape.offsets[shape.field], shape.time.take
    begin = float(start)
    if not isinstance(shape.hop, float):
        begin = float(main.times(np.array([int(start)]))[0])
    elements: dict[str, tuple[I64, Bools]] = {}
    if main_offsets is None:
        elements[shape.field] = _within(main, begin, shape.time.seconds)
    else:
        elements[shape.field] = _chosen(main, main_offsets, begin, take[shape.field])
    seconds, numbers = shape.time.seconds, elements[shape.field][0]
    if not seconds:
        seconds = float(main.times(numbers[-1:])[0]) + main.gap - begin
    instants = main.times(numbers)
    if main_offsets is not None and main_offsets.dtype.kind == "f":
        instants = begin + main_offsets
    for name in names:
        if name == shape.field:
            continue
        offsets = shape.offsets[name]
        if take[name] == "all":
            elements[name] = _within(clocks[name], begin, seconds)
        else:
            from_begin = instants - begin if offsets is None else offsets
            elements[name] = _chosen(clocks[name], from_begin, begin, take[name])
    return elements


def _clamped(clock: Clock, numbers: I64) -> tuple[I64, Bools]:
    inside: I64 = np.clip(numbers, 0, clock.count - 1)
    return inside, inside != numbers


def _within(clock: Clock, begin: float, seconds: float) -> tuple[I64, Bools]:
    """Return all elements that begin in an interval; at a rate, as many as every interval of this length has."""
    first = clock.first_from(begin)
    stop = clock.first_from(begin + seconds)
    if isinstance(clock, Steady):
        stop = first + elements_within(seconds, clock.rate)
    return _clamped(clock, np.arange(first, stop))


def _chosen(clock: Clock, offsets: Array, begin: float, take: str) -> tuple[I64, Bools]:
    """Return the elements that are shown some seconds after a time, or nearest to that, or at offsets from there."""
    if offsets.dtype.kind == "i":
        return _clamped(clock, int(clock.nearest(np.array([begin]))[0]) + offsets)
    seconds = begin + offsets
    if take == "shown":
        numbers = clock.shown(seconds)
        outside: Bools = (numbers < 0) | (seconds >= clock.end - clock.slack)
        inside: I64 = np.maximum(numbers, 0)
        return inside, outside
    early, late = clock.first - clock.gap / 2, clock.end - clock.gap / 2
    outside = (seconds < early - clock.slack) | (seconds > late + clock.slack)
    return clock.nearest(seconds), outside
