"""Planning of reads from storage where a request costs more than a few unneeded bytes. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bushel._runtime.arrays import I64


@dataclass(frozen=True, slots=True)
class Span:
    """One request: a range of a file that covers some extents."""

    start: int  # first byte
    stop: int  # end of the range
    rows: tuple[int, ...]  # numbers of the extents within it


def coalesce(
    offset: I64,
    length: I64,
    *,
    gap: int = 1 << 16,
    limit: int = 1 << 26,
) -> list[Span]:
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
