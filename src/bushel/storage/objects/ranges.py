"""Reading many extents of many objects at once, directly or through the block cache.

Requests are planned purely, and made by a bounded number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Buffer

from bushel._runtime.arrays import I32, I64, U8
from bushel._runtime.parallel import for_each
from bushel._runtime.threads import SpareThreads
from bushel.storage.base import File

from .blockcache import BLOCK, BlockCache, cache_of_environment


class Span(Struct, frozen=True):
    """One request: a range of a file that covers some extents."""

    start: int  # first byte
    stop: int  # end of the range
    rows: tuple[int, ...]  # numbers of the extents within it


def coalesce(offset: I64, length: I64, *, gap: int = 1 << 16, limit: int = 1 << 26) -> list[Span]:
    """Join extents of one file into few requests.

    Extents that overlap, touch, or are at most `gap` bytes apart share a request of at most `limit`
    bytes. Extents of length 0 or less need no request and are in no span.

    Args:
        offset: int64[n].
        length: int64[n].
        gap: Maximum number of unneeded bytes that are read to save a request.
        limit: Maximum number of bytes of a request, unless a single extent is longer.

    Returns:
        The spans in ascending order of `start`.
    """
    spans: list[Span] = []
    rows: list[int] = []
    start = stop = 0
    order = np.argsort(offset, kind="stable")
    for row in order[length[order] > 0].tolist():
        first, last = int(offset[row]), int(offset[row] + length[row])
        if rows and first - stop <= gap and max(stop, last) - start <= limit:
            stop = max(stop, last)
        else:
            if rows:
                spans.append(Span(start, stop, tuple(rows)))
            rows, start, stop = [], first, last
        rows.append(row)
    if rows:
        spans.append(Span(start, stop, tuple(rows)))
    return spans


Put = Callable[[int, int, memoryview], None]

_AT_ONCE = 32
"""Requests that run at a time: a store answers one in some 30 ms, and many at a time as fast as one."""

_REQUESTING = SpareThreads(_AT_ONCE - 1, "bushel-fetch")
"""Threads that make requests, in addition to the waiting one."""

_MOST_BYTES = 64 << 20
"""Bytes that these requests may have together. This bounds the memory of a reader."""

_GAP, _SHORT_GAP = 1 << 18, 1 << 14
"""Unneeded bytes that may be read to save a request, and those that are read in any case."""

_FREE, _SHARE = 1 << 19, 16
"""Unneeded bytes of a batch that take no time that counts, and the part of the needed bytes that they may be if that is
more. On a link that is full, each unneeded byte takes as long as a needed one, and requests take no
time.
"""

_LONGEST = 1 << 23
"""Bytes of one request. A longer extent is fetched by several, since one connection is slower than many."""

_MOST_BLOCKS = 8
"""Blocks of one request."""

_STREAMED = 1 << 19
"""Bytes of an extent, on average, if the chunks of its request are copied as they arrive."""


class Arriving(Protocol):
    """What takes a range in chunks, such as `RangeValues`."""

    def put(self, data: Any, /) -> None:
        """Take the next bytes of the range."""

    def restart(self) -> None:
        """Begin with the first byte of the range again, after a request that failed."""


class RangeFile(File, Protocol):
    """An object that ranges are fetched from; `RemoteFile` is one."""

    def fetch(self, start: int, stop: int, give_up: threading.Event | None = None) -> Buffer:
        """Return the bytes from `start` to `stop`."""

    def receive(
        self, start: int, stop: int, values: Arriving, give_up: threading.Event | None = None
    ) -> None:
        """Hand over the chunks of the range from `start` to `stop` as they arrive."""


class Request(Struct, frozen=True):
    """One range of one object."""

    file: int  # number of the object
    start: int  # first byte
    stop: int  # end of the range
    rows: tuple[int, ...]  # numbers of the extents, or of the blocks, that have bytes in it


def plan_requests(file: I32, offset: I64, length: I64) -> list[Request]:
    """Plan few requests that cover all extents. Pure: no I/O.

    Neighbours share a request; an extent that is too long for one request is split. The gap
    between neighbours is at most 16 KiB, or at most 256 KiB as long as all such gaps, the shortest
    first, have at most 512 KiB or 1/16 of the needed bytes.

    Args:
        file: int32[n], number of the object of each extent.
        offset: int64[n].
        length: int64[n]; extents of length 0 or less need no request.
    """
    requests: list[Request] = []
    gap = _longest_gap(file, offset, length)
    for number in sorted(set(file.tolist())):  # np.unique would import numpy.ma
        rows_of_file = np.flatnonzero(file == number)
        for span in coalesce(offset[rows_of_file], length[rows_of_file], gap=gap, limit=_LONGEST):
            rows = tuple(rows_of_file[list(span.rows)].tolist())
            count = -(-(span.stop - span.start) // _LONGEST)
            offsets = [
                span.start + (span.stop - span.start) * part // count for part in range(count + 1)
            ]
            requests += [Request(number, first, last, rows) for first, last in pairwise(offsets)]
    return requests


def _longest_gap(file: I32, offset: I64, length: I64) -> int:
    """Return the longest gap between neighbours that is worth reading. Arguments: see `plan_requests`."""
    order = np.lexsort((offset, file))
    start, size, number = offset[order], np.maximum(length[order], 0), file[order]
    gaps = (start[1:] - (start + size)[:-1])[number[1:] == number[:-1]]
    gaps = np.sort(gaps[(gaps > _SHORT_GAP) & (gaps <= _GAP)])
    many = np.flatnonzero(np.cumsum(gaps) > max(_FREE, int(size.sum()) // _SHARE))
    if not len(many):
        return _GAP
    return max(_SHORT_GAP, int(gaps[many[0]]) - 1)


def plan_blocks(offset: I64, length: I64) -> dict[int, list[int]]:
    """Return the blocks of an object that these extents need: numbers of blocks to numbers of extents. Pure."""
    blocks: dict[int, list[int]] = {}
    for row, (start, size) in enumerate(zip(offset.tolist(), length.tolist(), strict=True)):
        for block in range(start // BLOCK, -(-(start + size) // BLOCK)) if size > 0 else ():
            blocks.setdefault(block, []).append(row)
    return dict(sorted(blocks.items()))


def read_rows(
    files: Sequence[RangeFile],
    file: I32,
    offset: I64,
    length: I64,
    put: Put,
    *,
    streamed: bool = False,
) -> None:
    """Read extents that are known to be within their objects.

    Args:
        files: The objects that `file` counts.
        file: int32[n].
        offset: int64[n].
        length: int64[n].
        put: Called in any thread with the number of an extent, a position in it, and the bytes from
            there on: once for each extent, more often for one that comes in several requests or
                blocks, never for an empty one.
        streamed: Call it for each chunk of a long extent, and again from its first byte if the request fails.

    Raises:
        FormatError: An object was replaced.
        OSError: A store refuses, or cannot be reached.
    """
    if (cache := cache_of_environment()) is not None and all(remote.mtime_ns for remote in files):
        _read_cached(cache, files, file, offset, length, put)
        return

    starts, lengths = offset.tolist(), length.tolist()

    def share(request: Request, data: Buffer) -> None:
        view = memoryview(data)
        for row in request.rows:
            start = starts[row]
            first, last = max(start, request.start), min(start + lengths[row], request.stop)
            if first < last:
                put(row, first - start, view[first - request.start : last - request.start])

    _fetch(files, plan_requests(file, offset, length), share, streamed=streamed)


def read_into(
    out: U8, starts: I32 | I64, files: Sequence[RangeFile], file: I32, offset: I64, length: I64
) -> None:
    """Read extents into an array. `starts` says where in it each begins; for the rest see `read_rows`."""
    first_of = starts.tolist()

    def put(row: int, at: int, data: memoryview) -> None:
        # NumPy copies without the interpreter lock
        first = first_of[row] + at
        out[first : first + len(data)] = np.frombuffer(data, np.uint8)

    read_rows(files, file, offset, length, put, streamed=True)


def read_span(
    file: RangeFile, start: int, stop: int, give_up: threading.Event | None = None
) -> Buffer:
    """Return the bytes of one range of an object, which several requests may fetch.

    Args:
        file: The object.
        start: First byte.
        stop: End of the range; more than `start`.
        give_up: When another thread sets it, a failed request is not made again.

    Raises:
        FormatError: The object was replaced.
        OSError: The store refuses, or cannot be reached.
    """
    if stop - start <= _LONGEST and cache_of_environment() is None:
        return file.fetch(start, stop, give_up)
    zero, whole = np.zeros(1, np.int32), np.empty(stop - start, np.uint8)
    read_into(whole, zero, [file], zero, np.array([start]), np.array([len(whole)]))
    return whole.data


def receive_span(
    file: RangeFile, start: int, stop: int, values: Arriving, give_up: threading.Event
) -> None:
    """Copy the values of one range of an object as it arrives. Arguments and errors: see `read_span`."""
    if stop - start <= _LONGEST and cache_of_environment() is None:
        file.receive(start, stop, values, give_up)
    else:
        values.put(read_span(file, start, stop, give_up))


def _read_cached(
    cache: BlockCache, files: Sequence[RangeFile], file: I32, offset: I64, length: I64, put: Put
) -> None:
    """Read extents in whole blocks: cached ones from the disk, others from the store."""
    names = [cache.identity(remote.path, remote.size, remote.mtime_ns) for remote in files]
    rows_of: dict[tuple[int, int], list[int]] = {}

    def put_block(number: int, block: int, data: memoryview) -> None:
        begin = block * BLOCK
        for row in rows_of[number, block]:
            start = int(offset[row])
            first, last = max(start, begin), min(start + int(length[row]), begin + len(data))
            put(row, first - start, data[first - begin : last - begin])

    missing: list[Request] = []
    for number in sorted(set(file.tolist())):
        rows_of_file = np.flatnonzero(file == number)
        absent: list[int] = []
        for block, rows in plan_blocks(offset[rows_of_file], length[rows_of_file]).items():
            rows_of[number, block] = rows_of_file[rows].tolist()
            data = cache.get(names[number], block)
            if data is not None and len(data) == min(BLOCK, files[number].size - block * BLOCK):
                put_block(number, block, data)
            else:
                absent.append(block)
        begin, size = np.array(absent, np.int64) * BLOCK, np.full(len(absent), BLOCK)
        for span in coalesce(begin, size, gap=0, limit=_MOST_BLOCKS * BLOCK):
            stop, blocks = min(span.stop, files[number].size), [absent[at] for at in span.rows]
            missing.append(Request(number, span.start, stop, tuple(blocks)))

    def share(request: Request, data: Buffer) -> None:
        view = memoryview(data)
        for block in request.rows:
            part = view[block * BLOCK - request.start :][:BLOCK]
            cache.put(names[request.file], block, part)
            put_block(request.file, block, part)

    _fetch(files, missing, share)


class _Chunks:
    """Passes on the chunks of a request as if each were requested by itself."""

    def __init__(self, request: Request, put: Callable[[Request, Buffer], None]) -> None:
        self._request, self._put, self._at = request, put, request.start

    def put(self, data: Any, /) -> None:
        start, self._at = self._at, self._at + len(data)
        self._put(replace(self._request, start=start, stop=self._at), data)

    def restart(self) -> None:
        self._at = self._request.start


def _fetch(
    files: Sequence[RangeFile],
    requests: Sequence[Request],
    put: Callable[[Request, Buffer], None],
    *,
    streamed: bool = False,
) -> None:
    """Make requests, many at a time, and pass on each answer as it comes; or its chunks, if its extents are long.

    After an error or Ctrl-C, running requests are waited for, but not retried.
    """
    give_up = threading.Event()

    def fetch(request: Request) -> None:
        remote, start, stop = files[request.file], request.start, request.stop
        if streamed and stop - start > _STREAMED * len(request.rows):
            remote.receive(start, stop, _Chunks(request, put), give_up)
        else:
            put(request, remote.fetch(start, stop, give_up))

    for_each(
        fetch,
        requests,
        threads=min(_AT_ONCE, len(requests)),
        weight=lambda request: request.stop - request.start,
        limit=_MOST_BYTES,
        stop=give_up,
        spare=_REQUESTING,
    )
