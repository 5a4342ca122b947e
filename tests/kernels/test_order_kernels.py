"""Kernels of orders: they agree with NumPy and with the kernels whose work they do, and refuse wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel import kernels


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
