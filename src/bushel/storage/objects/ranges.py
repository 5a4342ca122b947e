"""Reading many extents of many objects at once: planned purely, then fetched by a bounded number of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from bushel.storage.base import extent_error
from bushel.storage.coalesce import coalesce
from bushel.storage.objects.blockcache import cache_of_environment
from bushel.storage.objects.remotefile import RemoteFile
from bushel.storage.objects.requests import Request, fetch_all
from bushel.storage.objects.through import read_through

__all__ = ["plan_requests", "read_extent", "read_rows"]

_GAP = 1 << 18
"""Bytes that are read in vain to save a request: what arrives in a fraction of the time that a request waits."""

_LONGEST = 1 << 23
"""Bytes of one request. A longer extent is fetched by several at once, since one connection is slower than many."""


def plan_requests(
    file: npt.NDArray[np.int32], offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64]
) -> list[Request]:
    """Few requests that cover all extents. Pure: no I/O.

    Neighbours share a request; an extent that is longer than a request may be is cut into several.

    Args:
        file: int32[n], number of the object of each extent.
        offset: int64[n].
        length: int64[n]; extents of length 0 or less need none.
    """
    requests: list[Request] = []
    for number in np.unique(file).tolist():
        own = np.flatnonzero(file == number)
        for span in coalesce(offset[own], length[own], gap=_GAP, limit=_LONGEST):
            rows = tuple(own[list(span.rows)].tolist())
            count = -(-(span.stop - span.start) // _LONGEST)
            borders = [span.start + (span.stop - span.start) * part // count for part in range(count + 1)]
            requests += [Request(number, first, last, rows) for first, last in pairwise(borders)]
    return requests


def read_rows(
    files: Sequence[RemoteFile],
    file: npt.NDArray[np.int32],
    offset: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
    put: Callable[[int, int, memoryview], None],
) -> None:
    """Read extents that are known to lie in their objects.

    Args:
        files: The objects that `file` counts.
        file: int32[n].
        offset: int64[n].
        length: int64[n].
        put: Called in any thread with the number of an extent, a place in it, and the bytes from there on: once for
            each extent, more often for one that comes in several requests or blocks, never for an empty one.
    """
    if (cache := cache_of_environment()) is not None and all(each.mtime_ns for each in files):
        read_through(cache, files, file, offset, length, put)
        return

    def share(request: Request, data: Buffer) -> None:
        view = memoryview(data)
        for row in request.rows:
            start = int(offset[row])
            first, last = max(start, request.start), min(start + int(length[row]), request.stop)
            if first < last:
                put(row, first - start, view[first - request.start : last - request.start])

    fetch_all(files, plan_requests(file, offset, length), share)


def read_extent(file: RemoteFile, offset: int, length: int) -> bytes:
    """The bytes of one extent.

    Raises:
        ExtentError: It does not lie within the object.
    """
    if offset < 0 or length < 0 or offset + length > file.size:
        raise extent_error(0, "beyond", offset + length, file.size, file.path)
    if length == 0:
        return b""
    if length <= _LONGEST and cache_of_environment() is None:
        return bytes(file.fetch(offset, offset + length))
    whole = bytearray(length)

    def put(row: int, at: int, data: memoryview) -> None:
        whole[at : at + len(data)] = data

    read_rows([file], np.zeros(1, np.int32), np.array([offset]), np.array([length]), put)
    return bytes(whole)
