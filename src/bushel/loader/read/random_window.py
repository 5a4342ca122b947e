"""`RandomWindow`: a window of each sample, another one in every epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from bushel._dataset.read.columns import check_has_elements, element_counts
from bushel._dataset.read.windows import PAD
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import reader_of, whole_positions, windows_of
from bushel._index.elements import Ranges
from bushel._runtime.arrays import I64
from bushel._runtime.order import WINDOWS
from bushel._runtime.permutation import derive, hash_words
from bushel._runtime.public import did_you_mean, public
from bushel.errors import SpecError
from bushel.loader.options import check_count

_MOST = 1 << 31


@public("bushel.loader")
@dataclass(frozen=True, slots=True)
class RandomWindow:
    """One window of each sample, another one in every epoch, for `fields=` of a Loader.

    Where it starts is a pure function of (seed, epoch, sample, name of the field), which
    docs/order.md specifies. Every possible start is equally likely. Only the bytes of the window
    are read, of a clip those from the keyframe before it.

    Attributes:
        length: Number of elements in the window.
        step: Distance of its elements: 4 takes every fourth.
        like: Another field with a random window, at whose start this one starts, too; both fields
            have equally many elements. None to draw its own.
        pad: Whether samples with fewer elements are allowed. Their last element then fills the
            window up, and the batches have another field, `frames_is_pad` of bool[length], that
            says where. Otherwise such a sample is a bad sample.

    Examples:
        >>> from bushel.loader import RandomWindow
        >>> with bushel.Writer("clips.tar", {"frames": "jpg[]", "label": "int"}) as writer:
        ...     print(writer.append({"frames": [np.zeros((16, 16, 3), np.uint8)] * 9, "label": 1}))
        0
        >>> fields = {"frames": RandomWindow(4, step=2), "label": True}
        >>> [len(batch["frames"][0]) for batch in bushel.Loader(bushel.open("clips.tar"), 1, fields=fields)]
        [4]
    """

    length: int
    step: int = 1
    like: str | None = None
    pad: bool = False

    def __post_init__(self) -> None:
        check_count("length", self.length, least=1, most=_MOST)
        check_count("step", self.step, least=1, most=_MOST)
        if self.like is not None and not isinstance(self.like, str):
            raise TypeError(f"like={self.like!r}: expected the name of a field, or None")

    @property
    def span(self) -> int:
        """Number of elements from the first to the last one of a window."""
        return (self.length - 1) * self.step + 1

    @property
    def offsets(self) -> I64:
        """The elements of a window, counted from its first one: int64[length]."""
        return np.arange(self.length, dtype=np.int64) * self.step


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


@dataclass(frozen=True)
class RandomWindows:
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
    def of(cls, dataset: Any, fields: Any, seed: int) -> tuple[Any, RandomWindows | None]:
        """Return `fields=` without random windows, and these windows, or None if it has no random windows.

        Raises:
            TypeError: A field has no elements, or the dataset no index.
            ValueError: Windows contradict each other, or a name is taken.
            KeyError: The index does not say how many elements samples have.
        """
        elements_of_fields = fields.items() if isinstance(fields, Mapping) else ()
        windows = {
            name: window for name, window in elements_of_fields if isinstance(window, RandomWindow)
        }
        if not windows:
            return fields, None
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"RandomWindow needs an index, which {type(dataset).__name__} does not have"
            )
        windows_of_view = windows_of(dataset)
        for name, window in windows.items():
            if windows_of_view is not None and name in windows_of_view.shape.offsets:
                raise TypeError(
                    f"field {name!r} is read in windows already: leave RandomWindow out"
                )
            check_has_elements(reader_of(dataset), name, "RandomWindow")
            if window.pad and name + PAD in dataset.spec:
                raise ValueError(
                    f"the window of {name!r} would have a field {name + PAD!r},"
                    " which the dataset has"
                )
            if window.like is not None:
                _check_like(name, window, windows)
        drawn = cls(dataset, windows, seed)
        if len(dataset):
            # raises if the index lacks the lengths
            drawn.ranges(0, np.zeros(1, np.int64), checked=False)
        return {
            name: slice(None) if name in windows else elements
            for name, elements in elements_of_fields
        }, drawn

    @cached_property
    def _ordered(self) -> Sequence[str]:
        """The fields, those that others start like before those."""
        return sorted(self.windows, key=lambda name: self.windows[name].like is not None)

    def ranges(
        self, epoch: int, numbers: I64, draws: I64 | None = None, *, checked: bool = True
    ) -> dict[str, Ranges]:
        """Return the elements of samples.

        Args:
            epoch: Number of the epoch.
            numbers: int64[n], positions in the dataset.
            draws: int64[n], what the windows depend on, if not on these positions.
            checked: Whether all samples must have enough elements.

        Raises:
            SpecError: A sample has fewer elements than a window, or another number than the field
                that it is like.
        """
        ranges: dict[str, Ranges] = {}
        whole = whole_positions(self.dataset, numbers)
        for name in self._ordered:
            window = self.windows[name]
            counts = element_counts(reader_of(self.dataset), whole, name)
            if checked:
                self._check(
                    name, counts, numbers, None if window.like is None else ranges[window.like]
                )
            if window.like is None:
                choices = np.maximum(counts - window.span + 1, 1)
                start = draw_starts(
                    self.seed, epoch, numbers if draws is None else draws, name, choices
                )
            else:
                start = ranges[window.like].start
            ranges[name] = Ranges(start, window.offsets, np.maximum(counts, 1))
        return ranges

    def mask(self, fields: Any, epoch: int, numbers: I64, draws: I64 | None) -> Any:
        """Return the elements to read of samples, given the fields to read."""
        return {
            **fields,
            **{
                name: elements
                for name, elements in self.ranges(epoch, numbers, draws).items()
                if name in fields
            },
        }

    def add_pads(self, samples: Sequence[Any], epoch: int, numbers: I64, draws: I64 | None) -> None:
        """Add the fields that say which elements fill windows up. Samples are changed in place."""
        if not any(window.pad for window in self.windows.values()):
            return
        for name, ranges in self.ranges(epoch, numbers, draws).items():
            for sample, outside in zip(samples, ranges.outside(), strict=True):
                if self.windows[name].pad and name in sample:
                    sample[name + PAD] = outside

    def _check(self, name: str, counts: I64, numbers: I64, like: Ranges | None) -> None:
        window = self.windows[name]
        if window.pad:
            short = counts == 0
        else:
            short = (counts >= 0) & (counts < window.span)
        if short.any():
            place = int(np.flatnonzero(short)[0])
            raise SpecError(
                f"sample {self.dataset.keys[int(numbers[place])]!r} has {counts[place]} elements"
                f" of {name!r}, and "
                f"the window takes {window.span}: give pad=True, which repeats the last one, or"
                " leave the sample out"
            )
        if like is not None and (unlike := (counts >= 0) & (counts != like.counts)).any():
            place = int(np.flatnonzero(unlike)[0])
            raise SpecError(
                f"sample {self.dataset.keys[int(numbers[place])]!r} has {counts[place]} elements"
                f" of {name!r} and "
                f"{like.counts[place]} of {window.like!r}: windows that start together need as many"
            )


def _check_like(name: str, own: RandomWindow, windows: Mapping[str, RandomWindow]) -> None:
    """Check that the field that a window is like has a window of its own, which reaches as far."""
    other = windows.get(own.like or "")
    if other is None or other.like is not None:
        leading = [leader for leader, window in windows.items() if window.like is None]
        meant = did_you_mean(own.like or "", leading) or (
            f"expected one of {', '.join(map(repr, leading)) or 'none'}"
        )
        raise ValueError(
            f"like={own.like!r} of {name!r} names no field with a RandomWindow of its own: {meant}"
        )
    if own.span > other.span and not own.pad:
        raise ValueError(
            f"the window of {name!r} takes {own.span} elements, and the window of {own.like!r},"
            " where it starts, "
            f"{other.span}: draw the longer one, and let the other be like it"
        )
