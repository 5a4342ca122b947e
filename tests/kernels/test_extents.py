"""first_outside: the first extent that is not inside its file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import first_outside

NUMBERS = st.one_of(st.integers(-3, 12), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 62]))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8), st.integers(0, 600), st.integers(0, 10))
def test_every_row(rows: list[tuple[int, int]], before: int, size: int) -> None:
    rows = [(0, 0)] * before + rows
    offset, length = (np.array([row[part] for row in rows], np.int64) for part in range(2))
    bad = [not (n == -1 or (a >= 0 and n >= 0 and a + n <= size)) for a, n in rows]
    assert first_outside(offset, length, size) == (bad.index(True) if any(bad) else -1)


def test_wrong_arguments() -> None:
    numbers = np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="same length"):
        first_outside(numbers, numbers[:1], 1)
    with pytest.raises(ValueError, match="negative"):
        first_outside(numbers, numbers, -1)
    with pytest.raises(TypeError, match="length: expected"):
        first_outside(numbers, numbers.astype(np.int32), 1)
