"""Windows: elements of samples, as samples of their own. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, Array

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
    if not shape.span:
        every: I64 = -(-have // int(shape.hop))
        return every
    if not shape.pad:
        whole: I64 = np.maximum((have - shape.span) // shape.hop + 1, 0)
        return whole
    counts_there: I64 = np.where(
        have > 0, np.maximum(-(-(have - shape.span) // shape.hop), 0) + 1, 0
    )
    return counts_there


class Windows(Struct, frozen=True, eq=False):
    """The windows of the samples of a dataset, one sample after another."""

    shape: WindowShape  # their elements
    ends: I64  # int64[samples], the number of windows of each sample and those before it
    # where the first window of each sample starts, in elements or seconds as the hop; None for 0
    firsts: Array | None = None

    @classmethod
    def of(cls, shape: WindowShape, counts: I64) -> Windows:
        """Return the windows of samples with these numbers of elements."""
        return cls(shape, np.cumsum(window_counts(counts, shape)))

    @classmethod
    def joined(cls, several: Iterable[Windows]) -> Windows:
        """Return the windows of several datasets, one after another, which have the same shape."""
        parts = list(several)
        sizes = [np.diff(part.ends, prepend=0) for part in parts]
        firsts = [part.firsts for part in parts if part.firsts is not None]
        return cls(
            parts[0].shape,
            np.cumsum(np.concatenate(sizes)),
            np.concatenate(firsts) if firsts else None,
        )

    def __len__(self) -> int:
        if len(self.ends):
            return int(self.ends[-1])
        return 0

    def places(self, numbers: I64) -> tuple[I64, Array]:
        """Return the sample of each window, and where it starts: int64[n] each, or float64[n] in seconds."""
        samples: I64 = np.searchsorted(self.ends, numbers, side="right")
        first = np.where(samples > 0, self.ends[samples - 1], 0)
        starts = (numbers - first) * self.shape.hop
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
        """Return the number of the window of a sample whose key has this end, or None."""
        begin = int(self.ends[sample - 1]) if sample else 0
        first = 0 if self.firsts is None else self.firsts[sample]
        try:
            start = float(mark.removesuffix("s"))
            if not isinstance(self.shape.hop, float):
                start -= first
            number = begin + round(start / self.shape.hop)
        except (ValueError, OverflowError):
            return None
        if not begin <= number < self.ends[sample]:
            return None
        if self.marks(*self.places(np.array([number]))) == [mark]:
            return number
        return None

    @property
    def without(self) -> int:
        """Number of samples that have no window."""
        return int((np.diff(self.ends, prepend=0) == 0).sum())

    def digest(self) -> bytes:
        """Return a hash of the windows."""
        import hashlib  # which imports OpenSSL

        firsts = b"" if self.firsts is None else self.firsts.tobytes()
        facts = self.shape.described().encode() + self.ends.tobytes() + firsts
        return hashlib.sha256(facts).digest()
