"""The shuffle buffer and batching of iterables, and iterators as options."""

from __future__ import annotations

import copy
import random
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loader.memory_dataset import MemoryDataset

from bushel.loader import Loader, MapView, StreamLoader, shuffle_buffer


@given(samples=st.integers(0, 60), size=st.integers(1, 70), initial=st.none() | st.integers(0, 70))
def test_every_sample_leaves_the_buffer_once(samples: int, size: int, initial: int | None) -> None:
    shuffled = list(shuffle_buffer(range(samples), size, random.Random(3).randrange, initial=initial))
    assert sorted(shuffled) == list(range(samples))
    assert all(number <= place + size for place, number in enumerate(shuffled))


def test_the_order_follows_from_the_draws() -> None:
    first, same, other = (list(shuffle_buffer(range(50), 20, random.Random(seed).randrange)) for seed in (1, 1, 2))
    assert first == same != other
    assert first != list(range(50))


def test_samples_are_evenly_spread() -> None:
    draw = random.Random(5).randrange
    firsts = [next(shuffle_buffer(count(), 10, draw)) for _ in range(2000)]
    counts = [firsts.count(number) for number in range(10)]
    assert min(counts) > 140
    assert max(counts) < 260


@pytest.mark.parametrize(("initial", "read"), [(None, 100), (10, 10), (1000, 100)])
def test_the_first_sample_waits_for_the_initial_ones(initial: int | None, read: int) -> None:
    source = iter(range(500))
    next(shuffle_buffer(source, 100, random.Random(0).randrange, initial=initial))
    assert next(source) == read


def test_iterators_as_options_are_read_once() -> None:
    dataset = MemoryDataset(8)
    loader = Loader(
        dataset,
        4,
        fields=(name for name in ["number"]),
        exclude=(f"key {number}" for number in (1, 6)),
        weights=(weight for weight in np.ones(8)),  # type: ignore[arg-type]
    )
    batch = loader.peek()
    assert [*batch] == ["__key__", "number"]
    copied = copy.copy(loader)
    for each in (loader, copied):
        numbers = np.concatenate([batch["number"] for batch in each])
        assert not {1, 6} & set(numbers.tolist())
    view = MapView(dataset, fields=(name for name in ["number"]))
    assert [*view[3]] == ["__key__", "number"]
    with pytest.raises(TypeError, match="this generator is not a dataset"):
        Loader((sample for sample in dataset.read([0, 1])), 2)  # type: ignore[arg-type]


class Doubled:
    """A transform that is an iterator, too, as some augmenters are."""

    def __iter__(self) -> Doubled:
        return self

    def __next__(self) -> int:
        raise StopIteration

    def __call__(self, value: int) -> int:
        return 2 * value


def test_a_transform_that_is_an_iterator_stays_a_transform() -> None:
    transform = Doubled()
    loader = Loader(MemoryDataset(4), 4, transforms={"number": transform})
    plain = Loader(MemoryDataset(4), 4)
    assert next(iter(loader))["number"].tolist() == [2 * n for n in next(iter(plain))["number"].tolist()]
    loader = Loader(MemoryDataset(4), 4, sample_transform=lambda sample: sample, batch_transform=Whole())
    assert sorted(next(iter(loader))) == ["seen"]


class Whole(Doubled):
    def __call__(self, value: object) -> object:  # type: ignore[override]
        return {"seen": np.zeros(4)}


def test_a_generator_is_refused_as_a_stream_before_it_is_read() -> None:
    numbers = count()
    with pytest.raises(TypeError, match="a generator is not a stream"):
        StreamLoader((number for number in numbers), 4)  # type: ignore[arg-type]
    assert next(numbers) == 0
