"""Pairs of equal hashes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bushel._index.key_lookup import equal_hashes

HASHES = st.lists(st.integers(0, 12) | st.integers(0, (1 << 64) - 1), max_size=30)


@given(HASHES, HASHES)
def test_the_nth_is_paired_with_the_nth(left: list[int], right: list[int]) -> None:
    expected = []
    for place, value in enumerate(left):
        number = left[:place].count(value)
        partners = [at for at, other in enumerate(right) if other == value]
        if number < len(partners):
            expected.append((place, partners[number]))
    one, other = equal_hashes(np.array(left, np.uint64), np.array(right, np.uint64))
    assert list(zip(one.tolist(), other.tolist(), strict=True)) == expected
