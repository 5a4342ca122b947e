"""Whole numbers of NumPy in the options of a loader are numbers of Python in its state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

I64: Any = np.int64


@pytest.fixture
def ds(tmp_path: Path) -> bushel.Dataset:
    with bushel.Writer(tmp_path / "data", {"id": "int"}, container="bag") as writer:
        for number in range(40):
            writer.append({"id": number}, key=str(number))
    return bushel.open(tmp_path / "data")


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({"shuffle": True, "seed": np.uint64(7)}, {"shuffle": True, "seed": 7}),
        (
            {"shuffle": True, "rank": I64(1), "world_size": I64(2)},
            {"shuffle": True, "rank": 1, "world_size": 2},
        ),
        ({"weights": np.ones(40), "seed": I64(7)}, {"weights": np.ones(40), "seed": 7}),
        (
            {"batch_size": {I64(4): 3, I64(40): 2}, "bucket_by": np.arange(40)},
            {"batch_size": {4: 3, 40: 2}, "bucket_by": np.arange(40)},
        ),
    ],
)
def test_options(ds: bushel.Dataset, options: dict[str, Any], plain: dict[str, Any]) -> None:
    _compare(*(bushel.Loader(ds, **{"batch_size": 4, **each}) for each in (options, plain)))


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({"seed": I64(3)}, {"seed": 3}),
        ({"until": I64(20)}, {"until": 20}),
        (
            {"weights": None, "schedule": [(I64(0), {"a": 1}), (I64(9), {"b": 1})]},
            {"weights": None, "schedule": [(0, {"a": 1}), (9, {"b": 1})]},
        ),
    ],
)
def test_mixtures(ds: bushel.Dataset, options: dict[str, Any], plain: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"weights": {"a": 1, "b": 1}, "until": 20}
    mixtures = (bushel.mix({"a": ds[:10], "b": ds[10:]}, **(usual | each)) for each in (options, plain))
    _compare(*(bushel.Loader(mixture, 4) for mixture in mixtures))


def test_steps_and_splits(ds: bushel.Dataset) -> None:
    loaders = [bushel.Loader(ds, 4, shuffle=True) for _ in range(2)]
    loaders[0].skip(I64(2))
    loaders[1].skip(2)
    _compare(*loaders)
    parts = [ds.split(a=0.5, b=0.5, seed=seed)["a"] for seed in (I64(7), 7)]
    assert list(parts[0].keys) == list(parts[1].keys)


def _compare(loader: bushel.Loader, plain: bushel.Loader) -> None:
    batches, expected = iter(loader), iter(plain)
    assert next(batches)["id"].tolist() == next(expected)["id"].tolist()
    state = json.loads(json.dumps(loader.state_dict()))
    assert state == plain.state_dict()
    loader.load_state_dict(state)
    assert [batch["id"].tolist() for batch in loader] == [batch["id"].tolist() for batch in expected]


def test_a_state_that_a_checkpoint_gave_back_with_numbers_of_numpy(ds: bushel.Dataset) -> None:
    loader = bushel.Loader(ds, 4, shuffle=True, seed=3)
    loader.skip(13)
    state = loader.state_dict()
    restored = {name: np.int64(value) if isinstance(value, int) else np.str_(value) for name, value in state.items()}
    resumed = bushel.Loader(ds, 4, shuffle=True)
    resumed.load_state_dict(restored)
    assert resumed.state_dict() == state
    assert json.loads(json.dumps(resumed.state_dict())) == state
