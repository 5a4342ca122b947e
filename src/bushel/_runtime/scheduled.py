"""The order of a mixture with a schedule: weights that change with the number of samples drawn.

Sets follow each other so evenly that at every draw, each set has its share to within one draw;
where weights change, what was drawn before does not depend on it. `docs/order.md` specifies the
order. Nothing here does I/O.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import force_setattr

from bushel import kernels

from .arrays import I64, U32
from .draws import Order
from .order import (
    LIMIT,
    OncePerEpoch,
    check_order,
    draw_samples,
    draws_of_epoch,
)

ONE = 1 << 52
"""A draw, in the units of shares."""

_VERSION = 2
_LEAST = 1 << 32
_LONGEST_RAMP = 1 << 36
_MOST_SETS = 1 << 11  # so that the largest part can give the smallest ones what they lack
_FEWEST, _MOST = 1 << 12, 1 << 16  # draws that are searched together

Point = tuple[int, tuple[float, ...]]
"""A number of draws, and the weights of the sets from there on."""


def parts_of(weights: Sequence[float]) -> I64:
    """Return the part of each weight in their sum, in units of 2**-52; at least 2**-20, unless the weight is 0."""
    weight_of_set = np.array(weights, np.float64)
    if not (0 < sum(weights) < np.inf and (weight_of_set >= 0).all()):
        raise ValueError(
            f"weights {weights}: expected finite weights from 0, with a finite sum above 0"
        )
    parts: I64 = np.floor(weight_of_set / sum(weights) * ONE).astype(np.int64)
    parts[(weight_of_set > 0) & (parts < _LEAST)] = _LEAST
    # what rounding left is for the first of the largest
    parts[np.argmax(parts)] += ONE - parts.sum()
    return parts


class _Segment(Struct, frozen=True, eq=False):
    """Draws between two points of a schedule."""

    start: int  # the first draw
    stop: int  # the draw after the last one
    before: I64  # int64[sets], the draws from each set before the segment
    # the share of each set in the draws before the segment, in units of 2**-52 draw
    due: tuple[int, ...]
    sets: I64  # int64[drawn], the sets that are drawn in the segment
    # for each of these, what it lacks at the start, and its weights at the start and the end
    shares: tuple[I64, I64, I64]
    ramp: int  # number of draws from the first weights to the last ones; 0 if they are the same
    _latest: list[tuple[int, I64]] = field(default_factory=list)

    def sets_of(self, draws: I64) -> tuple[I64, I64]:
        """Return the set of each draw of the segment, and the number of earlier draws from that set."""
        if not len(draws):
            return draws.copy(), draws.copy()
        inside, places = draws - self.start, None
        if len(inside) > 1 and not (inside[1:] > inside[:-1]).all():
            inside, places = np.unique(inside, return_inverse=True)
        sets_drawn, numbers, _ = self._drawn(inside)
        if places is not None:
            sets_drawn, numbers = sets_drawn[places], numbers[places]
        if len(self.sets) == len(self.before):
            sets = sets_drawn
        else:
            sets = self.sets[sets_drawn]
        return sets, self.before[sets] + numbers if self.start else numbers

    def _drawn(self, inside: I64) -> tuple[I64, I64, I64]:
        """Return the sets of ascending draws, the numbers of earlier ones, and int64[drawn]: the draws after them."""
        latest = next(
            (drawn for drawn in self._latest if drawn[0] <= inside[0]),
            (0, np.zeros(len(self.sets), np.int64)),
        )
        sets, numbers, after, drawn = kernels.even_draws(inside, *self.shares, self.ramp, *latest)
        self._latest[:] = [(after, drawn)]
        return sets, numbers, drawn

    def drawn_until(self, draw: int) -> I64:
        """Return int64[sets], the draws from each set before a draw of the segment, from the start of the schedule."""
        drawn = self.before.copy()
        if draw > self.start:
            drawn[self.sets] += self._drawn(np.array([draw - 1 - self.start], np.int64))[2]
        return drawn

    def draw_of(self, number: int, earlier: int) -> int | None:
        """Return the draw of the segment from a set that comes after `earlier` others from it; None if it is later."""
        if int(self.drawn_until(self.stop)[number]) <= earlier:
            return None
        draws = range(self.start, self.stop)
        low = self.start + bisect_left(
            draws, (earlier - 1) * ONE, key=partial(self.due_until, number)
        )
        many = _FEWEST
        while low > self.start and int(self.drawn_until(low)[number]) > earlier:
            low, many = max(self.start, low - many), 2 * many
        while True:
            sets, numbers = self.sets_of(np.arange(low, min(low + many, self.stop)))
            if len(place := np.flatnonzero((sets == number) & (numbers == earlier))):
                return low + int(place[0])
            low, many = low + many, min(2 * many, _MOST)

    def due_until(self, number: int, draw: int) -> int:
        """Return the share of a set in the draws before a draw of the segment, in units of 2**-52 draw."""
        places = np.flatnonzero(self.sets == number).tolist()
        if not places:
            return self.due[number]
        first, last = (int(shares[places[0]]) for shares in self.shares[1:])
        inside = min(draw - self.start, self.ramp)
        on_ramp = 0
        if self.ramp:
            on_ramp = inside * (first * (2 * self.ramp - inside) + last * inside) // (2 * self.ramp)
        return self.due[number] + on_ramp + (draw - self.start - inside) * last


def _segment(piece: _Piece, before: I64, due: tuple[int, ...]) -> _Segment:
    """Return a segment, before which the sets were drawn `before` times, and should have been `due` * 2**-52 times."""
    start, stop, first, last = piece
    firsts, lasts = parts_of(first), parts_of(last)
    sets = np.flatnonzero((firsts > 0) | (lasts > 0))
    lacking = [due[number] - int(before[number]) * ONE for number in sets.tolist()]
    # what the other sets lack, or have too much, is divided equally
    equal_share, rest = divmod(-sum(lacking), len(lacking))
    starts = np.array(
        [lack + equal_share + (number < rest) for number, lack in enumerate(lacking)], np.int64
    )
    ramp = 0 if first == last else stop - start
    return _Segment(start, stop, before, due, sets, (starts, firsts[sets], lasts[sets]), ramp)


class Scheduled(Struct, frozen=True, eq=False):
    """Sets of samples, numbered consecutively, by weights that change with the number of draws.

    A set is read in a random order, pass after pass, another for each pass; or it is such an order
    itself. An epoch is `samples` draws, and the next epoch continues where it ends.
    """

    sources: tuple[int | Scheduled, ...]  # for each set, its number of samples, or its own order
    # the weights from some numbers of draws on, ascending, the first from 0 on
    points: tuple[Point, ...]
    # whether weights change evenly between points; if not, they stay until the next point
    ramp: bool
    samples: int  # draws in an epoch
    seed: int = 0  # 0 to 2**64 - 1
    _segments: list[_Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_order(self)
        force_setattr(self, "_segments", [])  # a changed copy has others
        if len(self.sources) > _MOST_SETS:
            raise ValueError(
                f"a mixture of {len(self.sources)} datasets: expected at most {_MOST_SETS}"
            )
        before, due = np.zeros(len(self.sources), np.int64), (0,) * len(self.sources)
        for piece in pieces(self):
            start, stop, first, last = piece
            if first != last and stop - start > _LONGEST_RAMP:
                raise ValueError(f"a ramp of {stop - start} samples: expected at most 2**36")
            if self._segments:
                latest = self._segments[-1]
                before = latest.drawn_until(start)
                due = tuple(latest.due_until(number, start) for number in range(len(self.sources)))
            self._segments.append(_segment(piece, before, due))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples of each set."""
        return tuple(
            source if isinstance(source, int) else sum(source.sizes) for source in self.sources
        )

    @property
    def version(self) -> str:
        """Kind, parameters and version. A loader refuses a saved state whose past differs."""
        return f"scheduled({json.dumps(self._described(), separators=(',', ':'))})/{_VERSION}"

    def _described(self) -> dict[str, Any]:
        sources = [
            source if isinstance(source, int) else {**source._described(), "seed": source.seed}
            for source in self.sources
        ]
        return {
            "sources": sources,
            "points": self.points,
            "ramp": self.ramp,
            "samples": self.samples,
        }

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of an epoch: int64[n] to int64[n]."""
        return self.samples_of(draws_of_epoch(self.samples, epoch, positions))

    def samples_of(self, draws: I64) -> I64:
        """Return the samples of draws, numbered from the start of the schedule: int64[n] to int64[n]."""
        sets, numbers = self.sets_of(draws)
        sizes = self.sizes
        samples = draw_samples(sets, numbers, sizes, self.seed)
        for number, source in enumerate(self.sources):
            if isinstance(source, Scheduled):  # has an order of its own
                mine = np.flatnonzero(sets == number)
                samples[mine] = sum(sizes[:number]) + source.samples_of(numbers[mine])
        return samples

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
        """Return the draw from a set that comes after `earlier` others from it; None if it is not before 2**48."""
        draws = (segment.draw_of(number, earlier) for segment in self._segments)
        return next((draw for draw in draws if draw is not None), None)

    def drawn(self, draws: int) -> list[int]:
        """Return how many of the first `draws` draws are from each set."""
        segment = next(
            candidate for candidate in reversed(self._segments) if candidate.start <= draws
        )
        return [int(count) for count in segment.drawn_until(draws)]


_Piece = tuple[int, int, tuple[float, ...], tuple[float, ...]]
"""Start and stop of a segment, and its first and last weights."""

SampleOrder = Order | Scheduled
"""An order of samples. Each sample has one position or several."""


def look_up(
    order: SampleOrder, table: U32, epoch: int, first: int, last: int, window: int = 1
) -> U32:
    """Return the entries of a table of all samples, in the order of the positions from `first` to `last` - 1.

    Entries of the same `window` positions, counted from 0, may come in any order.
    """
    if isinstance(order, OncePerEpoch):
        return order.look_up(table, epoch, first, last, window)
    return table[order.take(epoch, np.arange(first, last))]


def pieces(order: Scheduled) -> Iterator[_Piece]:
    """Yield start, stop, first and last weights of the segments. Points that change nothing are left out."""
    points, ramp = order.points, order.ramp
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
    if not version.startswith("scheduled(") or not version.endswith(f")/{_VERSION}"):
        return None
    try:
        return _parsed(json.loads(version[len("scheduled(") : version.rindex(")/")]), seed)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        return None  # damaged: refused as any other version


def _parsed(description: dict[str, Any], seed: int) -> Scheduled:
    sources = tuple(
        source if isinstance(source, int) else _parsed(source, int(source["seed"]))
        for source in description["sources"]
    )
    points = tuple((int(at), tuple(map(float, weights))) for at, weights in description["points"])
    return Scheduled(sources, points, bool(description["ramp"]), int(description["samples"]), seed)


def first_difference(old: Scheduled, new: Scheduled, draws: int) -> int | None:
    """Return the first of some draws at which two orders may differ; None if all of them are the same."""
    if len(old.sources) != len(new.sources) or old.seed != new.seed:
        return 0
    for number, (old_source, new_source) in enumerate(zip(old.sources, new.sources, strict=True)):
        if isinstance(old_source, Scheduled) and isinstance(new_source, Scheduled):
            inner = first_difference(old_source, new_source, old.drawn(draws)[number])
            if inner is not None:
                draw = old.draw_of(number, inner)
                return draws if draw is None else draw
        elif old_source != new_source:
            return 0
    for mine, its in zip(pieces(old), pieces(new), strict=False):
        (start, stop, first, last), (_, other_stop, other_first, other_last) = mine, its
        ramps = first != last or other_first != other_last
        if first != other_first or last != other_last or (ramps and stop != other_stop):
            return start if start < draws else None
        if stop != other_stop:
            if min(stop, other_stop) < draws:
                return min(stop, other_stop)
            return None
    return None
