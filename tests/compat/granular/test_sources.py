from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bushel.compat.granular import sources


class Numbers:
    def __init__(self, length: int, start: int = 0) -> None:
        self.length, self.start = length, start

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        assert type(index) is int
        assert 0 <= index < self.length
        return self.start + index


def first(source: Callable[[int], Any], count: int) -> list[Any]:
    return [source(step) for step in range(count)]


def test_epochs_follow_their_seed() -> None:
    for seed in (0, 1, 42):
        orders = [np.random.default_rng([seed, epoch]).permutation(np.arange(10)).tolist() for epoch in range(2)]
        assert first(sources.Epochs(Numbers(10), seed=seed), 20) == orders[0] + orders[1]
    assert first(sources.Epochs(Numbers(10)), 10) == [4, 6, 2, 7, 3, 5, 9, 0, 8, 1]
    assert first(sources.Epochs(Numbers(3), shuffle=False), 7) == [0, 1, 2, 0, 1, 2, 0]
    assert sorted(first(sources.Epochs(Numbers(10), length=4), 4)) == [0, 1, 2, 3]
    assert first(sources.Epochs(lambda index: -index, length=3, shuffle=False), 4) == [0, -1, -2, 0]


def test_sample() -> None:
    source = sources.Sample(Numbers(10), seed=3)
    assert first(source, 20) == [int(np.random.default_rng([3, step]).choice(10)) for step in range(20)]
    assert set(first(sources.Sample(Numbers(10), length=2), 50)) == {0, 1}


def test_truncate_and_interleave() -> None:
    assert first(sources.Truncate(Numbers(10), 3), 7) == [0, 1, 2, 0, 1, 2, 0]
    assert first(sources.Truncate(Numbers(2), 3), 5) == [0, 1, 0, 1, 0]
    endless = [sources.Truncate(Numbers(3), 3), sources.Truncate(Numbers(3, 100), 2)]
    assert first(sources.Interleave(endless), 8) == [0, 100, 1, 101, 2, 100, 0, 101]


def test_mix() -> None:
    parts = [sources.Truncate(Numbers(1000), 1000), sources.Truncate(Numbers(1000, 1000), 1000)]
    drawn = first(sources.Mix(parts, [3, 1], seed=1), 1000)
    assert all(value % 1000 == step for step, value in enumerate(drawn))
    assert 200 < sum(value >= 1000 for value in drawn) < 300
    with pytest.raises(AssertionError):
        sources.Mix(parts, [1])


def test_transform() -> None:
    source = sources.Transform(Numbers(5), lambda value, seed: (value, seed), seed=6)
    assert source(3) == (3, [6, 3])


def test_wrong_sources() -> None:
    with pytest.raises(TypeError, match="a source is callable"):
        sources.Transform(3, print)
    with pytest.raises(AssertionError):
        sources.Epochs(Numbers(0))
