"""The items of a part: a range of the positions of a source, or the samples of a stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._runtime.order import Order
from bushel._runtime.structs import Struct
from bushel.errors import StateError


class OrderRange(Struct, frozen=True):
    """The items of one part: a range of an order over all positions of a source."""

    order: Order
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def take(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """Return the positions of the part's items from index `first` up to `last`."""
        return self.order.take(0, np.arange(self.first + first, self.first + last, dtype=np.int64))

    def index_after(self, samples: int, bad: Sequence[int]) -> int:
        """Return the index after the first `samples` good items, where the positions in `bad` are not good.

        Raises:
            StateError: The part has fewer samples.
        """
        found, skipped = 0, np.array(sorted(bad), np.int64)
        for start in range(0, len(self), 1 << 20):
            if found == samples:
                return start
            positions = self.take(start, min(start + (1 << 20), len(self)))
            counts = found + np.cumsum(~np.isin(positions, skipped))
            if counts[-1] >= samples:
                return start + int(np.searchsorted(counts, samples)) + 1
            found = int(counts[-1])
        if found < samples:
            without = f" without the {len(bad)} that the last run could not pack" if bad else ""
            raise StateError(
                f"cannot resume: the target has {samples} samples, but the source only {found}{without}. mode='append' "
                "adds the source's samples to the samples of other runs"
            )
        return len(self)

    def has_others(self, start: int, bad: Collection[int]) -> bool:
        """Return whether an item from index `start` on is at a position that is not in `bad`."""
        left = len(self) - start
        return left > len(bad) or not set(self.take(start, len(self)).tolist()) <= set(bad)


class StreamItems(Struct, frozen=True):
    """The samples of a stream."""

    samples: Iterator[Any]
    again: bool = False  # whether another process can read the same samples again, so that a run can be resumed

    def index_after(self, samples: int, bad: Sequence[int]) -> int:
        """Return the index after the first `samples` good items, where the positions in `bad` are not good."""
        for position in sorted(set(bad)):
            samples += position < samples
        return samples
