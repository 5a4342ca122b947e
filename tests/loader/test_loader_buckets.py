"""Loaders with batches of similar samples: what they yield, resuming, ranks, processes, replacements, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bushel
from bushel.errors import StateError

COUNT, TOKENS = 120, 64
LENGTHS = [(number * 37) % 29 + 1 for number in range(COUNT)]


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    root = tmp_path_factory.mktemp("buckets") / "data"
    spec = {"label": "int", "tokens": "array", "note": "utf8"}
    with bushel.Writer(root, spec, container="tar", shard_samples=50, columns=["auto", "tokens.length"]) as writer:
        for number, length in enumerate(LENGTHS):
            own = {} if number % 10 else {"note": "x"}
            writer.append({"label": number, "tokens": np.full(length, number, np.int32), **own}, key=f"k{number}")
    return bushel.open(root).select_fields(["label", "tokens"])


def made(ds: bushel.Dataset, **options: Any) -> bushel.Loader:
    options = {"bucket_by": "tokens.length", "batch_tokens": TOKENS, **options}
    return bushel.Loader(ds, collate={"tokens": bushel.loader.Padded(-1)}, **options)


def numbers(loader: bushel.Loader) -> list[list[int]]:
    return [batch["label"].tolist() for batch in loader]


def test_batches_have_few_tokens(ds: bushel.Dataset) -> None:
    loader = made(ds, seed=2)
    batches = list(loader)
    assert len(batches) == len(loader)
    assert sorted(int(each) for batch in batches for each in batch["label"]) == list(range(COUNT))
    for batch in batches:
        assert batch["tokens"].size <= TOKENS
        assert batch["tokens"].shape == (len(batch["label"]), max(LENGTHS[each] for each in batch["label"].tolist()))
    assert sum(batch["tokens"].size for batch in batches) < 1.25 * sum(LENGTHS)
    assert "batches of 1 to 16 samples" in repr(loader)
    again = made(ds, seed=2, bucket_by=np.array(LENGTHS))
    assert numbers(again) == [batch["label"].tolist() for batch in batches]
    assert numbers(again) != numbers(made(ds, seed=2))  # the next epoch


def test_a_size_for_each_bucket(ds: bushel.Dataset) -> None:
    loader = made(ds, batch_size={8: 6, 29: 2}, batch_tokens=None, drop_last=True)
    for own in numbers(loader):
        assert len(own) == (6 if max(LENGTHS[each] for each in own) <= 8 else 2)


@pytest.mark.parametrize("processes", [0, 1])
def test_resume_ranks_and_processes(ds: bushel.Dataset, processes: int) -> None:
    whole = numbers(made(ds, seed=2))
    loader = made(ds, seed=2, threads=1, processes=processes)
    iterator = iter(loader)
    first = [next(iterator)["label"].tolist() for _ in range(5)]
    state = loader.state_dict()
    assert state["samples"] == sum(map(len, first))
    iterator.close()
    continued = made(ds)
    continued.load_state_dict(state)
    assert first + numbers(continued) == whole
    parts = []
    for rank in range(3):
        other = made(ds, rank=rank, world_size=3)
        other.load_state_dict(state)
        parts.append(numbers(other))
    assert len({len(part) for part in parts}) == 1
    rest = [each for step in zip(*parts, strict=True) for part in step for each in part]
    assert sorted(sum(first, []) + rest) == list(range(COUNT))
    skipped = made(ds, seed=2)
    skipped.skip(len(whole) + 2)
    assert skipped.epoch == 1
    assert len(numbers(skipped)) == len(whole) - 2


def test_states_of_other_batches_are_refused(ds: bushel.Dataset) -> None:
    state = made(ds).state_dict()
    with pytest.raises(StateError, match="order"):
        made(ds, batch_tokens=100).load_state_dict(state)
    with pytest.raises(StateError, match="order"):
        bushel.Loader(ds, 4, shuffle=True).load_state_dict(state)


def refuse(value: int) -> int:
    if value == 7:
        raise ValueError("bad")
    return value


def test_bad_samples_are_replaced_by_samples_that_are_not_longer(ds: bushel.Dataset) -> None:
    for threads in (0, 2):
        batches = list(made(ds, on_error="replace", transforms={"label": refuse}, threads=threads))
        seen = [int(each) for batch in batches for each in batch["label"]]
        assert len(seen) == COUNT
        assert set(seen) == set(range(COUNT)) - {7}
        assert all(batch["tokens"].size <= TOKENS for batch in batches)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"batch_tokens": 28}, ValueError, r"longer than 28, up to 29 \(tokens.length; the longest is sample 'k"),
        ({"batch_tokens": None}, ValueError, "any size"),
        ({"bucket_by": "tokens.ndim"}, KeyError, "bushel index"),
        ({"bucket_by": "tokens.lengt"}, KeyError, "did you mean 'tokens.length'"),
        ({"bucket_by": [1, 2]}, ValueError, "2 lengths for 120"),
        ({"bucket_by": np.full(COUNT, -1)}, ValueError, "0 or more"),
        ({"bucket_by": "note"}, ValueError, "one number"),
        ({"bucket_by": "note.bytes"}, ValueError, "108 samples have no value"),
        ({"bucket_by": None}, ValueError, "need bucket_by"),
        ({"bucket_by": None, "batch_tokens": None, "batch_size": {3: 4}}, ValueError, "need bucket_by"),
        ({"shuffle": "blocks"}, ValueError, "leave out shuffle"),
        ({"weights": "label"}, ValueError, "leave out weights"),
    ],
)
def test_errors(ds: bushel.Dataset, options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        made(ds, **options)


def test_an_empty_dataset(ds: bushel.Dataset) -> None:
    loader = made(ds[:0])
    assert len(loader) == 0
    assert list(loader) == []
    assert "no batches" in repr(loader)
