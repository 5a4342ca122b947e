"""`gluon.data.DataLoader`."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from bushel.compat.mxnet.gluon.data import (
    ArrayDataset,
    BatchSampler,
    DataLoader,
    FilterSampler,
    RandomSampler,
    SequentialSampler,
)

NUMBERS = np.arange(7)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_batches(workers: int) -> None:
    loader = DataLoader(ArrayDataset(NUMBERS, NUMBERS[:, None] * [1.0, 2.0]), 3, num_workers=workers)
    for _ in range(2):
        batches = list(loader)
        assert [first.tolist() for first, _ in batches] == [[0, 1, 2], [3, 4, 5], [6]]
        assert [second.shape for _, second in batches] == [(3, 2), (3, 2), (1, 2)]
    assert len(loader) == 3


def test_a_sampler_of_chosen_samples() -> None:
    sampler = FilterSampler(lambda number: number % 3 == 1, ArrayDataset(NUMBERS))
    assert (list(sampler), list(sampler), len(sampler)) == ([1, 4], [1, 4], 2)


@pytest.mark.parametrize(
    ("last", "epochs"),
    [
        ("keep", [[[0, 1, 2], [3, 4, 5], [6]]] * 2),
        ("discard", [[[0, 1, 2], [3, 4, 5]]] * 2),
        ("rollover", [[[0, 1, 2], [3, 4, 5]], [[6, 0, 1], [2, 3, 4]], [[5, 6, 0], [1, 2, 3], [4, 5, 6]]]),
    ],
)
def test_the_last_batch(last: Any, epochs: list[Any]) -> None:
    loader = DataLoader(NUMBERS, 3, last_batch=last)
    for epoch in epochs:
        assert len(loader) == len(epoch)
        assert [batch.asnumpy().tolist() for batch in loader] == epoch


def test_orders() -> None:
    np.random.seed(1)
    expected = np.arange(7)
    np.random.shuffle(expected)
    np.random.seed(1)
    [batch] = DataLoader(NUMBERS, 7, shuffle=True)
    assert batch.tolist() == expected.tolist()
    assert sorted(RandomSampler(9)) == list(range(9))
    assert [one.tolist() for one in DataLoader(NUMBERS, batch_sampler=[[6, 1], [2]])] == [[6, 1], [2]]
    assert list(DataLoader(NUMBERS, 2, sampler=SequentialSampler(3, 4), batchify_fn=sum)) == [9, 6]


def test_parameters_have_the_order_of_the_original() -> None:
    names = list(inspect.signature(DataLoader).parameters)
    assert names[names.index("timeout") + 1] == "auto_reload"


def test_an_error_arrives() -> None:
    def refuse(number: int) -> int:
        if number == 4:
            raise KeyError("four")
        return number

    dataset = ArrayDataset(NUMBERS).transform(refuse)
    for workers in (0, 3):
        batches = iter(DataLoader(dataset, 2, num_workers=workers))
        assert [next(batches).tolist(), next(batches).tolist()] == [[0, 1], [2, 3]]
        with pytest.raises(KeyError, match="four"):
            next(batches)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 0},
        {"batch_size": 2, "shuffle": True, "sampler": [1]},
        {"batch_size": 2, "batch_sampler": [[1]]},
        {"batch_size": 2, "last_batch": "drop"},
    ],
)
def test_wrong_use(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="batch_s|shuffle|last_batch"):
        DataLoader(NUMBERS, **options)
    with pytest.raises(TypeError, match="'size'"):
        DataLoader(NUMBERS, 2, size=3)  # type: ignore[call-arg]
    assert len(BatchSampler(SequentialSampler(4), 2)) == 2
