"""Masks of elements of values, one for all samples or one for each sample. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Elements", "Ranges", "at_place", "neighbours"]

I64 = npt.NDArray[np.int64]


def neighbours(at: I64, offsets: I64, first: I64 | int, last: I64 | int) -> tuple[I64, npt.NDArray[np.bool_]]:
    """Return the elements at offsets from given ones, and which of them would lie outside of their sequence.

    Those are replaced by the first or the last element of the sequence, as LeRobot does.

    Args:
        at: int64[n], elements.
        offsets: int64[k], such as -1 for the element before.
        first: int64[n], the first element of the sequence of each, or one number for all.
        last: int64[n], the last element of the sequence of each, or one number for all.

    Returns:
        numbers: int64[n, k].
        outside: bool[n, k].
    """
    wanted = at[:, None] + offsets
    numbers = np.clip(wanted, np.asarray(first)[..., None], np.asarray(last)[..., None])
    return numbers, numbers != wanted


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Elements that are counted from another place in every sample of a batch, as those of windows are.

    Attributes:
        start: int64[n], the element of each sample that offsets are counted from.
        offsets: int64[k], the elements that are wanted, counted from there.
        counts: int64[n], the number of elements that each sample has, at least 1. Its first or last one takes the place
            of elements outside.
    """

    start: I64
    offsets: I64
    counts: I64

    def of(self, place: int) -> I64:
        """Return the elements of the sample at a place of the batch: int64[k]."""
        own: I64 = np.clip(self.start[place] + self.offsets, 0, self.counts[place] - 1)
        return own

    def numbers(self, places: I64 | slice = slice(None)) -> I64:
        """Return the elements of the samples at places of the batch: int64[n, k]."""
        return neighbours(self.start[places], self.offsets, 0, self.counts[places] - 1)[0]

    def outside(self) -> npt.NDArray[np.bool_]:
        """Return which elements another one takes the place of: bool[n, k]."""
        return neighbours(self.start, self.offsets, 0, self.counts - 1)[1]


Elements = slice | I64 | Ranges | None
"""The elements of a sequence field, or of a value such as a clip, to read; None for all."""


def at_place(elements: Elements, place: int) -> slice | I64 | None:
    """Return the elements that are wanted of the sample at a place of the batch."""
    return elements.of(place) if isinstance(elements, Ranges) else elements
