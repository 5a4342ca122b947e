"""permute: one-to-one, undone by its inverse, strict about its arguments.

tests/_runtime/test_order.py has its values.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import permute


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1), st.one_of(st.none(), st.integers(0, 2**32 - 1)))
def test_inverse(size: int, key: int, tweak: int | None) -> None:
    values = np.arange(size)
    tweaks = None if tweak is None else np.full(size, tweak, np.uint32)
    images = permute(values, size, key, tweaks)
    assert np.array_equal(np.sort(images), values)
    assert np.array_equal(permute(images, size, key, tweaks, inverse=True), values)


def test_the_largest_size() -> None:
    size = 1 << 48
    values = np.array([0, 1, size - 1], np.int64)
    images = permute(values, size, 7)
    assert images.max() < size
    assert np.array_equal(permute(images, size, 7, inverse=True), values)


def test_wrong_arguments() -> None:
    values = np.arange(4)
    for wrong in (-1, 4, 2**62, -(2**63)):
        with pytest.raises(IndexError):
            permute(np.array([0, wrong], np.int64), 4, 0)
    for size in (0, -1, (1 << 48) + 1):
        with pytest.raises(ValueError, match="size"):
            permute(values, size, 0)
    with pytest.raises(ValueError, match="same length"):
        permute(values, 4, 0, np.zeros(3, np.uint32))
    with pytest.raises(TypeError):
        permute(values.astype(np.int32), 4, 0)
    assert len(permute(values[:0], 4, 0)) == 0
