"""The random numbers of a sample: a function of seed, epoch and sample, and of nothing else."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from tests.paths import ROOT

from bushel.loader.decode.sample_transforms import generator


@pytest.mark.parametrize("words", [(0, 0, 0), (5, 2, 7), (2**63, 1000, 2**47), (2**64 - 1, 0, 1)])
def test_it_is_philox_with_this_key_and_counter(words: tuple[int, int, int]) -> None:
    seed, epoch, sample = words
    bits = np.random.Philox(key=np.array([seed, epoch], np.uint64), counter=np.array([0, 0, sample, 0], np.uint64))
    np.testing.assert_array_equal(generator(*words).random(100), np.random.Generator(bits).random(100))


def test_it_is_the_same_in_every_release() -> None:
    assert generator(5, 2, 7).random(2).tolist() == [0.2676246149690499, 0.3611711490348539]


def test_spawned_ones_are_the_same_in_every_release() -> None:
    rng = generator(1, 2, 3)
    first, second = rng.spawn(2)
    drawn = [each.random() for each in (first, second, *rng.spawn(1), *first.spawn(1))]
    assert drawn == [0.9848402480199273, 0.30160709357830384, 0.12990769579250971, 0.21593947059787344]


def test_samples_epochs_and_seeds_differ() -> None:
    drawn = [generator(*words).random() for words in ((1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1))]
    assert len(set(drawn)) == 4


def test_spawned_ones_depend_on_nothing_else() -> None:
    first, second = generator(1, 2, 3).spawn(2)
    again, other = generator(1, 2, 3).spawn(2)[0], generator(1, 2, 4).spawn(1)[0]
    drawn = first.random(10)
    np.testing.assert_array_equal(drawn, again.random(10))
    assert not np.array_equal(drawn, second.random(10))
    assert not np.array_equal(drawn, other.random(10))


def test_it_can_be_pickled() -> None:
    rng = generator(1, 2, 3)
    rng.random()
    copy = pickle.loads(pickle.dumps(rng))
    assert copy.random() == rng.random()


def test_the_vectors_of_the_page() -> None:
    lines = (ROOT / "docs/order.md").read_text().splitlines()
    vectors = [json.loads(line) for line in lines if line.startswith('{"generator"')]
    assert len(vectors) == 2
    for vector in vectors:
        drawn: Any = generator(*vector["generator"]).bit_generator
        assert drawn.random_raw(3).tolist() == vector["raw"]
