"""Rank and world size are looked up again at the first batch, and the first rank says what will hang."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from tests.loader.memory_dataset import MemoryDataset

from bushel.errors import UnsupportedError
from bushel.loader import Loader


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def become(monkeypatch: pytest.MonkeyPatch, rank: int, world_size: int) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world_size))


def numbers(loader: Loader) -> list[Any]:
    return [batch["number"].tolist() for batch in loader]


def expected(rank: int, **options: Any) -> list[Any]:
    return numbers(Loader(MemoryDataset(40), 4, shuffle=True, rank=rank, world_size=2, **options))


@pytest.mark.parametrize("processes", [0, 1])
def test_a_rank_that_came_after_the_loader_is_used(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    loader = Loader(MemoryDataset(40), 4, shuffle=True, processes=processes, threads=1)
    assert len(loader) == 10
    become(monkeypatch, 1, 2)
    assert len(loader) == loader.steps_left == 5
    assert loader.who(0) == Loader(MemoryDataset(40), 4, shuffle=True, rank=1, world_size=2).who(0)
    assert numbers(loader) == expected(1)
    assert (loader.rank, loader.world_size) == (1, 2)


def test_a_loader_that_replaces_excluded_samples_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"exclude": [3], "on_error": "replace"}
    loader = Loader(MemoryDataset(40), 4, shuffle=True, **options)
    become(monkeypatch, 1, 2)
    assert numbers(loader) == expected(1, **options)


def test_a_copy_and_a_state_follow_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Loader(MemoryDataset(40), 4, shuffle=True)
    next(iter(before))
    loader = Loader(MemoryDataset(40), 4, shuffle=True)
    loader.load_state_dict(before.state_dict())
    become(monkeypatch, 0, 2)
    copied = pickle.loads(pickle.dumps(loader))
    state = before.state_dict()
    resumed = Loader(MemoryDataset(40), 4, shuffle=True, rank=0, world_size=2)
    resumed.load_state_dict(state)
    assert numbers(loader) == numbers(copied) == numbers(resumed)


def test_a_rank_that_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Loader(MemoryDataset(40), 4, shuffle=True, rank=0, world_size=2)
    become(monkeypatch, 1, 2)
    assert numbers(loader) == expected(0)


def test_a_rank_that_changes_after_batches_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Loader(MemoryDataset(40), 4)
    loader.peek()
    become(monkeypatch, 1, 2)
    next(iter(loader))
    become(monkeypatch, 0, 2)
    with pytest.raises(UnsupportedError, match=r"was rank 1 of 2 when .* is rank 0 of 2 now: make another loader"):
        next(iter(loader))


def test_options_that_several_ranks_refuse_are_refused_then(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = Loader(MemoryDataset(40), 4, on_error="skip")
    become(monkeypatch, 0, 2)
    with pytest.raises(ValueError, match='give on_error="replace"'):
        next(iter(loader))


def test_a_world_size_without_a_rank_may_be_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning sets WORLD_SIZE, but not RANK, in the processes that it starts."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = Loader(MemoryDataset(40), 4, shuffle=True)
    with pytest.raises(ValueError, match="RANK=None"):
        next(iter(loader))
    become(monkeypatch, 1, 2)
    assert numbers(loader) == expected(1)


@pytest.mark.parametrize(
    ("samples", "options", "unequal"),
    [
        (41, {}, True),
        (42, {}, False),  # one sample for each rank
        (40, {}, False),
        (41, {"drop_last": True}, False),
        (41, {"pad": "wrap"}, False),
        (41, {"batch_size": None}, True),
        (41, {"bucket_by": np.ones(41)}, False),
    ],
)
def test_unequal_steps_are_said_once_on_the_first_rank(samples: int, options: dict[str, Any], unequal: bool) -> None:
    for rank in (0, 1):
        own: dict[str, Any] = {"batch_size": 4, **options}
        loader = Loader(MemoryDataset(samples), rank=rank, world_size=2, **own)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                list(loader)
        told = [str(warning.message) for warning in caught if "unequal steps" in str(warning.message)]
        assert len(told) == (unequal and rank == 0)
        assert all("drop_last=True" in one and 'pad="wrap"' in one and caught[0].filename == __file__ for one in told)


@pytest.mark.parametrize(
    "options",
    [{"shuffle": False}, {"shuffle": True}, {"shuffle": "blocks"}, {"bucket_by": np.ones(20), "batch_tokens": 5}],
)
@pytest.mark.parametrize("batch_size", [None, 1, 2, 5])
def test_lengths_know_what_is_excluded(batch_size: int | None, options: dict[str, Any]) -> None:
    excluded = [0, 1, 2, 3, 4, 11, 17]
    loader = Loader(MemoryDataset(20), batch_size, exclude=excluded, **options)
    assert len(loader) == len(list(loader))
    loader.skip(1)
    assert loader.steps_left == len(list(loader))
    replaced = Loader(MemoryDataset(20), batch_size, exclude=excluded, on_error="replace", **options)
    assert len(replaced) == len(list(replaced))


@pytest.mark.parametrize(
    ("option", "number"),
    [("seed", np.int64(7)), ("threads", np.int8(1)), ("prefetch", np.uint16(2)), ("max_errors", np.int64(3))]
    + [("drop_last", np.True_), ("max_errors", np.float32(0.5)), ("reducing_gap", np.float64(2))],
)
def test_numbers_of_numpy_are_numbers(option: str, number: Any) -> None:
    loader = Loader(MemoryDataset(10), 4, shuffle=True, **{option: number})
    assert type(getattr(loader, option)) is type(number.item())
    assert numbers(loader) == numbers(Loader(MemoryDataset(10), 4, shuffle=True, **{option: number.item()}))


@pytest.mark.parametrize("option", ["seed", "threads", "processes", "prefetch", "batch_size"])
def test_bools_are_no_numbers(option: str) -> None:
    options: dict[str, Any] = {"batch_size": 4, option: True}
    with pytest.raises(TypeError, match=f"{option}=True: expected a whole number"):
        Loader(MemoryDataset(10), **options)
