"""`RandomWindow`: a window of each sample, another one in every epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from msgspec import Struct

from bushel._dataset.read.columns import check_has_elements, element_counts
from bushel._dataset.read.window_reader import FieldTimelines
from bushel._dataset.read.windows import PAD, Timeline, WindowShape, elements_in_time, room_in_time
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.make_windows import Pick, shape_of_picks
from bushel._index.elements import Ranges
from bushel._runtime.arrays import I64, check_count, refuse_bools
from bushel._runtime.messages import log_warning
from bushel._runtime.order import WINDOWS, derive, hash_words
from bushel._runtime.public import meant, public
from bushel.errors import SpecError

_MOST = 1 << 31


@public("bushel.loader")
class RandomWindow(Struct, frozen=True):
    """One window of each sample, another one in every epoch, for `fields=` of a Loader.

    Where it starts is a pure function of (seed, epoch, sample, name of the field), which
    docs/order.md specifies. Every possible start is equally likely. Only the bytes of the window
    are read, of a clip those from the keyframe before it.

    Attributes:
        length: Number of elements in the window.
        step: Distance of its elements: 4 takes every fourth.
        like: Another field with a random window, at whose start this one starts, too; both fields
            have equally many elements, or times. None to draw its own.
        pad: Whether samples with fewer elements are allowed. Their last element then fills the
            window up, and the batches have another field, `frames_is_pad` of bool[length], that
            says where. Otherwise such a sample is a bad sample.
        seconds: Seconds that the window takes, instead of a length.
        fps: Elements in a second: `RandomWindow(16, fps=8)` has the frames that a player shows at
            0, 1/8, 2/8 … seconds after its start, at any rate of the clip itself.
        times: When the elements are: their rate in Hz, or the field that has their time stamps in
            seconds. Clips have times of their own, and other fields have the times of `like`.
        take: How elements are chosen by time: "shown" (the last one at or before each time; the
            default for clips), "nearest" (the default for others), or with `like` "all" that begin
            in its window (docs/loading-orders.md).

    Examples:
        >>> from bushel.loader import RandomWindow
        >>> with bushel.Writer("clips.tar", {"frames": "jpg[]", "label": "int"}) as writer:
        ...     print(writer.append({"frames": [np.zeros((16, 16, 3), np.uint8)] * 9, "label": 1}))
        0
        >>> fields = {"frames": RandomWindow(4, step=2), "label": True}
        >>> [len(batch["frames"][0]) for batch in bushel.Loader(bushel.open("clips.tar"), 1, fields=fields)]
        [4]
    """

    length: int | None = None
    step: int = 1
    like: str | None = None
    pad: bool = False
    seconds: float | None = None
    fps: float | None = None
    times: float | str | None = None
    take: str | None = None

    def __post_init__(self) -> None:
        if self.length is not None:
            check_count("length", self.length, least=1, most=_MOST)
        check_count("step", self.step, least=1, most=_MOST)
        refuse_bools(times=self.times)
        if self.like is not None and not isinstance(self.like, str):
            raise TypeError(f"like={self.like!r}: expected the name of a field, or None")
        if self.pick.is_measured or self.like is None:
            self.pick.offsets()

    @property
    def pick(self) -> Pick:
        """How its elements are chosen by time."""
        return Pick(self.length, self.step, self.seconds, self.fps, self.times, self.take)

    @property
    def is_timed(self) -> bool:
        """Whether its elements are chosen by their times."""
        return not self.seconds is self.fps is self.times is self.take is None

    @property
    def offsets(self) -> I64:
        """The elements of a window without times, counted from its first one: int64[length]."""
        return np.arange(self.length or 1) * self.step

    @property
    def span(self) -> int:
        """Number of elements from the first to the last one of a window without times."""
        return int(self.offsets[-1]) + 1


def draw_starts(seed: int, epoch: int, samples: I64, field: str, choices: I64) -> I64:
    """Return where random windows start: int64[n], each at least 0 and below its number of choices.

    Args:
        seed: The seed.
        epoch: Number of the epoch.
        samples: int64[n], positions of samples.
        field: Name of the field.
        choices: int64[n], 1 to 2**32 - 1.
    """
    key = derive(1, WINDOWS, seed, epoch, crc32(field.encode()))
    upper = hash_words(samples, key) >> np.uint64(32)
    return ((upper * choices.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


Fields: TypeAlias = (
    "Iterable[str] | Mapping[str, bool | slice | Iterable[int] | RandomWindow] | None"
)
"""The fields to read: names, or a mapping to True, False, elements of a sequence, or a `RandomWindow`. None: all."""


class RandomWindows(Struct, frozen=True, dict=True):
    """The random windows of a loader's fields.

    Attributes:
        dataset: The dataset.
        windows: The window of each field that has one.
        seed: The seed.
    """

    dataset: Dataset
    windows: Mapping[str, RandomWindow]
    seed: int

    @classmethod
    def of(
        cls, dataset: Any, fields: Mapping[str, Any], seed: int
    ) -> tuple[Mapping[str, Any], RandomWindows | None]:
        """Return `fields=` without random windows, and these windows, or None if it has no random windows.

        Raises:
            TypeError: A field has no elements, or the dataset no index.
            ValueError: Windows contradict each other, or a name is taken.
            KeyError: The index does not say how many elements samples have.
            SpecError: Nothing says when the elements of a field are.
        """
        windows = {
            name: window for name, window in fields.items() if isinstance(window, RandomWindow)
        }
        if not windows:
            return fields, None
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"RandomWindow needs an index, which {type(dataset).__name__} does not have"
            )
        reader = dataset.reader
        for name, window in windows.items():
            if reader.windows is not None and name in reader.windows.shape.offsets:
                raise TypeError(
                    f"field {name!r} is read in windows already: leave RandomWindow out"
                )
            check_has_elements(reader.base, name, "RandomWindow")
            if window.pad and name + PAD in dataset.spec:
                raise ValueError(
                    f"the window of {name!r} would have a field "
                    f"{name + PAD!r}, which the dataset has"
                )
            if window.like is not None:
                _check_like(name, window, windows)
            if len(dataset):
                # raises if the index lacks the lengths
                first = reader.samples(dataset.selection.absolute(np.zeros(1, np.int64)))
                element_counts(reader.base, first, name)
        drawn = cls(dataset, windows, seed)
        if len(leading := list(drawn.groups)) > 1:
            log_warning(
                "the windows of %s start at random apart from each other: like=%r draws them together",
                " and ".join(map(repr, leading)),
                leading[0],
            )
        return {
            name: slice(None) if name in windows else elements for name, elements in fields.items()
        }, drawn

    @cached_property
    def groups(self) -> Mapping[str, tuple[WindowShape | None, FieldTimelines | None]]:
        """The fields that draw windows, each with the shape and timelines of those that start with it, if timed."""
        groups: dict[str, tuple[WindowShape | None, FieldTimelines | None]] = {}
        for name, window in self.windows.items():
            if window.like is not None:
                continue
            group = {name: window.pick}
            group |= {
                other: follower.pick
                for other, follower in self.windows.items()
                if follower.like == name
            }
            groups[name] = None, None
            if any(self.windows[member].is_timed for member in group):
                shape = shape_of_picks(self.dataset.reader.base, name, group, window.pad)
                assert shape.time is not None
                groups[name] = shape, FieldTimelines(self.dataset.reader.base, shape.time.sources)
        return groups

    def ranges(self, epoch: int, numbers: I64, draws: I64) -> dict[str, Ranges]:
        """Return the elements of samples.

        Args:
            epoch: Number of the epoch.
            numbers: int64[n], positions in the dataset.
            draws: int64[n], what the windows depend on: these positions, unless samples repeat.

        Raises:
            SpecError: A sample has fewer elements than a window, or another number than the field
                that it is like, or no time that all of its fields have.
        """
        ranges: dict[str, Ranges] = {}
        whole = self.dataset.reader.samples(self.dataset.selection.absolute(numbers))
        for name, (shape, timelines) in self.groups.items():
            if shape is None or timelines is None:
                ranges |= self._by_elements(name, epoch, numbers, whole, draws)
            else:
                of_samples = timelines.of(whole, shape.offsets)
                ranges |= self._in_time(shape, of_samples, epoch, numbers, draws)
        return ranges

    def _by_elements(
        self, leading: str, epoch: int, numbers: I64, whole: I64, draws: I64
    ) -> dict[str, Ranges]:
        base, ranges = self.dataset.reader.base, dict[str, Ranges]()
        counts = element_counts(base, whole, leading)
        self._check(leading, counts, numbers, None)
        choices = np.maximum(counts - self.windows[leading].span + 1, 1)
        starts = draw_starts(self.seed, epoch, draws, leading, choices)
        for name, window in self.windows.items():
            if name == leading or window.like == leading:
                own_counts = element_counts(base, whole, name)
                if name != leading:
                    self._check(name, own_counts, numbers, counts)
                ranges[name] = Ranges.regular(starts, window.offsets, np.maximum(own_counts, 1))
        return ranges

    def _in_time(
        self,
        shape: WindowShape,
        of_samples: Sequence[Mapping[str, Timeline]],
        epoch: int,
        numbers: I64,
        draws: I64,
    ) -> dict[str, Ranges]:
        rooms = []
        for number, timelines_of_sample in zip(numbers.tolist(), of_samples, strict=True):
            limits = {
                name: timeline
                for name, timeline in timelines_of_sample.items()
                if name == shape.field or not self.windows[name].pad
            }
            rooms.append(self._room(shape, limits, number, len(timelines_of_sample)))
        choices = np.array([len(room) for room in rooms], np.int64)
        drawn = draw_starts(self.seed, epoch, draws, shape.field, choices).tolist()
        elements = [
            elements_in_time(shape, timelines_of_sample, room.start + start, shape.offsets)
            for timelines_of_sample, room, start in zip(of_samples, rooms, drawn, strict=True)
        ]
        return {
            name: Ranges.joined([window[name] for window in elements]) for name in shape.offsets
        }

    def mask(self, fields: Any, epoch: int, numbers: I64, draws: I64) -> Any:
        """Return the elements to read of samples, given the fields to read."""
        ranges = self.ranges(epoch, numbers, draws)
        return {name: ranges.get(name, elements) for name, elements in fields.items()}

    def add_pads(self, samples: Sequence[Any], epoch: int, numbers: I64, draws: I64) -> None:
        """Add the fields that say which elements fill windows up. Samples are changed in place."""
        if not any(window.pad for window in self.windows.values()):
            return
        for name, ranges in self.ranges(epoch, numbers, draws).items():
            for place, sample in enumerate(samples):
                if self.windows[name].pad and name in sample:
                    sample[name + PAD] = ranges.flags(place)

    def _room(
        self, shape: WindowShape, timelines: Mapping[str, Timeline], number: int, fields: int
    ) -> range:
        """Return the elements at which the window of a sample may start."""
        key = self.dataset.keys[number]
        if fields < len(shape.offsets):
            raise SpecError(
                f"sample {key!r} lacks elements of "
                f"{' or '.join(map(repr, shape.offsets))}: leave the sample out"
            )
        try:
            room = room_in_time(shape, timelines).elements
        except ValueError as error:
            raise SpecError(f"sample {key!r} {error}") from None
        if not room:
            timeline = timelines[shape.field]
            raise SpecError(
                f"sample {key!r} has {timeline.count} elements of {shape.field!r} in "
                f"{timeline.end - timeline.first:g} seconds, and the window takes more than all "
                "fields have: give pad=True, which repeats the last one, or leave the sample out"
            )
        return room

    def _check(self, name: str, counts: I64, numbers: I64, like: I64 | None) -> None:
        window = self.windows[name]
        if window.pad:
            short = counts == 0
        else:
            short = (counts >= 0) & (counts < window.span)
        if short.any():
            place = int(np.flatnonzero(short)[0])
            raise SpecError(
                f"sample {self.dataset.keys[int(numbers[place])]!r} has {counts[place]} "
                f"elements of {name!r}, and the window takes {window.span}: give "
                "pad=True, which repeats the last one, or leave the sample out"
            )
        if like is not None and (unlike := (counts >= 0) & (counts != like)).any():
            place = int(np.flatnonzero(unlike)[0])
            raise SpecError(
                f"sample {self.dataset.keys[int(numbers[place])]!r} has "
                f"{counts[place]} elements of {name!r} and {like[place]} of "
                f"{window.like!r}: windows that start together need as many, or times="
            )


def _check_like(name: str, own: RandomWindow, windows: Mapping[str, RandomWindow]) -> None:
    """Check that the field that a window is like has a window of its own, which reaches as far."""
    other = windows.get(own.like or "")
    if other is None or other.like is not None:
        leading = [leader for leader, window in windows.items() if window.like is None]
        raise ValueError(
            f"like={own.like!r} of {name!r} names no field with a RandomWindow of its own: "
            f"{meant(own.like, leading)}"
        )
    if not own.is_timed and not other.is_timed and own.span > other.span and not own.pad:
        raise ValueError(
            f"the window of {name!r} takes {own.span} elements, and the window of {own.like!r}, "
            f"where it starts, {other.span}: draw the longer one, and let the other be like it"
        )
