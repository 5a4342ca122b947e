"""Arrays that grow piece by piece, in memory and in a file."""

from __future__ import annotations

import numpy as np
import pytest
from tests.descriptors import descriptors

from bushel._runtime.arrays import GrowingArrays


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


@pytest.mark.parametrize("limit", [0, 100, 1 << 20])
def test_zeros_between_pieces_and_at_the_end(limit: int) -> None:
    arrays = GrowingArrays(limit)
    wanted: list[int] = []
    for number in range(60):
        piece = np.arange(1, number % 9, dtype=np.int32)
        arrays.append("a", piece)
        arrays.append("a", np.zeros(number % 5 * 100, np.int32))
        arrays.append("zeros", np.zeros(1000, np.uint8))
        wanted += [*piece.tolist(), *[0] * (number % 5 * 100)]
        arrays.share = (number + 1) / 60
    found = arrays.finish()
    assert found["a"].tolist() == wanted
    assert found["zeros"].tolist() == [0] * 60_000
    assert found["zeros"].dtype == np.uint8
    assert list(found) == ["a", "zeros"]


def test_many_arrays_need_one_descriptor() -> None:
    """A table with a thousand columns was refused by the system: "Too many open files"."""
    arrays = GrowingArrays(0)
    for number in range(200):
        arrays.append(str(number), np.arange(5))
    before = len(descriptors())
    found = arrays.finish()
    assert len(descriptors()) <= before + 1
    assert all(array.tolist() == [0, 1, 2, 3, 4] for array in found.values())


def test_many_arrays_reserve_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of JSON that each had a name of their own filled the disk."""
    asked: list[int] = []
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("os.posix_fallocate", lambda file, start, size: asked.append(size), raising=False)
    arrays = GrowingArrays(100_000)
    arrays.share = 1e-4
    for number in range(1600):
        arrays.append(str(number), np.arange(8))
    assert len(arrays.finish()) == 1600
    assert len(asked) > 1000
    assert sum(asked) < 300 << 20
