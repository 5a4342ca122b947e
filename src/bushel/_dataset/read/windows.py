"""Windows: elements of samples, as samples of their own, by number or in time. Pure: no I/O.

The timeline of a value says when its elements are: at a rate, or by time stamps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import F64, I64, Array, Bools, offsets_of

PAD = "_is_pad"
"""Suffix of the field that marks the elements of another field that are filled up."""

Source = float | str | None
"""What says when the elements of a field are: a rate in Hz, a field of time stamps, or None for the clip itself."""


class TimeSpan(Struct, frozen=True, eq=False):
    """The interval of time that a window takes of all of its fields."""

    seconds: float  # its length; 0 if it lasts as long as the elements of the window's own field
    sources: Mapping[str, Source]  # what says when the elements of each field are
    # how the elements of each field are chosen: "shown" at given times, as by a player, "nearest" to
    # them, or "all" within the interval
    take: Mapping[str, str]


class WindowShape(Struct, frozen=True, eq=False):
    """The elements of a window."""

    field: str  # the field whose elements or times are counted
    # the elements of each field, counted from the one where the window starts: int64[k]; as
    # float64[k], the seconds from that time. None stands for the times of the elements of the
    # window's own field, or with "all" for all elements of the interval
    offsets: Mapping[str, Array | None]
    # elements from the start of one window to the start of the next; as a float, seconds
    hop: int | float
    # elements that a whole window takes up; 0 if windows start at every element and are clamped
    span: int
    # whether windows may reach beyond the elements, whose first or last one then takes their place
    pad: bool
    time: TimeSpan | None = None

    @property
    def pads(self) -> dict[str, str]:
        """The names of the fields that mark elements that are filled up: name to field."""
        if self.pad:
            return {name + PAD: name for name in self.offsets}
        return {}

    def size(self, name: str) -> int | None:
        """Return the number of elements that every window has of a field; None if it differs."""
        offsets, time = self.offsets[name], self.time
        if offsets is not None:
            return len(offsets)
        if time is None:
            return None
        if time.take[name] != "all":
            if name == self.field:
                return None
            return self.size(self.field)
        rate = time.sources[name]
        if isinstance(rate, float) and time.seconds:
            return elements_within(time.seconds, rate)
        return None

    def available(self, name: str) -> bool | range | None:
        """Return the range of elements that a window has of a field, or True; None if it has the same as samples."""
        if name in self.offsets:
            size = self.size(name)
            if size is None:
                return True
            return range(size)
        return True if name in self.pads else None

    def described(self) -> str:
        """Return the shape as text, for fingerprints: windows of the same text are made in the same way."""
        offsets = {
            name: None if numbers is None else numbers.tolist()
            for name, numbers in self.offsets.items()
        }
        facts: list[Any] = [self.field, offsets, self.hop, self.span, self.pad]
        if self.time is not None:
            facts.append((self.time.seconds, dict(self.time.sources), dict(self.time.take)))
        return repr(tuple(facts))

    def __str__(self) -> str:
        sizes = [size for name in self.offsets if (size := self.size(name)) is not None]
        lengths = ""
        if sizes:
            lengths = " to ".join(map(str, sorted({min(sizes), max(sizes)}))) + " "
        every = f"{self.hop}"
        if isinstance(self.hop, float):
            every = f"{self.hop:g} seconds"
        return f"windows of {lengths}{', '.join(self.offsets)}, one every {every}"


def elements_within(seconds: float, rate: float) -> int:
    """Return how many elements at a rate any interval of some seconds has at least."""
    return int(seconds * rate + 1e-6)


def window_counts(counts: I64, shape: WindowShape) -> I64:
    """Return the number of windows of samples, given their numbers of elements: int64[n] to int64[n]."""
    have: I64 = np.maximum(counts, 0)
    # windows that start at every element take up one
    after_first, hop = have - max(shape.span, 1), int(shape.hop)
    if shape.pad and shape.span:
        return np.where(have > 0, np.maximum(-(-after_first // hop), 0) + 1, 0)
    return np.maximum(after_first // hop + 1, 0)


class Windows(Struct, frozen=True, eq=False):
    """The windows of the samples of a dataset, one sample after another."""

    shape: WindowShape  # their elements
    begins: I64  # int64[samples + 1], the first window of each sample, and the number of all
    # where the first window of each sample starts, in elements or seconds as the hop; None for 0
    firsts: Array | None = None

    @classmethod
    def of(cls, shape: WindowShape, counts: I64) -> Windows:
        """Return the windows of samples with these numbers of elements."""
        return cls(shape, offsets_of(window_counts(counts, shape)))

    @classmethod
    def joined(cls, several: Iterable[Windows]) -> Windows:
        """Return the windows of several datasets, one after another, which have the same shape."""
        parts = list(several)
        counts = [np.diff(part.begins) for part in parts]
        firsts = [part.firsts for part in parts if part.firsts is not None]
        return cls(
            parts[0].shape,
            offsets_of(np.concatenate(counts)),
            np.concatenate(firsts) if firsts else None,
        )

    def __len__(self) -> int:
        return int(self.begins[-1])

    def places(self, numbers: I64) -> tuple[I64, Array]:
        """Return the sample of each window, and where it starts: int64[n] each, or float64[n] in seconds."""
        samples: I64 = self.begins.searchsorted(numbers, side="right") - 1
        starts = (numbers - self.begins[samples]) * self.shape.hop
        if self.firsts is not None:
            starts = starts + self.firsts[samples]
        return samples, starts

    def marks(self, samples: I64, starts: Array) -> list[str]:
        """Return the ends of keys of windows: `48` for element 48, `2.5s` for 2.5 seconds after the first window."""
        if not isinstance(self.shape.hop, float):
            return [str(start) for start in starts.tolist()]
        if self.firsts is not None:
            starts = starts - self.firsts[samples]
        return [f"{start:.6f}".rstrip("0").rstrip(".") + "s" for start in starts.tolist()]

    def find(self, sample: int, mark: str) -> int | None:
        """Return the number of the window of a sample whose key may have this end, or None."""
        begin, end = self.begins[sample : sample + 2].tolist()
        try:
            start = float(mark.removesuffix("s"))
            if self.firsts is not None and not isinstance(self.shape.hop, float):
                start -= self.firsts[sample]
            number = begin + round(start / self.shape.hop)
        except (ValueError, OverflowError):
            return None
        return number if begin <= number < end else None

    @property
    def without(self) -> int:
        """Number of samples that have no window."""
        return int((np.diff(self.begins) == 0).sum())

    def digest(self) -> bytes:
        """Return a hash of the windows."""
        import hashlib  # which imports OpenSSL

        firsts = b"" if self.firsts is None else self.firsts.tobytes()
        facts = self.shape.described().encode() + self.begins[1:].tobytes() + firsts
        return hashlib.sha256(facts).digest()


_SLACK = 1e-6
"""Part of the distance of two elements at a rate by which sums of seconds may be wrong; of stamps, in seconds."""


class Timeline(Struct, frozen=True, eq=False):
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


class Steady(Timeline, frozen=True, eq=False):
    """Elements at a rate, the first one at 0 seconds."""

    rate: float  # elements in a second

    @classmethod
    def of(cls, count: int, rate: float) -> Steady:
        """Return the timeline of a number of elements."""
        return cls(count, 0.0, count / rate, _SLACK / rate, rate)

    def times(self, numbers: I64) -> F64:
        """Return when elements begin."""
        return numbers / self.rate

    def shown(self, seconds: F64) -> I64:
        """Return the last element that begins at or before each time."""
        numbers = np.floor(seconds * self.rate + _SLACK)
        return np.clip(numbers, -1, self.count - 1).astype(np.int64)


class Stamped(Timeline, frozen=True, eq=False):
    """Elements with a time stamp each."""

    stamps: F64  # float64[count], seconds, ascending

    @classmethod
    def of(cls, stamps: F64, slack: float = _SLACK) -> Stamped:
        """Return the timeline of elements with these stamps. The last one lasts as long as the one before it."""
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


def room_in_time(shape: WindowShape, timelines: Mapping[str, Timeline]) -> Room:
    """Return where the windows of a sample may start: from where all fields have begun until one of them ends.

    A field is there half the distance of its elements before the first one, since that one is the
    nearest then. Fields without a timeline may end earlier.

    Raises:
        ValueError: The fields have no time in common.
    """
    main = timelines[shape.field]
    rest = [timeline for name, timeline in timelines.items() if name != shape.field]
    first = max(
        [main.first, *(timeline.first - timeline.gap / 2 - timeline.slack for timeline in rest)]
    )
    end = min([main.end, *(timeline.end + timeline.gap / 2 for timeline in rest)])
    if first >= end:
        spans = (
            f"{name!r} {timeline.first:g} to {timeline.end:g} s"
            for name, timeline in timelines.items()
        )
        raise ValueError(f"has no time that all fields have: {', '.join(spans)}")
    if shape.pad:
        first, end = main.first, main.end
    stop = end - main.slack
    if shape.offsets[shape.field] is None and shape.time is not None:
        stop = end - shape.time.seconds + 2 * main.slack
    for name, timeline in timelines.items():
        offsets = shape.offsets[name]
        if offsets is not None and offsets.dtype.kind == "f":
            stop = min(stop, end - float(offsets.max()) - main.slack)
        elif offsets is not None:
            last = timeline.count - 1 - int(offsets.max())  # the last element that may be the first
            limit = timeline.first
            if last >= 0:
                limit = float(timeline.times(np.array([last]))[0]) + 2 * timeline.slack
            stop = min(stop, limit)
    begin = main.first_from(first)
    return Room(first, stop, range(begin, max(main.first_from(stop), begin + shape.pad)))


def first_and_count(shape: WindowShape, timelines: Mapping[str, Timeline]) -> tuple[float, int]:
    """Return where the first window of a sample starts, in elements or seconds as the hop, and the number of windows.

    Raises:
        ValueError: The fields have no time in common.
    """
    room, main = room_in_time(shape, timelines), timelines[shape.field]
    if not isinstance(shape.hop, float):
        if shape.pad:
            return 0, int(window_counts(np.array([main.count]), shape)[0])
        return room.elements.start, -(-len(room.elements) // shape.hop)
    if shape.pad and shape.time is not None:
        beyond = main.end - main.first - shape.time.seconds - 2 * main.slack
        return room.first, max(int(np.ceil(beyond / shape.hop)), 0) + 1
    return room.first, max(int(np.ceil((room.stop - room.first) / shape.hop)), 0)


def elements_in_time(
    shape: WindowShape, timelines: Mapping[str, Timeline], start: float, names: Collection[str]
) -> dict[str, tuple[I64, Bools]]:
    """Return the elements that a window has of fields, and which of these stand for others that are outside.

    Args:
        shape: The windows.
        timelines: The timelines of the window's own field and of `names`.
        start: Where the window starts, in elements of its own field or in seconds, as the hop.
        names: The fields.
    """
    assert shape.time is not None
    main, main_offsets, take = timelines[shape.field], shape.offsets[shape.field], shape.time.take
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
            elements[name] = _within(timelines[name], begin, seconds)
        else:
            from_begin = instants - begin if offsets is None else offsets
            elements[name] = _chosen(timelines[name], from_begin, begin, take[name])
    return elements


def _clamped(timeline: Timeline, numbers: I64) -> tuple[I64, Bools]:
    inside: I64 = np.clip(numbers, 0, timeline.count - 1)
    return inside, inside != numbers


def _within(timeline: Timeline, begin: float, seconds: float) -> tuple[I64, Bools]:
    """Return all elements that begin in an interval; at a rate, as many as every interval of this length has."""
    first = timeline.first_from(begin)
    stop = timeline.first_from(begin + seconds)
    if isinstance(timeline, Steady):
        stop = first + elements_within(seconds, timeline.rate)
    return _clamped(timeline, np.arange(first, stop))


def _chosen(timeline: Timeline, offsets: Array, begin: float, take: str) -> tuple[I64, Bools]:
    """Return the elements that are shown some seconds after a time, or nearest to that, or at offsets from there."""
    if offsets.dtype.kind == "i":
        return _clamped(timeline, int(timeline.nearest(np.array([begin]))[0]) + offsets)
    seconds = begin + offsets
    if take == "shown":
        numbers = timeline.shown(seconds)
        outside: Bools = (numbers < 0) | (seconds >= timeline.end - timeline.slack)
        inside: I64 = np.maximum(numbers, 0)
        return inside, outside
    early, late = timeline.first - timeline.gap / 2, timeline.end - timeline.gap / 2
    outside = (seconds < early - timeline.slack) | (seconds > late + timeline.slack)
    return timeline.nearest(seconds), outside
