"""Mixtures: proportions, passes without repetition, ends, and resuming."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import bushel
from bushel._runtime.draws import balanced_order
from bushel.loader import Loader, mix


def read(path: Path) -> bushel.Dataset:
    return bushel.open(path)


def mixed(root: Path, sizes: dict[str, int], weights: dict[str, float], **options: Any) -> Any:
    """Return a mixture of datasets of some sizes, whose numbers start at 0, 1000, …"""
    sets = {name: write(root / name, size, 1000 * place) for place, (name, size) in enumerate(sizes.items())}
    return mix(sets, weights, **options)


def write(path: Path, samples: int, first: int) -> bushel.Dataset:
    with bushel.Writer(path, {"x": "int"}, container="tar") as writer:
        for i in range(samples):
            writer.append({"x": first + i}, key=f"{first + i}")
    return read(path)


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4), seed=st.integers(0, 2**64 - 1))
def test_every_class_is_gone_through_before_it_starts_again(sizes: list[int], seed: int) -> None:
    order = balanced_order(np.repeat(np.arange(len(sizes)), sizes), "label", seed)
    epochs = -(-3 * 4096 // order.samples)
    taken = np.concatenate([order.take(epoch, np.arange(order.samples)) for epoch in range(epochs)])
    starts, share = np.cumsum([0, *sizes]), -(-4096 // len(sizes))
    block = share * len(sizes)
    for number, size in enumerate(sizes):
        mine = (taken >= starts[number]) & (taken < starts[number + 1])
        for first in range(0, len(taken) - block + 1, block):
            assert mine[first : first + block].sum() == share
        numbers = taken[mine].tolist()
        passes = [numbers[first : first + size] for first in range(0, len(numbers), size)]
        assert all(len(set(one)) == len(one) for one in passes)


def test_the_first_exhausted_ends_the_epoch_before_anything_comes_twice(tmp_path: Path) -> None:
    mixture = mixed(tmp_path, {"a": 300, "b": 200}, {"a": 3, "b": 1}, seed=1)
    numbers = [x for batch in Loader(mixture, 16) for x in batch["x"].tolist()]
    assert len(numbers) == len(mixture) == len(set(numbers))
    assert sum(x < 1000 for x in numbers) == 300
    longer = replace(mixture.order, samples=len(mixture) + 1)
    assert len(set(longer.take(0, np.arange(len(mixture) + 1)).tolist())) == len(mixture)


def test_all_exhausted_ends_the_epoch_when_everything_was_seen(tmp_path: Path) -> None:
    mixture = mixed(tmp_path, {"a": 30, "b": 200}, {"a": 3, "b": 1}, until="all")
    numbers = [x for batch in Loader(mixture, 16) for x in batch["x"].tolist()]
    assert set(numbers) == {*range(30), *range(1000, 1200)}
    assert sum(x >= 1000 for x in numbers) == 200
    assert numbers.count(numbers[-1]) == 1
    assert sum(x < 1000 for x in numbers) > 500


def test_an_epoch_of_given_length_and_the_next_goes_on(tmp_path: Path) -> None:
    loader = Loader(mixed(tmp_path, {"a": 64, "b": 64}, {"a": 1, "b": 1}, until=40), 8)
    numbers = [x for _ in range(3) for batch in loader for x in batch["x"].tolist()]
    assert len(numbers) == 120
    assert len(set(numbers)) == 120 - sum(numbers.count(x) - 1 for x in set(numbers))
    for first in (0, 1000):
        mine = [x for x in numbers if first <= x < first + 64]
        assert len(set(mine)) == min(len(mine), 64)


def test_resuming_on_other_ranks_gives_exactly_the_rest(tmp_path: Path) -> None:
    def make(**arguments: Any) -> Loader:
        sets = {name: read(tmp_path / name) for name in "ab"}
        return Loader(mix(sets, {"a": 2.0, "b": 1.0}, seed=7, until=90), **arguments)

    write(tmp_path / "a", 50, 0)
    write(tmp_path / "b", 40, 1000)
    whole = sorted(x for batch in make(batch_size=9) for x in batch["x"].tolist())
    loader, seen = make(batch_size=4), list[int]()
    for batch in loader:
        seen += batch["x"].tolist()
        if len(seen) == 36:
            break
    for rank in range(3):
        resumed = make(batch_size=5, rank=rank, world_size=3)
        resumed.load_state_dict(loader.state_dict())
        seen += [x for batch in resumed for x in batch["x"].tolist()]
    assert sorted(seen) == whole
    other = Loader(mix({"a": read(tmp_path / "a"), "b": read(tmp_path / "b")}, {"a": 1, "b": 1}, until=90), 4)
    with pytest.raises(bushel.errors.StateError, match="mixture differs"):
        other.load_state_dict(loader.state_dict())


def test_the_fingerprint_is_that_of_the_datasets_and_of_states(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", 5, 0), write(tmp_path / "b", 4, 1000)
    mixture = mix({"a": first, "b": second}, {"a": 1, "b": 2}, seed=7)
    assert mixture.fingerprint == bushel.concat([first, second]).fingerprint
    assert mixture.fingerprint == Loader(mixture, 2).state_dict()["fingerprint"]
    assert mixture.fingerprint == mix({"x": first, "y": second}, {"x": 3, "y": 1}).fingerprint
    for others in ({"a": second, "b": first}, {"a": first, "b": second[:3]}, {"a": first}):
        assert mix(others, dict.fromkeys(others, 1)).fingerprint != mixture.fingerprint
    parts: dict[str, Any] = {"a": first, "b": mix({"c": second}, {"c": 1})}
    assert mix(parts, {"a": 1, "b": 1}).fingerprint == mixture.fingerprint


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    dataset = write(tmp_path / "a", 3, 0)
    for weight in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="invalid weights"):
            mix({"a": dataset}, {"a": weight})
    with pytest.raises(ValueError, match="until"):
        mix({"a": dataset}, {"a": 1}, until="never")  # type: ignore[arg-type]
    mixture = mix({"a": dataset}, {"a": 1}, seed=3)
    with pytest.raises(ValueError, match="shuffle"):
        Loader(mixture, 2, shuffle=False)
    with pytest.raises(ValueError, match="seed"):
        Loader(mixture, 2, seed=4)
    with pytest.raises(ValueError, match="beyond"):
        mixture.order.take(2**48, np.arange(1))


def test_a_peek_is_not_counted_and_the_repr_can_be_read(tmp_path: Path) -> None:
    mixture = mixed(tmp_path, {"a": 30, "b": 20}, {"a": 3, "b": 1}, seed=1)
    loader, twin = Loader(mixture, 4), Loader(mixture, 4)
    look = loader.peek()["x"].tolist()
    epochs = [[x for batch in loader for x in batch["x"].tolist()] for _ in range(2)]
    assert epochs == [[x for batch in twin for x in batch["x"].tolist()] for _ in range(2)]
    assert epochs[0][:4] == look
    sets = "'a' of 30, 'b' of 20 samples by 3 : 1"
    assert repr(mixture) == f"<bushel.loader.Mixture: {sets}; {len(mixture)} samples per epoch, seed 1>"
