from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bushel.storage.objects.ranges import Span, coalesce

EXTENTS = st.lists(st.tuples(st.integers(0, 3000), st.integers(-1, 200)), max_size=40)


def spans(extents: list[tuple[int, int]], gap: int, limit: int) -> list[Span]:
    offset, length = (np.array(part, np.int64) for part in (zip(*extents, strict=True) if extents else ([], [])))
    return coalesce(offset, length, gap=gap, limit=limit)


@given(EXTENTS, st.integers(0, 300), st.integers(1, 2000))
def test_every_extent_is_covered_once_and_limits_are_kept(extents: list[tuple[int, int]], gap: int, limit: int) -> None:
    made = spans(extents, gap, limit)
    rows = [row for span in made for row in span.rows]
    assert sorted(rows) == [row for row, (_, length) in enumerate(extents) if length > 0]
    for span in made:
        ends = [(extents[row][0], sum(extents[row])) for row in span.rows]
        assert span.start == min(first for first, _ in ends)
        assert span.stop == max(last for _, last in ends)
        assert span.stop - span.start <= limit or len(ends) == 1
        reached = span.start
        for first, last in sorted(ends):
            assert first - reached <= gap, "no more unneeded bytes are read than was allowed"
            reached = max(reached, last)
    assert [span.start for span in made] == sorted(span.start for span in made)


@given(EXTENTS, st.integers(0, 300))
def test_what_may_share_a_request_does(extents: list[tuple[int, int]], gap: int) -> None:
    made = spans(extents, gap, 1 << 40)
    for one, two in zip(made, made[1:], strict=False):
        assert two.start - one.stop > gap


def test_neighbours_and_strangers() -> None:
    assert spans([(100, 10), (0, 10), (10, 5), (50, 0), (60, -1)], 0, 1000) == [
        Span(0, 15, (1, 2)),
        Span(100, 110, (0,)),
    ]
    assert spans([(100, 10), (0, 10)], 90, 1000) == [Span(0, 110, (1, 0))]
    assert spans([(0, 5000), (10, 5)], 0, 100) == [Span(0, 5000, (0,)), Span(10, 15, (1,))]
    assert spans([], 0, 1) == []
