"""Orders of mixtures with schedules: exact shares at every point, inverses, and the past that a change keeps."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bushel._runtime.scheduled import ONE, Point, Scheduled, first_difference, parts_of, pieces, scheduled_of

WEIGHT = st.integers(0, 20) | st.floats(0, 5) | st.floats(0, 1e-3)


@st.composite
def schedules(draw: st.DrawFn, most_sets: int = 6, last: int = 3000) -> tuple[tuple[Point, ...], bool]:
    sets = draw(st.integers(1, most_sets))
    starts = [0, *sorted(draw(st.sets(st.integers(1, last), max_size=3)))]
    weights = st.lists(WEIGHT, min_size=sets, max_size=sets).filter(lambda own: sum(own) > 1e-4)
    return tuple((start, tuple(map(float, draw(weights)))) for start in starts), draw(st.booleans())


# The document, word for word, one draw at a time.


def parts_by_document(weights: tuple[float, ...]) -> list[int]:
    parts = [int(weight / sum(weights) * 2.0**52) for weight in weights]
    parts = [max(part, 2**32) if weight > 0 else 0 for part, weight in zip(parts, weights, strict=True)]
    parts[parts.index(max(parts))] += 2**52 - sum(parts)
    return parts


def share_by_document(u: int, v: int, ramp: int, x: int) -> int:
    y = min(x, ramp)
    return (y * (u * (2 * ramp - y) + v * y) // (2 * ramp) if ramp else 0) + (x - y) * v


def last_turn(b: int, k: int, slack: int, u: int, v: int, ramp: int) -> float:
    """The smallest z with b + share(z) > (k + 1) * 2**52 - slack."""
    most = (k + 1) * 2**52 - slack - b
    if share_by_document(u, v, ramp, ramp) <= most and not v:
        return float("inf")
    high: int = next(z for z in (2**n - 1 for n in count()) if share_by_document(u, v, ramp, z) > most)
    low = high // 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if share_by_document(u, v, ramp, middle) > most else (middle + 1, high)
    return high


def draws_by_document(points: tuple[Point, ...], ramp: bool, draws: int) -> list[tuple[int, int]]:
    sets = range(len(points[0][1]))
    c, d, found = [0 for _ in sets], [0 for _ in sets], list[tuple[int, int]]()
    order = Scheduled((1,) * len(sets), points, ramp, 1)
    for start, stop, first, last in pieces(order):
        u, v = parts_by_document(first), parts_by_document(last)
        length = 0 if first == last else stop - start
        drawn = [i for i in sets if u[i] or v[i]]
        b = {i: d[i] - c[i] * 2**52 for i in drawn}
        each, rest = divmod(-sum(b.values()), len(drawn))
        for place, i in enumerate(drawn):
            b[i] += each + (place < rest)
        slack = 2**52 // (2 * len(drawn) - 2) - len(drawn) if len(drawn) > 1 else 0
        k = dict.fromkeys(drawn, 0)
        for x in range(min(stop, draws) - start):
            ready = [i for i in drawn if b[i] + share_by_document(u[i], v[i], length, x + 1) - k[i] * 2**52 >= slack]
            i = min(ready, key=lambda i: last_turn(b[i], k[i], slack, u[i], v[i], length))
            found.append((i, c[i] + k[i]))
            k[i] += 1
        for i in drawn:
            c[i], d[i] = c[i] + k[i], d[i] + share_by_document(u[i], v[i], length, stop - start)
        if stop >= draws:
            break
    return found


def made_of(schedule: tuple[tuple[Point, ...], bool], draws: int = 5000) -> Scheduled:
    return Scheduled((10**6,) * len(schedule[0][0][1]), *schedule, draws)


@settings(max_examples=30, deadline=None)
@given(schedule=schedules(5, 150))
def test_the_draws_are_those_of_the_document(schedule: tuple[tuple[Point, ...], bool]) -> None:
    sets, numbers = made_of(schedule).sets_of(np.arange(300))
    assert list(zip(sets.tolist(), numbers.tolist(), strict=True)) == draws_by_document(*schedule, 300)


@given(schedule=schedules(), draws=st.lists(st.integers(0, 4999), min_size=1, max_size=8))
def test_any_draw_is_the_one_that_comes_when_drawing_from_the_start(
    schedule: tuple[tuple[Point, ...], bool], draws: list[int]
) -> None:
    sets, numbers = made_of(schedule).sets_of(np.arange(5000))
    order = made_of(schedule)
    for own in (draws, draws[:1], sorted(set(draws))):
        there, before = order.sets_of(np.array(own))
        assert there.tolist() == sets[own].tolist()
        assert before.tolist() == numbers[own].tolist()
    for draw in draws:
        assert order.draw_of(int(sets[draw]), int(numbers[draw])) == draw
        assert order.drawn(draw) == np.bincount(sets[:draw], minlength=len(schedule[0][0][1])).tolist()


def test_draws_far_from_each_other_are_found_without_those_between() -> None:
    weights = (0.5, 0.3, 0.199, 0.001)
    order = made_of((((0, weights), (10**12, weights[::-1])), False))
    for draw in (0, 10**11, 10**12 - 1, 10**12, 2**48 - 1):
        [own], [number] = order.sets_of(np.array([draw]))
        assert order.draw_of(int(own), int(number)) == draw
        due = min(draw, 10**12) * np.array(weights) + max(0, draw - 10**12) * np.array(weights[::-1])
        assert np.abs(np.array(order.drawn(draw)) - due).max() < 1.5 + draw * 2.0**-50
    ramp = made_of((((0, (1.0, 0.0)), (2**36, (0.0, 1.0))), True))
    [own], [number] = ramp.sets_of(np.array([2**35]))
    assert abs(ramp.drawn(2**35)[1] - 2**33) <= 1
    assert ramp.draw_of(int(own), int(number)) == 2**35


def behind(order: Scheduled, draws: int) -> npt.NDArray[np.float64]:
    """How much more each set was drawn after each draw than its exact share."""
    due = np.zeros((draws, len(order.sources)))
    for start, stop, first, last in pieces(order):
        low, high = (np.array(own) / sum(own) for own in (first, last))
        places = (np.arange(min(stop, draws) - start) + 0.5) / (stop - start)
        due[start:stop] = low + (high - low) * places[:, None]
    drawn: Any = np.cumsum(order.sets_of(np.arange(draws))[0][:, None] == np.arange(len(order.sources)), axis=0)
    found: npt.NDArray[np.float64] = drawn - np.cumsum(due, axis=0)
    return found


@given(schedule=schedules(8), ramp=st.booleans())
def test_shares_are_exact_at_every_draw(schedule: tuple[tuple[Point, ...], bool], ramp: bool) -> None:
    points, sets = schedule[0], len(schedule[0][0][1])
    own = (points[0], (4000, points[-1][1])) if ramp else points[:1]
    drawn = int(sum(any(weights[number] for _, weights in own) for number in range(sets)))
    order, draws = made_of((own, ramp)), 4000
    assert np.abs(behind(order, draws)).max() < (1 - 1 / (2 * drawn - 2) if drawn > 1 else 0) + 0.01  # of small weights
    everywhere = behind(made_of(schedule), 5000)
    assert np.abs(everywhere).max() < 1.5  # what was drawn before a change does not depend on it
    for start, _, first, last in pieces(made_of(schedule)):
        if start < 4999:
            still = [number for number in range(sets) if not first[number] and not last[number]]
            assert not np.isin(made_of(schedule).sets_of(np.array([start, start + 1]))[0], still).any()


def test_small_weights_have_at_least_a_millionth() -> None:
    assert parts_of([1, 1e-9, 0]).tolist() == [ONE - (1 << 32), 1 << 32, 0] == parts_by_document((1, 1e-9, 0))
    assert parts_of([1, 1, 1]).tolist() == [ONE // 3 + 1, ONE // 3, ONE // 3]
    order = Scheduled((100, 100), ((0, (1.0, 1e-9)),), False, 10**7, 1)
    assert order.drawn(5 << 20) == [(5 << 20) - 5, 5]
    with pytest.raises(ValueError, match="2049 datasets: expected at most 2048"):
        Scheduled((1,) * 2049, ((0, (1.0,) * 2049),), False, 1)
    for weights in ([0.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1e308, 1e308]):
        with pytest.raises(ValueError, match="expected finite weights"):
            parts_of(weights)


def test_sets_are_read_pass_after_pass() -> None:
    order = Scheduled((50, 70), ((0, (0.5, 0.5)),), False, 1000, 4)
    whole = np.concatenate([order.take(epoch, np.arange(1000)) for epoch in range(3)])
    first = whole[whole < 50]
    for number in range(len(first) // 50):
        assert sorted(first[number * 50 : number * 50 + 50].tolist()) == list(range(50))
    assert first[:50].tolist() != first[50:100].tolist()
    for epoch in range(3):
        assert order.take(epoch, np.arange(1000)).tolist() == whole[epoch * 1000 :][:1000].tolist()


def test_mixtures_of_mixtures() -> None:
    inner = Scheduled((50, 70), ((0, (0.5, 0.5)), (300, (0.0, 1.0))), False, 100, 4)
    order = Scheduled((30, inner), ((0, (1.0, 3.0)),), False, 1000, 9)
    sets, numbers = order.sets_of(np.arange(1000))
    found = order.take(0, np.arange(1000))
    assert (found[sets == 1] == 30 + inner.samples_of(numbers[sets == 1])).all()
    assert order.sizes == (30, 120)
    again = scheduled_of(order.version, 9)
    assert again is not None
    assert (again.take(2, np.arange(1000)) == order.take(2, np.arange(1000))).all()
    assert scheduled_of("exact/1", 9) is None
    assert scheduled_of("scheduled({)/2", 9) is None
    assert scheduled_of(order.version.replace("30,", '"x",'), 9) is None
    assert scheduled_of(order.version.replace("3.0", "-3.0"), 9) is None


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
