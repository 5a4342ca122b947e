from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bushel._index.elements import Ranges, at_place

NUMBERS = st.integers(-40, 40)


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 20)), min_size=1), st.lists(NUMBERS))
def test_elements_outside_are_clamped_and_flagged(rows: list[tuple[int, int]], offsets: list[int]) -> None:
    start, counts = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    ranges = Ranges.regular(start, np.array(offsets, np.int64), counts)
    assert ranges.sizes.tolist() == [len(offsets)] * len(rows)
    for place, (own, count) in enumerate(rows):
        wanted = [own + offset for offset in offsets]
        numbers = at_place(ranges, place)
        assert isinstance(numbers, np.ndarray)
        assert numbers.tolist() == [min(max(number, 0), count - 1) for number in wanted]
        assert ranges.flags(place).tolist() == [not 0 <= number < count for number in wanted]
    places = np.arange(0, len(rows), 2)
    numbers, sizes = ranges.at(places)
    assert numbers.tolist() == [number for place in places.tolist() for number in ranges.of(place).tolist()]
    assert sizes.tolist() == [len(offsets)] * len(places)


def test_elements_of_different_number() -> None:
    parts = [(np.array([3, 4]), np.array([False, True])), (np.zeros(0, np.int64), np.zeros(0, np.bool_))]
    ranges = Ranges.joined([*parts, *parts])
    assert [ranges.of(place).tolist() for place in range(4)] == [[3, 4], [], [3, 4], []]
    assert ranges.sizes.tolist() == [2, 0, 2, 0]
    assert ranges.flags(2).tolist() == [False, True]
    assert ranges.chosen(slice(-1, None), "a window").of(2).tolist() == [4]
    assert Ranges.joined([]).sizes.tolist() == []


def test_elements_that_are_the_same_for_all() -> None:
    assert at_place(None, 3) is None
    assert at_place(slice(1, 2), 3) == slice(1, 2)
