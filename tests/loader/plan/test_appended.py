"""States of loaders whose dataset has grown since: the epoch ends with the samples that it began with."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.errors import StateError
from bushel.loader import Blocks

OPTIONS: dict[str, dict[str, Any]] = {
    "samples": {"batch_size": 4, "shuffle": True},
    "in order": {"batch_size": 4},
    "blocks": {"batch_size": 4, "shuffle": "blocks"},
    "single samples": {"batch_size": None, "shuffle": True},
    "in processes": {"batch_size": 4, "shuffle": True, "processes": 1},
    "packs": {"batch_size": 2, "shuffle": True, "pack_by": "tokens.length", "pack_tokens": 16},
    "chunks": {"batch_size": 2, "shuffle": True, "chunk_by": "tokens.length", "chunk_tokens": 8},
    "buckets": {"batch_size": {8: 4}, "shuffle": True, "bucket_by": "tokens.length"},
}
BEFORE, AFTER = 40, 60


def add(path: Path, first: int, last: int, mode: Any) -> None:
    with bushel.Writer(path, {"tokens": "array(uint16,-1)"}, container="bag", shard_samples=10, mode=mode) as writer:
        for number in range(first, last):
            writer.append({"tokens": np.arange(1 + number % 7, dtype=np.uint16)}, key=str(number))


def keys_of(batches: Any) -> list[Any]:
    return [batch["__key__"] for batch in batches]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    add(tmp_path / "data", 0, BEFORE, "create")
    return tmp_path / "data"


@pytest.mark.parametrize("name", OPTIONS)
def test_an_epoch_ends_with_the_samples_that_it_began_with(path: Path, name: str) -> None:
    loader = bushel.Loader(bushel.open(path), seed=3, **OPTIONS[name])
    loader.epoch = 1
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    rest = keys_of(batches)
    add(path, BEFORE, AFTER, "append")
    grown = bushel.open(path)

    resumed = bushel.Loader(grown, seed=9, **OPTIONS[name])
    fresh = resumed.state_dict()
    with pytest.raises(StateError, match=r"20 samples were appended .*allow_appended=True"):
        resumed.load_state_dict(state)
    assert resumed.state_dict() == fresh
    resumed.load_state_dict(state, allow_appended=True)
    assert (resumed.state_dict(), resumed.steps_left) == (state, len(rest))
    assert resumed.who(3) == rest[0] if OPTIONS[name]["batch_size"] else True
    again = pickle.loads(pickle.dumps(resumed))

    assert keys_of(resumed) == rest
    whole = bushel.Loader(grown, seed=3, **OPTIONS[name])
    whole.epoch = 2
    assert resumed.state_dict() == whole.state_dict()
    assert keys_of(resumed) == keys_of(whole)
    assert keys_of(again) == rest


def numbers_of(samples: int) -> np.ndarray[Any, Any]:
    return np.arange(samples) % 7 + 1


ARRAYS: dict[str, Any] = {
    "weights": lambda samples: {"batch_size": 4, "weights": numbers_of(samples)},
    "a list": lambda samples: {"batch_size": 4, "weights": numbers_of(samples).tolist()},
    "lengths": lambda samples: {"batch_size": {8: 4}, "bucket_by": numbers_of(samples)},
    "an order": lambda samples: {"batch_size": 4, "shuffle": Blocks(samples, 3, size=5, window=2)},
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_and_orders_may_be_those_of_all_samples(path: Path, name: str) -> None:
    loader = bushel.Loader(bushel.open(path), seed=3, **ARRAYS[name](BEFORE))
    batches = iter(loader)
    next(batches)
    state, rest = loader.state_dict(), keys_of(batches)
    add(path, BEFORE, AFTER, "append")
    resumed = bushel.Loader(bushel.open(path), seed=3, **ARRAYS[name](AFTER))
    resumed.load_state_dict(state, allow_appended=True)
    again = pickle.loads(pickle.dumps(resumed))
    assert keys_of(resumed) == keys_of(again) == rest
    whole = bushel.Loader(bushel.open(path), seed=3, **ARRAYS[name](AFTER))
    whole.epoch = 1
    assert keys_of(resumed) == keys_of(whole)
    if name == "weights":
        with pytest.raises(ValueError, match="40 weights for 60 samples: give one for each, or the name"):
            bushel.Loader(bushel.open(path), seed=3, **ARRAYS[name](BEFORE))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": 4, "weights": [1.0] * (BEFORE - 1)}, "39 weights for 40 samples"),
        ({"batch_size": 2, "chunk_by": "tokens.length", "chunk_tokens": 8}, "chunk_by= joins all documents"),
    ],
)
def test_options_that_cannot_be_those_of_before_a_removal(path: Path, options: Any, says: str) -> None:
    before = options | {"weights": [1.0] * BEFORE} if "weights" in options else options
    loader = bushel.Loader(bushel.open(path), **before)
    next(iter(loader))
    state = loader.state_dict()
    bushel.remove(path, keys=["5"], reason="opt-out")
    loader = bushel.Loader(bushel.open(path), **options)
    fresh = loader.state_dict()
    with pytest.raises(StateError, match=f"cannot be made with these options: .*{says}"):
        loader.load_state_dict(state, allow_removed=True)
    assert loader.state_dict() == fresh


def test_a_state_of_that_epoch_goes_on_with_other_ranks(path: Path) -> None:
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True)
    batches = iter(loader)
    seen = [key for key in next(batches)["__key__"]]
    state = loader.state_dict()
    add(path, BEFORE, AFTER, "append")
    grown = bushel.open(path)
    loader = bushel.Loader(grown, 4, shuffle=True)
    loader.load_state_dict(state, allow_appended=True)
    seen += next(iter(loader))["__key__"]
    state = loader.state_dict()
    for rank in range(2):
        part = bushel.Loader(grown, 8, shuffle=True, rank=rank, world_size=2)
        part.load_state_dict(state, allow_appended=True)
        seen += [key for keys in keys_of(part) for key in keys]
    assert sorted(seen, key=int) == [str(number) for number in range(BEFORE)]


def test_an_epoch_that_has_not_begun_has_all_samples(path: Path) -> None:
    state = bushel.Loader(bushel.open(path), 4, shuffle=True).state_dict()
    add(path, BEFORE, AFTER, "append")
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True)
    loader.load_state_dict(state, allow_appended=True)
    assert sum(map(len, keys_of(loader))) == AFTER


def test_samples_that_were_removed_too_are_left_out(path: Path) -> None:
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [key for keys in keys_of(batches) for key in keys]
    gone = rest[5]
    bushel.remove(path, keys=[gone], reason="opt-out")
    add(path, BEFORE, AFTER, "append")
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True, on_error="skip")
    with pytest.raises(StateError, match="allow_removed=True"):
        loader.load_state_dict(state, allow_appended=True)
    loader.load_state_dict(state, allow_appended=True, allow_removed=True)
    assert [key for keys in keys_of(loader) for key in keys] == [key for key in rest if key != gone]
    assert gone not in loader.dataset.keys
    assert sum(map(len, keys_of(loader))) == AFTER - 1


@pytest.mark.parametrize("exclude", [["3", "50"], [3, 50], ["50"]])
def test_excluded_samples_may_be_appended_ones(path: Path, exclude: list[Any]) -> None:
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [key for keys in keys_of(batches) for key in keys]
    add(path, BEFORE, AFTER, "append")
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True, exclude=exclude)
    loader.load_state_dict(state, allow_appended=True)
    out = {str(sample) for sample in exclude}
    assert [key for keys in keys_of(loader) for key in keys] == [key for key in rest if key not in out]
    assert {key for keys in keys_of(loader) for key in keys} == set(map(str, range(AFTER))) - out


def test_excluded_positions_count_the_samples_that_were_not_removed(path: Path) -> None:
    loader = bushel.Loader(bushel.open(path), 4)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    bushel.remove(path, keys=["5"], reason="opt-out")
    grown = bushel.open(path)
    assert grown.keys[20] == "21"
    loader = bushel.Loader(grown, 4, exclude=[20])
    loader.load_state_dict(state, allow_removed=True)
    left = [key for keys in keys_of(loader) for key in keys]
    assert left == [str(number) for number in range(4, BEFORE) if number not in (5, 21)]


def test_other_data_are_refused(path: Path, tmp_path: Path) -> None:
    state = bushel.Loader(bushel.open(path), 4, shuffle=True).state_dict()
    with bushel.Writer(tmp_path / "other", {"tokens": "array(uint16,-1)"}, container="bag", shard_samples=10) as writer:
        for number in range(AFTER):
            writer.append({"tokens": np.arange(number % 7, dtype=np.uint16)}, key=str(number))
    loader = bushel.Loader(bushel.open(tmp_path / "other"), 4, shuffle=True)
    with pytest.raises(StateError, match="another dataset"):
        loader.load_state_dict(state, allow_appended=True, allow_removed=True)


def test_a_file_that_has_grown_is_another_dataset(tmp_path: Path) -> None:
    path = tmp_path / "one.tar"
    modes: list[tuple[Any, int]] = [("create", 0), ("append", 5)]
    for mode, first in modes:
        with bushel.Writer(path, {"x": "int"}, container="tar", mode=mode) as writer:
            for number in range(first, first + 5):
                writer.append({"x": number}, key=str(number))
        loader = bushel.Loader(bushel.open(path), 2)
        if mode == "create":
            state = loader.state_dict()
    with pytest.raises(StateError, match="write a folder"):
        loader.load_state_dict(state, allow_appended=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bool", "int64"),
        ("bool", "float64"),
        ("bool", "string"),
        ("int64", "float64"),
        ("timestamp[ms]", "timestamp[us]"),
    ],
)
def test_a_file_of_a_wider_type_may_be_added(tmp_path: Path, before: str, after: str) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(number: int, kind: str) -> None:
        values = pa.array([0, 1] * 10).cast(pa.type_for_alias(kind) if "[" not in kind else pa.timestamp(kind[10:12]))
        pq.write_table(pa.table({"x": values, "n": range(20)}), tmp_path / f"{number}.parquet")

    write(0, before)
    write(1, before)
    loader = bushel.Loader(bushel.open(tmp_path), 4, shuffle=True, seed=1, fields=["n"])
    batches = iter(loader)
    next(batches)
    state, rest = loader.state_dict(), keys_of(batches)
    fingerprint = bushel.open(tmp_path).fingerprint
    write(2, after)
    grown = bushel.open(tmp_path)
    assert grown.fingerprint != fingerprint == grown[:40].fingerprint
    for _ in range(2):
        resumed = bushel.Loader(grown, 4, shuffle=True, seed=1, fields=["n"])
        resumed.load_state_dict(state, allow_appended=True)
        state = resumed.state_dict()
        assert keys_of(resumed) == rest
