"""RangeValues against slices of the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import RangeValues

DATA = np.random.default_rng(3).bytes(300_000)
EXTENTS = st.lists(
    st.integers(0, len(DATA)).flatmap(
        lambda offset: st.tuples(st.just(offset), st.integers(0, min(len(DATA) - offset, 90_000)))
    ),
    max_size=30,
).map(sorted)
CUTS = st.lists(st.integers(0, len(DATA)), max_size=8).map(sorted)


def values_of(extents: list[tuple[int, int]]) -> RangeValues:
    offset, length = np.array(extents, np.int64).reshape(-1, 2).T
    return RangeValues(offset.copy(), length.copy())


def put(values: RangeValues, cuts: list[int]) -> None:
    for start, stop in zip([0, *cuts], [*cuts, len(DATA)], strict=True):
        values.put(memoryview(DATA)[start:stop])


@given(extents=EXTENTS, cuts=CUTS)
def test_chunks_of_any_size(extents: list[tuple[int, int]], cuts: list[int]) -> None:
    values = values_of(extents)
    put(values, cuts)
    assert values.take() == [DATA[offset : offset + length] for offset, length in extents]


@given(extents=EXTENTS, cuts=CUTS, failed=st.integers(0, len(DATA)))
def test_a_range_that_arrives_again(extents: list[tuple[int, int]], cuts: list[int], failed: int) -> None:
    values = values_of(extents)
    values.put(bytes(failed))  # of another answer
    values.restart()
    put(values, cuts)
    assert values.take() == [DATA[offset : offset + length] for offset, length in extents]


def test_a_range_that_has_not_arrived() -> None:
    values = values_of([(0, 10), (5, 20)])
    values.put(DATA[:24])
    with pytest.raises(ValueError, match="has not arrived"):
        values.take()
    values.put(DATA[24:25])
    assert values.take() == [DATA[:10], DATA[5:25]]
    with pytest.raises(ValueError, match="has not arrived"):
        values.take()
    with pytest.raises(ValueError, match="have been taken"):
        values.put(b"x")


@pytest.mark.parametrize(
    ("offset", "length"),
    [([5, 4], [1, 1]), ([-1], [1]), ([0], [-1]), ([2**62], [2**62]), ([0, 1], [1])],
    ids=["order", "offset", "length", "end", "sizes"],
)
def test_invalid_extents(offset: list[int], length: list[int]) -> None:
    with pytest.raises(ValueError, match=r"ordered by offset|same size"):
        RangeValues(np.array(offset, np.int64), np.array(length, np.int64))


def test_arrays_of_another_type() -> None:
    with pytest.raises(TypeError, match="int64"):
        RangeValues(np.zeros(1, np.int32), np.zeros(1, np.int64))
