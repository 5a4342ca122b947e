"""The remains of a damaged shard, and the numbers of a damaged table that can be trusted. Pure: no I/O.

Each container's `recover` reads the tables that its `index` reads. `index` raises at the first
contradiction; `recover` reports it and drops the samples that it touches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.shard import Keys
from bushel._index.table import ShardIndex
from bushel._kinds import JPEG_END, JPEG_START, PNG
from bushel._runtime.arrays import I64, U64, Bools
from bushel.errors import FormatError

Fault = Callable[[FormatError], None]
"""Called with an error for everything that is left out."""


class Recovered(Struct, frozen=True):
    """The recovered part of a damaged shard.

    Attributes:
        index: A table whose extents are valid for all samples.
        whole: bool[samples], whether the extents of a sample are known for certain. The others have
            placeholders.
        lost: Number of samples that are known to have existed, but have no row in the table.
        gaps: Where some of these were: the number of rows before each, ascending, and its key.
        errors: The errors of the first gaps, if the container names the gap of each, and all rows of
            the table are whole.
    """

    index: ShardIndex
    whole: Bools
    lost: int = 0
    gaps: tuple[tuple[int, str], ...] = ()
    errors: tuple[FormatError, ...] = ()


def gaps_of(whole: Bools, keys: Sequence[str]) -> tuple[tuple[int, str], ...]:
    """Return the gaps of `Recovered` of a table that had samples with these keys, and has the whole ones."""
    before: I64 = np.cumsum(whole)
    return tuple((int(before[row]), keys[row]) for row in np.flatnonzero(~whole).tolist())


def with_gaps(recovered: Recovered) -> Recovered:
    """Return the table with a row for each gap, so that the samples after it keep their positions.

    Such a row has the extents of another sample, and `whole` is false for it.
    """
    if not recovered.gaps or not recovered.index.samples:
        return recovered
    index, places = recovered.index, [place for place, _ in recovered.gaps]
    samples = np.insert(np.arange(index.samples), places, 0)
    keys = None
    if index.keys is not None:
        renumbered = index.keys.take(samples)
        for number, (place, key) in enumerate(recovered.gaps):
            renumbered[place + number] = key
        keys = Keys.of(renumbered)
    columns = {name: column.take(samples) for name, column in index.fields.items()}
    return Recovered(
        replace(index, samples=len(samples), fields=columns, keys=keys),
        np.insert(recovered.whole, places, False),
        recovered.lost - len(places),
    )


def trusted(values: U64, limit: int) -> tuple[Bools, Bools]:
    """Find the wrong entries of a table that should ascend.

    The entries to distrust are the fewest whose removal makes the rest ascend. If there are several
    ways to choose them, all of these are distrusted.

    Returns:
        sure: bool[entries], the entries that every such choice keeps.
        possible: bool[entries], the entries that some choice keeps.
    """
    inside = values <= np.uint64(limit)
    rows = np.flatnonzero(inside)
    inside_values = values[rows].astype(np.int64)
    if (inside_values[1:] >= inside_values[:-1]).all():
        return inside, inside
    before = _longest(inside_values.tolist())
    after = _longest((-inside_values[::-1]).tolist())[::-1]
    best = before + after == (before + after).max()
    alone = np.bincount(before[best], minlength=int(before.max()) + 1)[before] == 1
    sure, possible = np.zeros(len(values), np.bool_), np.zeros(len(values), np.bool_)
    sure[rows[best & alone]] = True
    possible[rows[best]] = True
    return sure, possible


def _longest(values: Sequence[int]) -> I64:
    """Return for each value the length of the longest ascending subsequence that ends with it."""
    tails: list[int] = []
    lengths = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        at = bisect_right(tails, value)
        tails[at : at + 1] = [value]
        lengths[row] = at + 1
    return lengths


def intact_ranges(start: I64, end: I64, size: int) -> Bools:
    """Return which ranges can be trusted, where some of them overlap although none should.

    Writers place ranges one after another. If two ranges overlap, the one that fits its neighbours
    in the table worse is wrong; if both are equally bad, neither can be trusted. Where one number
    is wrong, a range with a wrong start touches neither neighbour, and a range with a wrong length
    touches only the one before it.

    Args:
        start: int64[ranges], in the order of the table.
        end: int64[ranges], none before its start.
        size: Where the last range should end.
    """
    intact = np.ones(len(start), np.bool_)
    used = np.flatnonzero(end > start)
    if not len(used):
        return intact
    first, last = start[used], end[used]
    order = np.lexsort((last, first))
    if (first[order][1:] >= last[order][:-1]).all():
        return intact
    meets = np.concatenate([first[:1] == 0, last[:-1] == first[1:], last[-1:] == size]).astype(
        np.int64
    )
    fits = (meets[:-1] + 2 * meets[1:]).tolist()
    firsts, lasts = first.tolist(), last.tolist()
    current: int | None = None
    for row in order.tolist():
        if current is None or firsts[row] >= lasts[current]:
            current = row
            continue
        current_fits, row_fits = fits[current], fits[row]
        if row_fits <= current_fits:
            intact[used[row]] = False
        if current_fits <= row_fits:
            intact[used[current]] = False
            current = row if row_fits > current_fits else None
    return intact


def looks_complete(codec: str, data: bytes) -> bool:
    """Return whether stored bytes are certainly one whole value: they start and end as its codec demands."""
    kind = codec.partition("(")[0]
    if kind in ("jpg", "jpeg"):
        return data[:2] == JPEG_START and data[-2:] == JPEG_END
    if kind == "png":
        return data[:8] == PNG and data[-8:-4] == b"IEND"
    return False
