"""Values that follow one another."""

from __future__ import annotations

import numpy as np
import pytest

from bushel._runtime.arrays import joined, offsets_of


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.uint32, np.uint8, np.bool_])
def test_offsets_do_not_wrap(dtype: type[np.generic]) -> None:
    offsets = offsets_of(np.ones(300, dtype))
    assert offsets.dtype == np.int64
    assert offsets.tolist() == list(range(301))


def test_lengths_may_be_any_iterable() -> None:
    assert offsets_of(len(each) for each in ("a", "", "bcd")).tolist() == [0, 1, 1, 4]
    assert offsets_of([]).tolist() == [0]


def test_values_are_joined() -> None:
    data, offsets = joined([b"ab", b"", b"c"])
    assert (data.tobytes(), offsets.tolist()) == (b"abc", [0, 2, 2, 3])
    assert [len(each) for each in joined([])] == [0, 1]
