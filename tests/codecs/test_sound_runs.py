"""Runs of requested frames: neighbours together, and the frames that were asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.codecs.libsndfile import near_runs, take_frames, wanted_frames


def test_neighbours_are_a_range() -> None:
    assert wanted_frames(slice(3, 7), 10) == range(3, 7)
    assert wanted_frames(slice(-3, None), 10) == range(7, 10)
    assert wanted_frames(slice(8, 2), 10) == range(8, 8)
    assert wanted_frames(np.array([4, 5, 6]), 10) == range(4, 7)
    assert wanted_frames(np.array([-2, -1]), 10) == range(8, 10)
    assert not isinstance(wanted_frames(np.array([4, 6, 5, 7]), 10), range)
    assert not isinstance(wanted_frames(slice(0, 9, 2), 10), range)
    with pytest.raises(IndexError, match="a sound of 10 frames"):
        wanted_frames(np.array([10]), 10)


@given(st.lists(st.integers(-500, 499), max_size=20), st.integers(1, 100))
def test_runs_have_all_requested_frames(asked: list[int], near: int) -> None:
    sound = np.arange(1000, dtype=np.float32).reshape(500, 2)
    numbers = wanted_frames(np.array(asked, np.int64), 500)
    runs = near_runs(numbers, near)
    assert all(one[1] + near < two[0] for one, two in zip(runs, runs[1:], strict=False))
    found = [sound[max(0, first - 3) : last + 1] for first, last in runs]
    taken = take_frames(found, [max(0, first - 3) for first, _ in runs], numbers, 2)
    np.testing.assert_array_equal(taken, sound[np.array(asked, np.int64)])
