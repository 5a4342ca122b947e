"""The items of a part: a range of the positions of a source, or the samples of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._runtime.order import Order
from bushel._runtime.structs import Struct


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


class StreamItems(Struct, frozen=True):
    """The samples of a stream."""

    samples: Iterator[Any]
    # whether another process can read the same samples again, so that a run can be resumed
    again: bool = False
