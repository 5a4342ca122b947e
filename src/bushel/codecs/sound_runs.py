"""The requested frames of a sound: find runs of neighbours, which are decoded together, and choose from these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bushel._runtime.arrays import F32, I64
from bushel.codecs.frames import choose


def wanted_frames(elements: slice | I64, count: int) -> range | I64:
    """Return the numbers of the requested frames of a sound of `count` frames; a range if they follow each other.

    Raises:
        IndexError: A frame is out of range.
    """
    if isinstance(elements, slice):
        start, stop, step = elements.indices(count)
        if step == 1:
            return range(start, max(start, stop))
    numbers = choose(elements, count, "a sound", "frames")
    if (
        len(numbers)
        and numbers[-1] - numbers[0] == len(numbers) - 1
        and (np.diff(numbers) == 1).all()
    ):
        return range(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers


def near_runs(numbers: range | I64, near: int) -> list[tuple[int, int]]:
    """Return the first and last of the requested frames that are at most `near` frames apart, ascending."""
    if not len(numbers):
        return []
    if isinstance(numbers, range):
        return [(numbers[0], numbers[-1])]
    ascending = numbers if (np.diff(numbers) >= 0).all() else np.sort(numbers)
    runs = np.split(ascending, np.flatnonzero(np.diff(ascending) > near) + 1)
    return [(int(run[0]), int(run[-1])) for run in runs]


def take_frames(
    found: Sequence[F32], starts: Sequence[int], numbers: range | I64, channels: int
) -> F32:
    """Return the requested frames of a sound: float32[frames, channels].

    Args:
        found: Decoded runs, float32[frames, channels], which have all requested frames.
        starts: The number of the first frame of each run, ascending.
        numbers: The requested frames.
        channels: Number of channels.
    """
    if not len(numbers):
        return np.zeros((0, channels), np.float32)
    if isinstance(numbers, range):  # one run has them
        frames: F32 = found[0][numbers.start - starts[0] : numbers.stop - starts[0]]
        return frames
    begins = np.array(starts, np.int64)
    lengths = np.array([len(run_frames) for run_frames in found], np.int64)
    run = np.searchsorted(begins, numbers, side="right") - 1
    places = numbers - begins[run] + (np.cumsum(lengths) - lengths)[run]
    chosen: F32 = (found[0] if len(found) == 1 else np.concatenate(found))[places]
    return chosen
