"""Kernels of orders: they agree with NumPy and with the kernels whose work they do, and refuse wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel import kernels
from bushel._runtime import order


@given(size=st.integers(1, 3000), key=st.integers(0, 2**64 - 1), data=st.data())
def test_look_up_is_a_table_of_images(size: int, key: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(0, size - first))
    table = np.random.default_rng(key % 1000).integers(0, 2**32, size, np.uint32)
    images = kernels.permute(np.arange(first, first + count, dtype=np.int64), size, key)
    assert np.array_equal(kernels.look_up(table, first, count, key), table[images])


def test_look_up_refuses_values_out_of_range() -> None:
    table = np.arange(5, dtype=np.uint32)
    assert len(kernels.look_up(table[:0], 0, 0, 1)) == 0
    for first, count in ((-1, 2), (0, 6), (4, 2), (6, 0), (0, -1), (2**62, 2**62)):
        with pytest.raises(IndexError, match="first, count"):
            kernels.look_up(table, first, count, 1)
    with pytest.raises(TypeError, match="table: expected a contiguous one-dimensional uint32 array"):
        kernels.look_up(np.arange(5), 0, 1, 1)  # type: ignore[arg-type]


@given(
    sizes=st.lists(st.integers(0, 40), max_size=300),
    window=st.integers(1, 90),
    capacity=st.sampled_from([40, 41, 64, 1000, (1 << 16) - 1, 1 << 16, 1 << 20]),
)
def test_rows_are_counted_as_they_are_packed(sizes: list[int], window: int, capacity: int) -> None:
    scale = capacity // 40  # so that sizes of every capacity fill rows in many ways
    own = np.array(sizes, np.uint32) * np.uint32(scale)
    counts = kernels.count_rows(own, window, capacity)
    starts = range(0, len(own), window)
    assert counts.tolist() == [len(kernels.pack_rows(own[at : at + window], capacity)[1]) for at in starts]


def test_count_rows_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="sizes: expected at most capacity"):
        kernels.count_rows(np.array([3, 9], np.uint32), 2, 8)
    with pytest.raises(ValueError, match="window: expected 1 or more"):
        kernels.count_rows(np.array([3], np.uint32), 0, 8)
    with pytest.raises(ValueError, match="capacity"):
        kernels.count_rows(np.array([0], np.uint32), 1, 0)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 255, 256, 257, 258, 1025, 65536, 65537, 200_001])
@pytest.mark.parametrize("seed", [0, 1234, 2**32 - 1])
def test_the_shuffle_is_that_of_numpy(count: int, seed: int) -> None:
    draw = np.random.RandomState(seed)
    draw.random_sample(seed % 7)  # a state in the middle
    state: Any = draw.get_state(legacy=False)
    key, position = state["state"]["key"], state["state"]["pos"]
    items = np.arange(count, dtype=np.int32)
    wanted = items.copy()
    key_after, position_after = kernels.shuffle_mt19937(items, key, position)
    draw.shuffle(wanted)
    state = draw.get_state(legacy=False)
    assert np.array_equal(items, wanted)
    assert np.array_equal(key_after, state["state"]["key"])
    assert position_after == state["state"]["pos"]


def test_the_shuffle_refuses_other_states_and_items() -> None:
    key, items = np.zeros(624, np.uint32), np.arange(4, dtype=np.int32)
    for own, position in ((key[1:], 0), (key, 625), (key, -1)):
        with pytest.raises(ValueError, match="expected 624 words, and 0 to 624"):
            kernels.shuffle_mt19937(items, own, position)
    wide: Any = items.astype(np.int64)
    with pytest.raises(TypeError, match="items: expected a contiguous one-dimensional writable int32 array"):
        kernels.shuffle_mt19937(wide, key, 0)
    items.flags.writeable = False
    with pytest.raises(TypeError, match="writable"):
        kernels.shuffle_mt19937(items, key, 0)


@given(items=st.lists(st.integers(0, 99), max_size=200), window=st.integers(1, 70))
def test_sums_of_windows(items: list[int], window: int) -> None:
    table = np.random.default_rng(3).integers(0, 2**32, 100, np.uint32)
    found = kernels.window_sums(table, np.array(items, np.int32), window)
    assert found.tolist() == [
        int(table[items[at : at + window]].sum(dtype=np.int64)) for at in range(0, len(items), window)
    ]


@pytest.mark.parametrize("wrong", [-1, 100, 2**31 - 1])
def test_sums_refuse_items_beyond_the_table(wrong: int) -> None:
    table: Any = np.zeros(100, np.uint32)
    with pytest.raises(IndexError, match="items: expected 0 to the length of the table - 1"):
        kernels.window_sums(table, np.array([0, wrong], np.int32), 2)
    with pytest.raises(ValueError, match="window"):
        kernels.window_sums(table, np.array([0], np.int32), 0)


def derive_more(state: int, word: int) -> int:
    """Return the hash of the words of a state and one more."""
    return order.derive(state ^ word)


SHARES = st.lists(st.integers(1, 40), min_size=1, max_size=9)
SEEDS = st.integers(0, 2**64 - 1)


@given(shares=SHARES, state=SEEDS, draws=st.lists(st.integers(0, 2**50), max_size=20), first=st.integers(0, 2000))
def test_mixed_draws_are_those_of_permuted_blocks(shares: list[int], state: int, draws: list[int], first: int) -> None:
    own = np.array([*range(first, first + 150), *draws], np.int64)  # neighbours, and draws anywhere
    sets, numbers = kernels.mixed_draws(own, np.array(shares), state)
    width, set_of = sum(shares), np.repeat(np.arange(len(shares)), shares)
    for draw, found, number in zip(own.tolist(), sets.tolist(), numbers.tolist(), strict=True):
        block, place = divmod(draw, width)
        images = kernels.permute(np.arange(width), width, derive_more(state, block))
        assert found == set_of[images[place]]
        assert number == block * shares[found] + np.count_nonzero(set_of[images[:place]] == found)


@given(sizes=SHARES, state=SEEDS, seed=SEEDS, data=st.data())
def test_samples_of_draws_are_permuted_pass_by_pass(
    sizes: list[int], state: int, seed: int, data: st.DataObject
) -> None:
    pairs = st.tuples(st.integers(0, len(sizes) - 1), st.one_of(st.integers(0, 200), st.integers(0, 2**62 - 1)))
    draws = data.draw(st.lists(pairs, max_size=60))
    sets, numbers = (np.array([draw[place] for draw in draws], np.int64) for place in (0, 1))
    found = kernels.draw_samples(sets, numbers, np.array(sizes), state, seed)
    for (own, number), sample in zip(draws, found.tolist(), strict=True):
        passes, inside = divmod(number, sizes[own])
        key = state
        for word in (sizes[own], seed, passes, own):
            key = derive_more(key, word)
        [image] = kernels.permute(np.array([inside]), sizes[own], key).tolist()
        assert sample == sum(sizes[:own]) + image


@given(
    weights=st.lists(st.sampled_from([0, 0, 0, 1e-300, 0.1, 1, 3, 1e9]), min_size=1, max_size=200),
    buckets=st.integers(1, 300),
    key=SEEDS,
)
def test_draws_by_weight_are_found_as_numpy_finds_them(weights: list[float], buckets: int, key: int) -> None:
    sums, positions = np.cumsum([*weights, 1e-3]), np.arange(500)
    guide = kernels.guide_sums(sums, buckets)
    words = order.hash_words(positions, key) >> np.uint64(11)
    numbers = words.astype(np.float64) * 2.0**-53 * sums[-1]
    found = kernels.draw_by_weight(sums, guide, key, positions)
    assert np.array_equal(found, np.searchsorted(sums, numbers, side="right"))


def test_draws_by_weight_stay_inside_with_a_wrong_guide() -> None:
    sums, positions = np.cumsum(np.ones(50)), np.arange(100)
    for wrong in (np.full(12, -1), np.full(12, 2**62), np.arange(12)[::-1] * 7):
        found = kernels.draw_by_weight(sums, wrong.astype(np.int64), 1, positions)
        assert ((found >= 0) & (found <= 50)).all()
    assert (
        kernels.draw_by_weight(np.array([5e-324]), kernels.guide_sums(np.array([5e-324]), 9), 1, positions[:3]).max()
        <= 1
    )


@given(
    sets=st.lists(st.tuples(st.integers(-(2**60), 2**60 - 1), *[st.integers(0, 2**52)] * 2), min_size=1, max_size=20),
    ramp=st.integers(0, 2**36),
    draws=st.sets(st.integers(0, 3000), max_size=20),
)
def test_even_draws_are_from_the_sets_whatever_their_weights(
    sets: list[tuple[int, int, int]], ramp: int, draws: set[int]
) -> None:
    starts, firsts, lasts = (np.array([own[place] for own in sets], np.int64) for place in range(3))
    ascending, none = np.array(sorted(draws), np.int64), np.zeros(len(sets), np.int64)
    found, numbers, after, drawn = kernels.even_draws(ascending, starts, firsts, lasts, ramp, 0, none)
    assert ((found >= 0) & (found < len(sets))).all()
    assert len(numbers) == len(ascending)
    assert after == max(draws, default=-1) + 1
    assert len(drawn) == len(sets)


def test_even_draws_refuse_what_is_out_of_range() -> None:
    one, zero, whole = np.ones(1, np.int64), np.zeros(1, np.int64), np.array([2**52])
    for draws in (-one, np.array([3, 3]), np.array([4, 3]), np.array([2**48])):
        with pytest.raises(IndexError, match="draws: expected ascending numbers from next to 2"):
            kernels.even_draws(draws, zero, whole, whole, 0, 0, zero)
    with pytest.raises(IndexError, match="draws: expected ascending"):
        kernels.even_draws(one, zero, whole, whole, 0, 2, zero)
    for starts, firsts, lasts, drawn in (
        (zero, whole, -one, zero),
        (zero, whole + 1, whole, zero),
        (zero, whole, whole, -one),
    ):
        with pytest.raises(ValueError, match="a number is out of range"):
            kernels.even_draws(one, starts, firsts, lasts, 0, 0, drawn)
    for starts, firsts, lasts, drawn in (
        (zero[:0],) * 4,
        (zero, whole, whole, zero[:0]),
        (np.zeros(2049, np.int64),) * 4,
    ):
        with pytest.raises(ValueError, match="expected one of each"):
            kernels.even_draws(one, starts, firsts, lasts, 0, 0, drawn)
    with pytest.raises(ValueError, match="ramp: expected"):
        kernels.even_draws(one, zero, whole, whole, 2**36 + 1, 0, zero)


def test_draws_refuse_what_is_out_of_range() -> None:
    one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    for shares in (zero, one[:0], np.array([2**48, 1])):
        with pytest.raises(ValueError, match="shares: expected"):
            kernels.mixed_draws(one, shares, 0)
    with pytest.raises(IndexError, match="draws: expected 0 to"):
        kernels.mixed_draws(-one, one, 0)
    for sets in (one, -one):
        with pytest.raises(IndexError, match="sets: expected 0 to the number of sizes - 1"):
            kernels.draw_samples(sets, zero, one, 0, 0)
    with pytest.raises(ValueError, match="numbers: expected"):
        kernels.draw_samples(zero, -one, one, 0, 0)
    with pytest.raises(ValueError, match="sizes: expected"):
        kernels.draw_samples(zero, zero, zero, 0, 0)
    with pytest.raises(ValueError, match="the same length"):
        kernels.draw_samples(zero, one[:0], one, 0, 0)
    for sums in (np.zeros(1), np.zeros(0), np.array([np.nan])):
        with pytest.raises(ValueError, match="sums: expected"):
            kernels.guide_sums(sums, 1)
        with pytest.raises(ValueError, match="sums: expected"):
            kernels.draw_by_weight(sums, np.zeros(3, np.int64), 0, zero)
    with pytest.raises(ValueError, match="buckets: expected"):
        kernels.guide_sums(np.ones(1), 0)
    with pytest.raises(ValueError, match="guide: expected"):
        kernels.draw_by_weight(np.ones(1), one, 0, zero)
    with pytest.raises(TypeError, match="sums: expected a contiguous one-dimensional float64 array"):
        kernels.guide_sums(one, 1)  # type: ignore[arg-type]
