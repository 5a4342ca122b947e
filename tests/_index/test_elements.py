from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bushel._index.elements import Ranges, at_place, neighbours

NUMBERS = st.integers(-40, 40)


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 20)), min_size=1), st.lists(NUMBERS))
def test_neighbours_are_clamped_and_flagged(rows: list[tuple[int, int]], offsets: list[int]) -> None:
    at, last = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    numbers, outside = neighbours(at, np.array(offsets, np.int64), last)
    for row, (own, high) in enumerate(rows):
        wanted = [own + offset for offset in offsets]
        assert numbers[row].tolist() == [min(max(number, 0), high) for number in wanted]
        assert outside[row].tolist() == [not 0 <= number <= high for number in wanted]


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 20)), min_size=1), st.lists(NUMBERS))
def test_ranges_of_one_sample_are_those_of_the_batch(rows: list[tuple[int, int]], offsets: list[int]) -> None:
    start, counts = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    ranges = Ranges(start, np.array(offsets, np.int64), counts)
    numbers, outside = ranges.numbers(), ranges.outside()
    for place in range(len(rows)):
        own = at_place(ranges, place)
        assert isinstance(own, np.ndarray)
        assert own.tolist() == numbers[place].tolist()
        assert (own >= 0).all()
        assert (own < counts[place]).all()
        assert outside[place].tolist() == (own != start[place] + ranges.offsets).tolist()
    places = np.arange(0, len(rows), 2)
    assert ranges.numbers(places).tolist() == numbers[places].tolist()


def test_elements_that_are_the_same_for_all() -> None:
    assert at_place(None, 3) is None
    assert at_place(slice(1, 2), 3) == slice(1, 2)
