"""Plan the read-ahead of an epoch's batches from object stores. Pure: no I/O.

Batches are read ahead in groups. Depending on the order, batches share neighbouring extents: the
batches of a window of blocks, or consecutive batches in stored order. The extents of a group are
joined into long requests, as far as that does not read much that is not needed. A batch itself
reads extents that cannot share a request.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from bushel._runtime.arrays import I64, Bools
from bushel._runtime.order import Blocks, Sequential
from bushel._runtime.threads import Result
from bushel.kernels import RangeValues
from bushel.loader.plan.plan import BatchPlan
from bushel.storage import Extents, File
from bushel.storage.objects.remotefile import RemoteFile

if TYPE_CHECKING:
    from bushel.loader.plan.plan import AnyOrder

_LONGEST = 1 << 23
"""Bytes of a request: large enough to hide the latency, small enough that many fit into memory."""

_LONG = 1 << 22
"""Size in bytes from which an extent is left to its batch: joining it with others would save little."""

_PRICE = 1 << 14
"""Bytes that cost as much as one request. Gaps up to this length are read in any case."""

_GAP = 1 << 18
"""Bytes of a gap that may be read if the request has much else."""

_SHARE = 4
"""All such gaps of a request have at most one part in this number of the bytes that it needs."""

_MOST_SAMPLES = 1 << 16
"""Samples of a group, which bounds the time of planning it."""

_ENOUGH_BYTES = 1 << 25
"""Bytes of a group that ends with a window. Smaller windows are read together, so that there are enough requests."""

_STORED_BYTES = 1 << 26
"""Bytes of a group in stored order, in which larger groups would not save requests."""

_LARGE = 1 << 26
"""Bytes of a group from which the first batch does not wait for all of it on a slow link."""


class AheadRange(Struct, frozen=True):
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


def plan_ahead(file: I64, offset: I64, length: I64, turn: I64) -> list[AheadRange]:
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
    if not len(rows):
        return []
    requests: list[AheadRange] = []
    for chosen in np.split(rows, np.flatnonzero(np.diff(file[rows])) + 1):
        starts = offset[chosen]
        requests += _requests(int(file[chosen[0]]), chosen, starts, starts + length[chosen])
    joined = [request for request in requests if len(request.rows) > 1]
    if len(requests) > 2 * len(joined):
        requests = joined
    return sorted(requests, key=lambda request: int(turn[request.rows].min()))


def _requests(file: int, rows: I64, start: I64, end: I64) -> list[AheadRange]:
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
            AheadRange(file, int(start[first]), int(reached[last - 1]), rows[first:last])
        )
        first = last
    return requests


class Grouping(Struct, frozen=True):
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


_SHORT = 1 << 19
"""Bytes of a short request, at most."""

Needed = list[tuple[list[File], Extents, Bools]]
"""The extents of real files that a batch needs, and which of them have to be read."""

Planned = list[tuple[list[File], Extents]]
"""The extents of a batch, as `Reader.extents` returns them."""


class PlannedBatch(Struct, frozen=True):
    """A batch, and what it needs.

    Attributes:
        plan: The batch.
        needed: Its extents.
        size: Bytes of those that have to be read.
    """

    plan: BatchPlan
    needed: Needed
    size: int


class Request(Struct, eq=False):
    """A request, and where its values go.

    Attributes:
        file: The file.
        plan: The range.
        starts: int64[n], where each extent starts in the range.
        lengths: int64[n], bytes of each.
        parts: The part of a batch that each is for.
        rows: The row of each in its part.
        outcome: Set when the values are where they belong.
        give_up: Set when a failure is not to be tried again.
        number: Its place in the order in which requests are needed.
        values: What has arrived, while it runs.
    """

    file: RemoteFile
    plan: AheadRange
    starts: I64
    lengths: I64
    parts: list[BatchPart]
    rows: list[int]
    outcome: Result[None] = field(default_factory=Result)
    give_up: threading.Event = field(default_factory=threading.Event)
    number: int = 0
    values: RangeValues | None = None

    @property
    def size(self) -> int:
        """Bytes that are requested."""
        return self.plan.stop - self.plan.start

    @property
    def arrived(self) -> int:
        """Bytes that have arrived."""
        values = self.values
        if self.outcome.done:
            return self.size
        if values is None:
            return 0
        return values.arrived

    @property
    def short(self) -> bool:
        """Whether it is short."""
        return self.size <= _SHORT


class BatchPart(Struct):
    """Extents of a batch that are read with one call.

    Attributes:
        files: The files that `extents` counts.
        extents: The extents.
        covered: bool[n], which of them are read ahead.
        requests: The requests that bring them.
        values: The bytes of each that have come; None after the batch was read.
    """

    files: list[File]
    extents: Extents
    covered: Bools
    requests: list[Request]
    values: list[bytes | None] | None

    def is_of(self, files: Sequence[File], extents: Extents) -> bool:
        """Return whether these are its extents."""
        extents_here = self.extents
        return (
            np.array_equal(extents_here.offset, extents.offset)
            and np.array_equal(extents_here.length, extents.length)
            and np.array_equal(extents_here.file, extents.file)
            and len(self.files) == len(files)
            and all(
                file is other or file.path == other.path
                for file, other in zip(self.files, files, strict=True)
            )
        )


def requests_of(batches: Sequence[PlannedBatch]) -> tuple[list[list[BatchPart]], list[Request]]:
    """Return the parts of each batch of a group, and the requests of the group."""
    numbers: dict[Hashable, int] = {}
    files: list[RemoteFile] = []
    parts: list[BatchPart] = []
    parts_of_batches: list[list[BatchPart]] = []
    columns: list[tuple[I64, ...]] = []
    for turn, batch in enumerate(batches):
        first = len(parts)
        for files_of_batch, extents, needed in batch.needed:
            number, rows = _remote_rows(files_of_batch, extents, needed, numbers, files)
            places = np.array([[turn], [len(parts)]]).repeat(len(rows), 1)
            columns.append((number, extents.offset[rows], extents.length[rows], rows, *places))
            covered, values = np.zeros(len(extents), np.bool_), [None] * len(extents)
            parts.append(BatchPart(files_of_batch, extents, covered, [], [*values]))
        parts_of_batches.append(parts[first:])
    if not columns:
        return parts_of_batches, []
    number, offset, length, row, turn_of, part_of = map(np.concatenate, zip(*columns, strict=True))
    requests: list[Request] = []
    for plan in plan_ahead(number, offset, length, turn_of):
        chosen = plan.rows
        request = Request(
            files[plan.file],
            plan,
            offset[chosen] - plan.start,
            length[chosen],
            [parts[place] for place in part_of[chosen].tolist()],
            row[chosen].tolist(),
        )
        requests.append(request)
        for part, place in zip(request.parts, request.rows, strict=True):
            part.covered[place] = True
            if request not in part.requests[-1:]:
                part.requests.append(request)
    return parts_of_batches, requests


def _remote_rows(
    files_of_batch: Sequence[File],
    extents: Extents,
    needed: Bools,
    numbers: dict[Hashable, int],
    files: list[RemoteFile],
) -> tuple[I64, I64]:
    """Return the extents that are within remote files: the number of the file in the group, and the row of each."""
    number_of_file = np.full(len(files_of_batch) + 1, -1, np.int64)
    for place, file in enumerate(files_of_batch):
        if isinstance(file, RemoteFile):
            number_of_file[place] = numbers.setdefault(file.identity, len(files))
            if number_of_file[place] == len(files):
                files.append(file)
    number = number_of_file[np.broadcast_to(extents.file, len(extents))]
    sizes = np.array([file.size for file in files], np.int64)
    offset, length = extents.offset, extents.length
    fits = needed & (number >= 0) & (offset >= 0) & (length > 0)
    fits[fits] = length[fits] <= sizes[number[fits]] - offset[fits]
    rows = np.flatnonzero(fits)
    return number[rows], rows
