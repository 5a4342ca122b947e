"""Orders of mixtures with schedules: exact shares at every point, inverses, and the past that a change keeps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bushel._runtime.scheduled import BLOCK, Scheduled, evenly, first_difference, scheduled_of, share_block

WEIGHTS = st.lists(st.integers(0, 20) | st.floats(0, 5), min_size=2, max_size=6).filter(lambda own: sum(own) > 0.01)


@given(weights=WEIGHTS)
def test_every_place_of_a_block_has_its_shares(weights: list[float]) -> None:
    [shares] = share_block(np.array([weights], np.float64))
    exact = np.array(weights, np.float64) / sum(weights)
    assert shares.sum() == BLOCK
    assert (np.abs(shares - exact * BLOCK) < 1).all()
    assert not shares[np.array(weights) == 0].any()
    sets, before = evenly(tuple(shares.tolist()))
    for number, share in enumerate(shares.tolist()):
        drawn = np.cumsum(sets == number)
        assert drawn[-1] == share
        assert np.abs(drawn - np.arange(1, BLOCK + 1) * share / BLOCK).max() < 1
        assert (before[sets == number] == np.arange(share)).all()


def weights_at(order: Scheduled, draws: int) -> Any:
    """The exact weight of each set for each of the first draws, of sum 1."""
    points = [(at, np.array(own, np.float64) / sum(own)) for at, own in order.points]
    found = np.empty((draws, len(order.sources)))
    for (at, own), (until, after) in pairwise([*points, (max(draws, points[-1][0]), points[-1][1])]):
        grown = np.arange(until - at)[:, None] / max(1, until - at) if order.ramp else 0
        found[at:until] = (own + grown * (after - own))[: max(0, draws - at)]
    return found


SCHEDULE = ((0, (1.0, 0.0, 0.0)), (10_000, (3.0, 3.0, 0.0)), (17_001, (0.2, 0.2, 0.6)))


@pytest.mark.parametrize("ramp", [False, True])
def test_shares_are_exact_at_every_point(ramp: bool) -> None:
    order = Scheduled((1000, 700, 300), SCHEDULE, ramp, 30_000, 3)
    sets, numbers = order.sets_of(np.arange(30_000))
    due = np.cumsum(weights_at(order, 30_000), axis=0)
    for number in range(3):
        drawn = np.cumsum(sets == number)
        assert (numbers[sets == number] == np.arange(drawn[-1])).all()
        behind = drawn - due[:, number]
        windows = behind[BLOCK:] - behind[:-BLOCK]  # of each 4096 draws that follow each other
        assert np.abs(windows).max() < (3 if ramp else 2)
        for draw in (0, 5, BLOCK, 9999, 10_000, 12_345, 17_000, 17_001, 29_999):
            assert order.drawn(draw)[number] == (drawn[draw - 1] if draw else 0)
        for earlier in (0, 1, 500, int(drawn[-1]) - 1):
            assert order.draw_of(number, earlier) == int(np.searchsorted(drawn, earlier + 1))
    if not ramp:
        assert not sets[:10_000].any()
        assert set(sets[10_000:17_001].tolist()) == {0, 1}


@settings(max_examples=25)
@given(
    sets=st.integers(2, 6),
    starts=st.lists(st.integers(1, 2 * BLOCK), max_size=3, unique=True),
    ramp=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_no_place_is_farther_from_its_share_than_documented(
    sets: int, starts: list[int], ramp: bool, seed: int
) -> None:
    random, starts, end = np.random.default_rng(seed), [0, *sorted(starts)], 3 * BLOCK
    weights = [random.random(sets) + 1e-3 for _ in starts]
    points = tuple((start, tuple(own.tolist())) for start, own in zip(starts, weights, strict=True))
    found, _ = Scheduled((10**6,) * sets, points, ramp, end).sets_of(np.arange(end))
    due, allowed = np.empty((end, sets)), np.empty(end)
    for number, (start, own) in enumerate(zip(starts, weights, strict=True)):
        stop = starts[number + 1] if number + 1 < len(starts) else end
        after = weights[number + 1] if ramp and number + 1 < len(starts) else own
        low, high = own / own.sum(), after / after.sum()
        places = (np.arange(stop - start) + 0.5) / (stop - start)
        due[start:stop] = low + (high - low) * places[:, None]
        changes = 2 * (number + 1) if ramp else number  # with the ramp that is going on
        allowed[start:stop] = 1 + changes + np.arange(start + 1, stop + 1) / BLOCK
    drawn = np.cumsum(found[:, None] == np.arange(sets), axis=0)
    assert (np.abs(drawn - np.cumsum(due, axis=0)).max(axis=1) < allowed + 1e-6).all()


def test_sets_are_read_pass_after_pass() -> None:
    order = Scheduled((50, 70), ((0, (0.5, 0.5)),), False, 1000, 4)
    whole = np.concatenate([order.take(epoch, np.arange(1000)) for epoch in range(3)])
    first = whole[whole < 50]
    for number in range(len(first) // 50):
        assert sorted(first[number * 50 : number * 50 + 50].tolist()) == list(range(50))
    assert first[:50].tolist() != first[50:100].tolist()
    for epoch in range(3):
        for sample in (0, 49, 50, 119):
            positions = order.positions(epoch, sample)
            assert positions == np.flatnonzero(whole[epoch * 1000 :][:1000] == sample).tolist()


def test_mixtures_of_mixtures() -> None:
    inner = Scheduled((50, 70), ((0, (0.5, 0.5)), (300, (0.0, 1.0))), False, 100, 4)
    order = Scheduled((30, inner), ((0, (1.0, 3.0)),), False, 1000, 9)
    sets, numbers = order.sets_of(np.arange(1000))
    found = order.take(0, np.arange(1000))
    assert (found[sets == 1] == 30 + inner.samples_of(numbers[sets == 1])).all()
    assert order.sizes == (30, 120)
    for sample in (3, 31, 149):
        assert order.positions(1, sample) == np.flatnonzero(order.take(1, np.arange(1000)) == sample).tolist()
    again = scheduled_of(order.version, 9)
    assert again is not None
    assert (again.take(2, np.arange(1000)) == order.take(2, np.arange(1000))).all()
    assert scheduled_of("exact/1", 9) is None
    assert scheduled_of("scheduled({)/1", 9) is None


def made(*points: tuple[int, tuple[float, ...]], ramp: bool = False) -> Scheduled:
    return Scheduled((500, 400), points, ramp, 20_000, 1)


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        (made((0, (1, 0))), made((0, (1, 0)), (7000, (1, 1))), 7000),
        (made((0, (1, 0)), (7000, (1, 1))), made((0, (1, 0)), (8000, (1, 1))), 7000),
        (made((0, (1, 0)), (7000, (1, 1))), made((0, (1, 0)), (7000, (1, 2))), 7000),
        (made((0, (1, 0))), made((0, (1, 1))), 0),
        (made((0, (1, 0))), made((0, (1, 0)), (500, (1, 0))), None),  # a point that changes nothing
        (made((0, (1, 0)), (9000, (0, 1)), ramp=True), made((0, (1, 0)), (9001, (0, 1)), ramp=True), 0),
        (made((0, (1, 0)), (90, (0, 1)), ramp=True), made((0, (1, 0)), (90, (0, 1)), (95, (0, 1)), ramp=True), None),
    ],
)
def test_orders_part_where_their_schedules_do(old: Scheduled, new: Scheduled, part: int | None) -> None:
    assert first_difference(old, new, 1 << 40) == part
    if part is not None:
        assert first_difference(old, new, part) is None
        assert (old.samples_of(np.arange(part)) == new.samples_of(np.arange(part))).all()
        draws = np.arange(part, part + 5000)
        assert (old.samples_of(draws) != new.samples_of(draws)).any()


def test_a_change_in_an_inner_mixture_counts_where_it_is_drawn() -> None:
    inner = made((0, (1, 0)))
    other = made((0, (1, 0)), (100, (0, 1)))
    orders = [Scheduled((90, one), ((0, (1.0, 1.0)),), False, 1000, 1) for one in (inner, other)]
    part = first_difference(orders[0], orders[1], 1000)
    assert part is not None
    assert abs(part - 200) < 3
    assert first_difference(orders[0], orders[1], part) is None
    before, after = (order.samples_of(np.arange(1000)) for order in orders)
    assert int(np.argmax(before != after)) >= part
    assert first_difference(orders[0], Scheduled((91, inner), ((0, (1.0, 1.0)),), False, 1000, 1), 1000) == 0
