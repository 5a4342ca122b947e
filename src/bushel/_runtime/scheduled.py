"""The order of a mixture with a schedule: weights that change with the number of samples drawn.

Draws are divided into blocks. Within a block, the sets alternate so evenly that each set has its share at every place,
to within one draw. Therefore shares are exact at every point, also where they change, and the draws before a change do
not depend on it. `docs/order.md` specifies the order. Nothing here does I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from bushel import kernels
from bushel._runtime.arrays import F64, I64, U32
from bushel._runtime.order import (
    ORDER_VERSION,
    PART,
    Blocks,
    Exact,
    Order,
    Sequential,
    check_order,
    check_positions,
)
from bushel._runtime.permutation import LIMIT, Permutation, derive

__all__ = [
    "BLOCK",
    "Point",
    "SampleOrder",
    "Scheduled",
    "evenly",
    "look_up",
    "first_difference",
    "scheduled_of",
    "share_block",
]


BLOCK = 4096
"""Number of draws of a block."""

_MOST_BLOCKS = 1 << 24  # of a ramp, whose shares are kept: 8 bytes for each and each set
_NEVER = 1 << 62

Point = tuple[int, tuple[float, ...]]
"""A number of draws, and the weights of the sets from there on."""


def share_block(weights: F64, block: int = BLOCK) -> I64:
    """Divide blocks by weight into whole numbers, each within 1 of its exact share, and 0 for the weight 0.

    Args:
        weights: float64[blocks, sets], 0 or more, one of each block above 0.
        block: The sum of the shares of a block.

    Returns:
        int64[blocks, sets].
    """
    exact = weights / weights.sum(axis=1, keepdims=True) * block
    shares: I64 = np.floor(exact).astype(np.int64)
    order = np.argsort(shares - exact, axis=1, kind="stable")  # the largest rest first
    ranks = np.argsort(order, axis=1, kind="stable")
    shares += ranks < (block - shares.sum(axis=1, keepdims=True))
    return shares


@lru_cache(maxsize=64)
def evenly(shares: tuple[int, ...], slopes: tuple[float, ...] = ()) -> tuple[I64, I64]:
    """Return the sets of a block in their order, so that each has its share at every place to within one draw.

    After t draws of a block of B, set i has been drawn `shares[i]` t / B times, or at most 1 - 1 / (2k - 2) more or
    less, where k is the number of sets with a share (Tijdeman, The chairman assignment problem, 1980).

    Args:
        shares: The draws of each set.
        slopes: How much the weight of each set grows with each draw, if weights change within the block.

    Returns:
        int64[draws], the set of each draw; and int64[draws], the number of earlier draws from that set.
    """
    if any(slopes):
        return _evenly_on_ramp(shares, slopes)
    block, sets = sum(shares), [number for number, share in enumerate(shares) if share]
    found, before = np.empty(block, np.int64), np.empty(block, np.int64)
    if len(sets) == 1:
        found[:], before[:] = sets[0], np.arange(block)
        return found, before
    drawn, parts = dict.fromkeys(sets, 0), 2 * len(sets) - 2
    for draw in range(block):
        best, least, of = -1, 0, 1
        for number in sets:
            share = shares[number]
            lag = parts * (share * (draw + 1) - block * drawn[number])
            if lag < block:
                continue  # it is too early for another draw from this set
            left = (parts - 1) * block - lag  # as long as it may wait, in proportion to its share
            if best < 0 or left * of < least * share:
                best, least, of = number, left, share
        found[draw], before[draw] = best, drawn[best]
        drawn[best] += 1
    return found, before


def _evenly_on_ramp(shares: tuple[int, ...], slopes: tuple[float, ...]) -> tuple[I64, I64]:
    """Return the sets of a block on a ramp: each draw is from the set that lacks most of its share."""
    block, own = sum(shares), np.array(shares, np.int64)
    places = np.arange(1, block + 1, dtype=np.float64)[:, None]
    due = own * places / block + np.array(slopes, np.float64) * (places * places - block * places) / 2
    found, before = np.empty(block, np.int64), np.empty(block, np.int64)
    drawn, rows = [0] * len(shares), due.tolist()
    for draw, row in enumerate(rows):
        best, most = -1, 0.0
        for number, share in enumerate(shares):
            lag = row[number] - drawn[number]
            if drawn[number] < share and (best < 0 or lag > most):
                best, most = number, lag
        found[draw], before[draw] = best, drawn[best]
        drawn[best] += 1
    return found, before


@dataclass(frozen=True, slots=True)
class _Segment:
    """Draws between two points of a schedule.

    Attributes:
        start: The first draw.
        stop: The draw after the last one.
        first: The weights at the start.
        last: The weights at the end; the same as at the start without a ramp.
        before: int64[sets], the draws from each set before the segment.
        shares: int64[blocks, sets], the shares of each block; of one block if all are equal.
        sums: int64[blocks + 1, sets], the draws from each set before each block; of one block if all are equal.
        slopes: How much the weight of each set grows with each draw.
    """

    start: int
    stop: int
    first: tuple[float, ...]
    last: tuple[float, ...]
    before: I64
    shares: I64
    sums: I64
    slopes: tuple[float, ...]

    @property
    def blocks(self) -> int:
        """Number of blocks, with one that the end of the segment cuts."""
        return -(-(self.stop - self.start) // BLOCK)

    def sets(self, block: int) -> tuple[I64, I64]:
        """Return the sets of a block, as `evenly`."""
        return evenly(tuple(self.shares[min(block, len(self.shares) - 1)].tolist()), self.slopes)

    def sets_of(self, draws: I64) -> tuple[I64, I64]:
        """Return the set of each draw of the segment, and the number of earlier draws from that set."""
        blocks, places = np.divmod(draws - self.start, BLOCK)
        if len(self.shares) == 1:
            own, before = self.sets(0)
            sets = own[places]
            return sets, self.before[sets] + self.shares[0][sets] * blocks + before[places]
        sets, numbers = np.empty_like(draws), np.empty_like(draws)
        ends = np.append(np.flatnonzero(np.diff(blocks)) + 1, len(blocks)).tolist() if len(blocks) else []
        for start, end in zip([0, *ends], ends, strict=False):  # draws of one block
            block = int(blocks[start])
            own, before = self.sets(block)
            sets[start:end] = mine = own[places[start:end]]
            numbers[start:end] = self.drawn(block)[mine] + before[places[start:end]]
        return sets, numbers

    def drawn(self, block: int) -> I64:
        """Return int64[sets], the draws from each set before a block, from the start of the schedule."""
        inside: I64 = self.sums[block] if len(self.shares) > 1 else self.shares[0] * block
        return self.before + inside

    def drawn_until(self, draw: int) -> I64:
        """Return int64[sets], the draws from each set before a draw of the segment."""
        block, inside = divmod(draw - self.start, BLOCK)
        if not inside:
            return self.drawn(block)
        sets, _ = self.sets(block)
        return self.drawn(block) + np.bincount(sets[:inside], minlength=len(self.before))


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """Sets of samples, numbered consecutively, by weights that change with the number of draws.

    A set is read in a random order, pass after pass, another for each pass; or it is such an order itself. An epoch is
    `samples` draws, and the next epoch continues where it ends.

    Attributes:
        sources: For each set, its number of samples, or its own order.
        points: The weights from some numbers of draws on, ascending, the first from 0 on.
        ramp: Whether weights change evenly between points. If not, they stay until the next point.
        samples: Draws in an epoch.
        seed: 0 to 2**64 - 1.
    """

    sources: tuple[int | Scheduled, ...]
    points: tuple[Point, ...]
    ramp: bool
    samples: int
    seed: int = 0
    _segments: list[_Segment] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_order(self.samples, self.seed)
        for start, stop, first, last in _pieces(self.points, ramp=self.ramp):
            before = self._segments[-1].drawn_until(start) if self._segments else np.zeros(len(self.sources), np.int64)
            blocks = 1 if first == last else -(-(stop - start) // BLOCK)
            if blocks > _MOST_BLOCKS:
                raise ValueError(f"a ramp of {stop - start} samples: expected at most 2**36")
            low, high = (np.array(own, np.float64) / sum(own) for own in (first, last))
            if first == last:
                shares = share_block(low[None])
            else:  # the last block has the rest of the ramp
                starts = np.arange(blocks, dtype=np.float64) * BLOCK
                sizes = np.minimum(stop - start - starts, BLOCK)
                own = low + (high - low) * ((starts + sizes / 2) / (stop - start))[:, None]
                shares = np.concatenate([share_block(own[:-1]), share_block(own[-1:], int(sizes[-1]))])
            sums = np.zeros((blocks + 1, len(first)), np.int64)
            np.cumsum(shares, axis=0, out=sums[1:])
            slopes = tuple(((high - low) / (stop - start)).tolist())
            self._segments.append(_Segment(start, stop, first, last, before, shares, sums, slopes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples of each set."""
        return tuple(one if isinstance(one, int) else sum(one.sizes) for one in self.sources)

    @property
    def version(self) -> str:
        """Kind, parameters and version. A loader refuses a saved state whose past differs."""
        return f"scheduled({json.dumps(self._described(), separators=(',', ':'))})/{ORDER_VERSION}"

    def _described(self) -> dict[str, Any]:
        sources = [one if isinstance(one, int) else {**one._described(), "seed": one.seed} for one in self.sources]
        return {"sources": sources, "points": self.points, "ramp": self.ramp, "samples": self.samples}

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of an epoch: int64[n] to int64[n]."""
        check_positions(self.samples, epoch, positions)
        if (epoch + 1) * self.samples > LIMIT:
            raise ValueError(f"epoch {epoch} of a mixture ends beyond 2**48 draws")
        return self.samples_of(positions + epoch * self.samples)

    def samples_of(self, draws: I64) -> I64:
        """Return the samples of draws, numbered from the start of the schedule: int64[n] to int64[n]."""
        sets, numbers = self.sets_of(draws)
        sizes = np.array(self.sizes, np.int64)
        found = kernels.draw_samples(sets, numbers, sizes, derive(ORDER_VERSION, PART), self.seed)
        for number, source in enumerate(self.sources):
            if isinstance(source, Scheduled):  # has an order of its own
                mine = np.flatnonzero(sets == number)
                found[mine] = int(sizes[:number].sum()) + source.samples_of(numbers[mine])
        return found

    def sets_of(self, draws: I64) -> tuple[I64, I64]:
        """Return the set of each draw, and the number of earlier draws from that set."""
        if len(draws):
            for segment in self._segments:
                if segment.start <= draws.min() and draws.max() < segment.stop:
                    return segment.sets_of(draws)
        sets, numbers = np.empty_like(draws), np.empty_like(draws)
        for segment in self._segments:
            inside = np.flatnonzero((draws >= segment.start) & (draws < segment.stop))
            sets[inside], numbers[inside] = segment.sets_of(draws[inside])
        return sets, numbers

    def draw_of(self, number: int, earlier: int) -> int | None:
        """Return the draw from a set that comes after `earlier` others from it; None if that is not within 2**48."""
        for segment in self._segments:
            if int(segment.drawn_until(segment.stop)[number]) <= earlier:
                continue
            low, high = 0, segment.blocks - 1  # the last block before which at most `earlier` are drawn
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if int(segment.drawn(middle)[number]) <= earlier else (low, middle - 1)
            sets, before = segment.sets(low)
            wanted = earlier - int(segment.drawn(low)[number])
            place = np.flatnonzero((sets == number) & (before == wanted))
            return segment.start + low * BLOCK + int(place[0])
        return None

    def positions(self, epoch: int, sample: int) -> list[int]:
        """Return the positions of an epoch that have a sample, in ascending order."""
        start = epoch * self.samples
        return [draw - start for draw in self.draws_with(sample, start, start + self.samples)]

    def draws_with(self, sample: int, first: int, last: int) -> list[int]:
        """Return the draws of a sample between two draws, in ascending order."""
        before = np.cumsum((0, *self.sizes))
        number = int(np.searchsorted(before, sample, side="right")) - 1
        low, high = self.drawn(first)[number], self.drawn(last)[number]
        source, own = self.sources[number], sample - int(before[number])
        if isinstance(source, Scheduled):
            earlier = source.draws_with(own, low, high)
        else:
            earlier = []
            for one in range(low // source, -(-high // source)):
                key = derive(ORDER_VERSION, PART, source, self.seed, one, number)
                earlier.append(one * source + Permutation(source, key).find(own))
        draws = [self.draw_of(number, each) for each in earlier if low <= each < high]
        return sorted(draw for draw in draws if draw is not None)

    def drawn(self, draws: int) -> list[int]:
        """Return how many of the first `draws` draws are from each set."""
        segment = next(one for one in reversed(self._segments) if one.start <= draws)
        return [int(one) for one in segment.drawn_until(draws)]

    def pieces(self) -> list[_Piece]:
        """Return start, stop, first and last weights of the segments of the schedule."""
        return [(one.start, one.stop, one.first, one.last) for one in self._segments]


_Piece: TypeAlias = tuple[int, int, tuple[float, ...], tuple[float, ...]]
"""Start and stop of a segment, and its first and last weights."""

SampleOrder: TypeAlias = Order | Scheduled
"""An order of samples. Each sample has one position or several."""


def look_up(order: SampleOrder, table: U32, epoch: int, first: int, last: int, window: int = 1) -> U32:
    """Return the entries of a table of all samples, in the order of the positions from `first` to `last` - 1.

    Entries of the same `window` positions, counted from 0, may come in any order.
    """
    if isinstance(order, Sequential | Exact | Blocks):
        return order.look_up(table, epoch, first, last, window)
    return table[order.take(epoch, np.arange(first, last, dtype=np.int64))]


def _pieces(
    points: tuple[Point, ...], *, ramp: bool
) -> Iterator[tuple[int, int, tuple[float, ...], tuple[float, ...]]]:
    """Yield start, stop, first and last weights of the segments. Points that change nothing are left out."""
    start, weights = points[0]
    for number, (at, later) in enumerate(points[1:], 1):
        stays = number + 1 == len(points) or points[number + 1][1] == later
        if later == weights and (not ramp or stays):
            continue
        yield start, at, weights, later if ramp else weights
        start, weights = at, later
    yield start, LIMIT, weights, weights


def scheduled_of(version: str, seed: int) -> Scheduled | None:
    """Return the order that a version names; None if it is of another kind."""
    if not version.startswith("scheduled(") or not version.endswith(f")/{ORDER_VERSION}"):
        return None
    try:
        return _parsed(json.loads(version[len("scheduled(") : version.rindex(")/")]), seed)
    except (ValueError, TypeError, KeyError, IndexError):
        return None  # damaged: refused as any other version


def _parsed(own: dict[str, Any], seed: int) -> Scheduled:
    sources = tuple(one if isinstance(one, int) else _parsed(one, int(one["seed"])) for one in own["sources"])
    points = tuple((int(at), tuple(map(float, weights))) for at, weights in own["points"])
    return Scheduled(sources, points, bool(own["ramp"]), int(own["samples"]), seed)


def first_difference(old: Scheduled, new: Scheduled, draws: int) -> int | None:
    """Return the first of some draws at which two orders may differ; None if all of them are the same."""
    if len(old.sources) != len(new.sources) or old.seed != new.seed:
        return 0
    for number, (one, other) in enumerate(zip(old.sources, new.sources, strict=True)):
        if isinstance(one, Scheduled) and isinstance(other, Scheduled):
            inner = first_difference(one, other, old.drawn(draws)[number])
            if inner is not None:
                found = old.draw_of(number, inner)
                return draws if found is None else found
        elif one != other:
            return 0
    for mine, its in zip(old.pieces(), new.pieces(), strict=False):
        (start, stop, first, last), (_, other_stop, other_first, other_last) = mine, its
        ramps = first != last or other_first != other_last
        if first != other_first or last != other_last or (ramps and stop != other_stop):
            return start if start < draws else None
        if stop != other_stop:
            return min(stop, other_stop) if min(stop, other_stop) < draws else None
    return None
