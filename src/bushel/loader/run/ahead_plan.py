"""Plan the read-ahead of an epoch's batches from object stores. Pure: no I/O.

Batches are read ahead in groups. Depending on the order, batches share neighbouring extents: the
batches of a window of blocks, or consecutive batches in stored order. The extents of a group are
joined into long requests, as far as that does not read much that is not needed. A batch itself
reads extents that cannot share a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.order import Blocks, Sequential

if TYPE_CHECKING:
    from bushel.loader.plan.plan import AnyOrder

_LONGEST = 1 << 23
"""Bytes of a request: large enough to hide the latency, small enough that many fit into memory."""

_LONG = 1 << 22
"""Size in bytes from which an extent is left to its batch: joining it with others would save little."""

_PRICE = 1 << 14
"""Bytes that cost as much as one request. Gaps up to this length are read in any case."""

_GAP = 1 << 18
"""Bytes of a gap that may be read if the request has much else: a quarter of what it needs, for all such gaps."""

_SHARE = 4

_MOST_SAMPLES = 1 << 16
"""Samples of a group, which bounds the time of planning it."""

_ENOUGH_BYTES = 1 << 25
"""Bytes of a group that ends with a window. Smaller windows are read together, so that there are enough requests."""

_STORED_BYTES = 1 << 26
"""Bytes of a group in stored order, in which larger groups would not save requests."""

_LARGE = 1 << 26
"""Bytes of a group from which the first batch does not wait for all of it on a slow link."""


@dataclass(frozen=True, slots=True)
class AheadRequest:
    """A range of one file, with the extents in it.

    Attributes:
        file: Number of the file.
        start: First byte.
        stop: End of the range.
        rows: int64[n], numbers of the extents, by offset.
    """

    file: int
    start: int
    stop: int
    rows: I64


def plan_ahead(file: I64, offset: I64, length: I64, turn: I64) -> list[AheadRequest]:
    """Join extents into long requests.

    A request has at most 8 MiB. Bytes in gaps of up to 16 KiB, which are requested too, cost less
    than further requests would. Those in longer gaps (up to 256 KiB each) are at most a quarter of
    the needed bytes.

    Args:
        file: int64[n], number of the file of each extent.
        offset: int64[n]. All extents are within their files.
        length: int64[n]; extents of length 0 or less need no request.
        turn: int64[n], when each is needed: numbers of batches.

    Returns:
        The requests, ordered by when they are needed, then by file and offset. Extents that are in
        none are long, or have no neighbours and are more than the requests of others: a batch has
        more requests at a time.
    """
    rows = np.flatnonzero((length > 0) & (length < _LONG))
    rows = rows[np.lexsort((offset[rows], file[rows]))]
    numbers = file[rows]
    if len(rows):
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
    else:
        bounds = [0]
    requests: list[AheadRequest] = []
    for first, last in zip(bounds, bounds[1:], strict=False):
        chosen = rows[first:last]
        requests += _requests(
            int(numbers[first]), chosen, offset[chosen], offset[chosen] + length[chosen]
        )
    joined = [request for request in requests if len(request.rows) > 1]
    if len(requests) > 2 * len(joined):
        requests = joined
    needed = [int(turn[request.rows].min()) for request in requests]
    return [
        requests[number]
        for number in np.argsort(np.array(needed, np.int64), kind="stable").tolist()
    ]


def _requests(file: int, rows: I64, start: I64, end: I64) -> list[AheadRequest]:
    """Join extents of one file, which are ordered by offset."""
    reached = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], reached[:-1]])
    gap = np.maximum(start - before, 0)
    new = np.maximum(reached - np.maximum(start, before), 0)  # bytes that no extent before has
    needed = np.cumsum(new)
    wasted = np.cumsum(np.where(gap > _PRICE, gap, 0))
    breaks = np.flatnonzero(gap > _GAP)
    requests = []
    first = 0
    while first < len(rows):
        last = int(np.searchsorted(reached, start[first] + _LONGEST, side="right"))
        at = int(np.searchsorted(breaks, first, side="right"))
        if at < len(breaks):
            last = min(last, int(breaks[at]))
        last = max(last, first + 1)
        if wasted[last - 1] > wasted[first]:
            in_vain = (wasted[first:last] - wasted[first]) * _SHARE > needed[first:last] - needed[
                first
            ] + end[first] - start[first]
            if in_vain.any():
                last = first + int(in_vain.argmax())
        requests.append(
            AheadRequest(file, int(start[first]), int(reached[last - 1]), rows[first:last])
        )
        first = last
    return requests


@dataclass(frozen=True, slots=True)
class Grouping:
    """The division of an epoch's batches into groups that are read ahead.

    Attributes:
        width: Number of positions whose samples are neighbours in the files: a window of blocks, or
            the whole epoch. 0 for the stored order, in which any batches are.
        most_bytes: Bytes of a group, at most; a single batch may have more.
    """

    width: int
    most_bytes: int

    @classmethod
    def of(cls, order: AnyOrder, stored_bytes: int, limit: int) -> Grouping | None:
        """Return the groups of an order; None if its batches have no neighbours in common.

        Args:
            order: The order.
            stored_bytes: Size of the dataset.
            limit: Bytes that may be held in memory. Groups take 7/8 of it, so that a part of the
                next one fits.
        """
        most = limit // 8 * 7
        base = getattr(order, "base", order)  # of packs, whose windows are not in it
        if isinstance(base, Sequential):
            return cls(0, min(most, _STORED_BYTES))
        if isinstance(base, Blocks):
            return cls(max(base.size * base.window, getattr(order, "window", 0)), most)
        if stored_bytes <= most:
            return cls(1 << 62, most)
        return None

    def is_large(self, nbytes: int) -> bool:
        """Return whether waiting for a group of this many bytes may take long on a slow link."""
        return bool(self.width) and nbytes > _LARGE

    def ends(self, first: int, position: int, samples: int, nbytes: int) -> bool:
        """Return whether a group ends before a batch.

        Args:
            first: First position of the group.
            position: First position of the batch.
            samples: Number of samples of the group, with the batch.
            nbytes: Number of bytes of both.
        """
        if nbytes > self.most_bytes or samples > _MOST_SAMPLES:
            return True
        if not self.width or first // self.width == position // self.width:
            return False
        return nbytes > _ENOUGH_BYTES
