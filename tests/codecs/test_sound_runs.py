"""Runs of requested frames: neighbours together, and the frames that were asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.codecs.libsndfile import requested_frames, runs_of_sound


def test_neighbours_are_one_run() -> None:
    for elements, run in (
        (slice(3, 7), [3, 4]),
        (slice(-3, None), [7, 3]),
        (np.array([4, 5, 6]), [4, 3]),
        (np.array([-2, -1]), [8, 2]),
    ):
        runs = runs_of_sound(elements, 10, 1)
        assert [*runs.first, *runs.counts] == run
        assert runs.places is None
    assert not len(runs_of_sound(slice(8, 2), 10, 1).first)
    assert runs_of_sound(np.array([4, 6, 5, 7]), 10, 1).places is not None
    assert runs_of_sound(slice(0, 9, 2), 10, 1).places is not None
    with pytest.raises(IndexError, match="a sound of 10 frames"):
        runs_of_sound(np.array([10]), 10, 1)


@given(st.lists(st.integers(-500, 499), max_size=20), st.integers(1, 100))
def test_runs_have_all_requested_frames(asked: list[int], near: int) -> None:
    sound = np.arange(1000, dtype=np.float32).reshape(500, 2)
    runs = runs_of_sound(np.array(asked, np.int64), 500, near)
    ends = runs.first + runs.counts
    assert (ends[:-1] - 1 + near < runs.first[1:]).all()
    decoded = [sound[first:end] for first, end in zip(runs.first, ends, strict=True)]
    taken = requested_frames(runs, decoded, 2)
    np.testing.assert_array_equal(taken, sound[np.array(asked, np.int64)])
