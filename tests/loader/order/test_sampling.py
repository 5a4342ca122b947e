"""Loaders that draw by weight, or classes equally often: what they draw, resuming, ranks, processes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bushel
from bushel.errors import StateError

COUNT = 60


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    root = tmp_path_factory.mktemp("sampling") / "data"
    with bushel.Writer(
        root,
        {"label": "int", "w": "float", "name": "utf8"},
        container="tar",
        shard_samples=25,
        columns=["label", "w", "name"],
    ) as writer:
        for number in range(COUNT):
            own = {} if number % 10 == 9 else {"name": "rare" if number % 10 == 0 else "usual"}
            writer.append({"label": number, "w": float(number % 3), **own}, key=f"k{number}")
    return bushel.open(root).select_fields(["label"])  # all fields keep their columns


def numbers(loader: bushel.Loader) -> list[int]:
    return [int(each) for batch in loader for each in batch["label"]]


def noise(value: int, rng: np.random.Generator) -> float:
    return float(rng.random())


def test_weights(ds: bushel.Dataset) -> None:
    drawn = [numbers(bushel.Loader(ds, 7, weights="w", seed=3)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == COUNT
    assert all(number % 3 for number in drawn[0])
    array = np.array([number % 3 for number in range(COUNT)])
    assert numbers(bushel.Loader(ds, 7, weights=array, seed=3)) == drawn[0]
    loader = bushel.Loader(ds, 7, weights="w", seed=3)
    assert numbers(loader) == drawn[0]
    assert numbers(loader) != drawn[0]  # the next epoch


def test_balance(ds: bushel.Dataset) -> None:
    loader = bushel.Loader(ds, 6, balance="name", seed=1)
    drawn = [number for _ in range(40) for number in numbers(loader)]
    rare = [number for number in drawn if number % 10 == 0]
    assert not any(number % 10 == 9 for number in drawn)
    assert abs(len(rare) / len(drawn) - 0.5) < 0.05
    assert sorted(rare[:6]) == [0, 10, 20, 30, 40, 50]


@pytest.mark.parametrize("options", [{"weights": "w"}, {"balance": "name"}])
@pytest.mark.parametrize("processes", [0, 1])
def test_resume_ranks_and_processes(ds: bushel.Dataset, options: dict[str, Any], processes: int) -> None:
    whole = numbers(bushel.Loader(ds, 4, seed=2, **options))
    loader = bushel.Loader(ds, 4, seed=2, threads=1, processes=processes, **options)
    iterator = iter(loader)
    first = [int(each) for _ in range(3) for each in next(iterator)["label"]]
    state = loader.state_dict()
    iterator.close()
    parts = []
    for rank in range(2):
        other = bushel.Loader(ds, 6, rank=rank, world_size=2, **options)
        other.load_state_dict(state)
        parts.append([batch["label"].tolist() for batch in other])
    rest = [each for pair in zip(*parts, strict=True) for part in pair for each in part]
    assert first + rest == whole


def test_repeated_samples_are_augmented_in_other_ways(ds: bushel.Dataset) -> None:
    weights = np.zeros(COUNT)
    weights[5] = 1
    options: dict[str, Any] = {"weights": weights, "seed": 2, "transforms": {"label": noise}}
    for threads in (0, 2):
        drawn = np.concatenate([batch["label"] for batch in bushel.Loader(ds, 8, threads=threads, **options)])
        assert len(set(drawn.tolist())) == COUNT
        again = bushel.Loader(ds, 20, **options)
        assert np.array_equal(np.concatenate([batch["label"] for batch in again]), drawn)


def test_states_of_other_weights_are_refused(ds: bushel.Dataset) -> None:
    state = bushel.Loader(ds, 4, weights="w").state_dict()
    with pytest.raises(StateError, match="order"):
        bushel.Loader(ds, 4, weights=np.ones(COUNT)).load_state_dict(state)
    with pytest.raises(StateError, match="order"):
        bushel.Loader(ds, 4, shuffle=True).load_state_dict(state)
    bushel.Loader(ds, 4, weights="w", seed=9).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"weights": "w", "balance": "name"}, ValueError, "leave out balance="),
        ({"weights": "w", "shuffle": "blocks"}, ValueError, "leave out shuffle"),
        ({"weights": [1, 2]}, ValueError, "2 weights for 60"),
        ({"weights": {"cat": 1}}, ValueError, "1 weights for 60"),
        ({"weights": np.zeros(COUNT)}, ValueError, "above 0"),
        ({"weights": np.full(COUNT, np.nan)}, ValueError, "finite"),
        ({"weights": -np.ones(COUNT)}, ValueError, "0 or more"),
        ({"weights": np.ones((COUNT, 2))}, ValueError, "one number"),
        ({"weights": "name"}, ValueError, "one number"),
        ({"balance": "nam"}, KeyError, "did you mean 'name'"),
    ],
)
def test_errors(ds: bushel.Dataset, options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        bushel.Loader(ds, 4, **options)
    with pytest.raises(ValueError, match="mixture"):
        bushel.Loader(bushel.mix({"a": ds}, weights={"a": 1}), 4, weights="w")


def test_classes_of_a_view(ds: bushel.Dataset) -> None:
    view = ds.where("label < 20")
    drawn = numbers(bushel.Loader(view, 5, balance="name"))
    assert len(drawn) == 20
    assert set(drawn) <= set(range(20)) - {9, 19}


def test_an_empty_dataset(ds: bushel.Dataset) -> None:
    assert list(bushel.Loader(ds[:0], 4, weights="w")) == []
    assert list(bushel.Loader(ds[:0], 4, balance="name")) == []
