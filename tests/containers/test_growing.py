"""Arrays that grow piece by piece, in memory and in a file."""

from __future__ import annotations

import numpy as np
import pytest

from bushel.containers.growing import GrowingArrays


@pytest.mark.parametrize("limit", [0, 100, 1 << 20])
def test_pieces_are_joined(limit: int) -> None:
    arrays = GrowingArrays(limit)
    wanted: dict[str, list[int]] = {"a": [], "b": [], "none": []}
    arrays.append("none", np.empty(0, np.uint8))
    for number in range(50):
        for name, dtype in (("a", np.int64), ("b", np.uint8)):
            piece = np.arange(number % 7, dtype=dtype)
            arrays.append(name, piece)
            wanted[name] += map(int, piece)
    found = arrays.finish()
    assert {name: array.tolist() for name, array in found.items()} == wanted
    assert {name: array.dtype for name, array in found.items()} == {"a": np.int64, "b": np.uint8, "none": np.uint8}
    found["a"][0] = 9
    assert found["a"][0] == 9
