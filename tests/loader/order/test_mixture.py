"""Mixtures: proportions, passes without repetition, ends, and resuming."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel
from bushel._runtime.shuffle import share_block
from bushel.loader import Loader, Mixed, mix


def read(path: Path) -> bushel.Dataset:
    return bushel.open(path)


def write(path: Path, samples: int, first: int) -> bushel.Dataset:
    with bushel.Writer(path, {"x": "int"}, container="tar") as writer:
        for i in range(samples):
            writer.append({"x": first + i}, key=f"{first + i}")
    return read(path)


@given(weights=st.lists(st.floats(0.001, 1000), min_size=1, max_size=8))
def test_a_block_is_shared_to_within_one_sample(weights: list[float]) -> None:
    shares = share_block(weights)
    assert sum(shares) == 4096
    exact = [weight / sum(weights) * 4096 for weight in weights]
    tiny = sum(share < 1 for share in exact)
    assert all(share >= 1 and abs(share - one) < 1 + tiny for share, one in zip(shares, exact, strict=True))


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    shares=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2),
    samples=st.integers(1, 80),
)
def test_every_set_is_gone_through_before_it_starts_again(
    sizes: list[int], shares: list[int], seed: int, epoch: int, samples: int
) -> None:
    order = Mixed(tuple(sizes), tuple(shares[: len(sizes)]), samples, seed)
    taken = np.concatenate([order.take(e, np.arange(samples)) for e in range(epoch + 1)])
    starts = np.cumsum([0, *sizes])
    block = sum(order.shares)
    for number, (size, share) in enumerate(zip(sizes, order.shares, strict=True)):
        mine = (taken >= starts[number]) & (taken < starts[number + 1])
        for first in range(0, len(taken) - block + 1, block):
            assert mine[first : first + block].sum() == share
        numbers = taken[mine].tolist()
        passes = [numbers[first : first + size] for first in range(0, len(numbers), size)]
        assert all(len(set(one)) == len(one) for one in passes)
    assert len(taken) == samples * (epoch + 1)


def test_positions_can_be_requested_in_any_pieces() -> None:
    order = Mixed((1000, 37), (3, 1), 500, 4)
    whole = order.take(9, np.arange(500))
    assert [int(order.take(9, np.array([p]))[0]) for p in (0, 250, 499)] == whole[[0, 250, 499]].tolist()
    assert np.array_equal(order.take(9, np.arange(500)[::-1]), whole[::-1])


def test_the_first_exhausted_ends_the_epoch_before_anything_comes_twice(tmp_path: Path) -> None:
    mixture = mix({write(tmp_path / "a", 300, 0): 3, write(tmp_path / "b", 200, 1000): 1}, seed=1)
    numbers = [x for batch in Loader(mixture, 16) for x in batch["x"].tolist()]
    assert len(numbers) == len(mixture) == len(set(numbers))
    assert sum(x < 1000 for x in numbers) == 300
    assert isinstance(mixture.order, Mixed)
    longer = mixture.order.take(0, np.arange(len(mixture)))
    assert longer.max() < 500
    more = Mixed(mixture.order.sizes, mixture.order.shares, len(mixture) + 1, 1).take(0, np.arange(len(mixture) + 1))
    assert len(set(more.tolist())) == len(more) - 1


def test_all_exhausted_ends_the_epoch_when_everything_was_seen(tmp_path: Path) -> None:
    mixture = mix({write(tmp_path / "a", 30, 0): 3, write(tmp_path / "b", 200, 1000): 1}, until="all")
    numbers = [x for batch in Loader(mixture, 16) for x in batch["x"].tolist()]
    assert set(numbers) == {*range(30), *range(1000, 1200)}
    assert sum(x >= 1000 for x in numbers) == 200
    assert numbers.count(numbers[-1]) == 1
    assert sum(x < 1000 for x in numbers) > 500


def test_an_epoch_of_given_length_and_the_next_goes_on(tmp_path: Path) -> None:
    loader = Loader(mix({write(tmp_path / "a", 64, 0): 1, write(tmp_path / "b", 64, 1000): 1}, until=40), 8)
    numbers = [x for _ in range(3) for batch in loader for x in batch["x"].tolist()]
    assert len(numbers) == 120
    assert len(set(numbers)) == 120 - sum(numbers.count(x) - 1 for x in set(numbers))
    for first in (0, 1000):
        mine = [x for x in numbers if first <= x < first + 64]
        assert len(set(mine)) == min(len(mine), 64)


def test_resuming_on_other_ranks_gives_exactly_the_rest(tmp_path: Path) -> None:
    def make(**arguments: Any) -> Loader:
        parts = {read(tmp_path / name): weight for name, weight in (("a", 2.0), ("b", 1.0))}
        return Loader(mix(parts, seed=7, until=90), **arguments)

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
    other = Loader(mix({read(tmp_path / "a"): 1, read(tmp_path / "b"): 1}, until=90), 4)
    with pytest.raises(bushel.errors.StateError, match="mixed"):
        other.load_state_dict(loader.state_dict())


def test_the_fingerprint_is_that_of_the_datasets_and_of_states(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", 5, 0), write(tmp_path / "b", 4, 1000)
    mixture = mix({first: 1, second: 2}, seed=7)
    assert mixture.fingerprint == bushel.concat([first, second]).fingerprint
    assert mixture.fingerprint == Loader(mixture, 2).state_dict()["fingerprint"]
    assert mixture.fingerprint == mix({first: 3, second: 1}).fingerprint
    others = [mix({second: 2, first: 1}), mix({first: 1, second[:3]: 2}), mix({first: 1})]
    assert mixture.fingerprint not in [other.fingerprint for other in others]
    parts: dict[str, Any] = {"a": first, "b": mix({"c": second}, {"c": 1})}
    assert mix(parts, {"a": 1, "b": 1}).fingerprint == mixture.fingerprint


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    dataset = write(tmp_path / "a", 3, 0)
    for weights in ({}, {dataset: 0}, {dataset: -1}, {dataset: float("nan")}, {dataset[:0]: 1}):
        with pytest.raises(ValueError, match="mixture"):
            mix(weights)
    with pytest.raises(ValueError, match="until"):
        mix({dataset: 1}, until="never")  # type: ignore[arg-type]
    mixture = mix({dataset: 1}, seed=3)
    with pytest.raises(ValueError, match="shuffle"):
        Loader(mixture, 2, shuffle=False)
    with pytest.raises(ValueError, match="seed"):
        Loader(mixture, 2, seed=4)
    with pytest.raises(ValueError, match="beyond"):
        mixture.order.take(2**48, np.arange(1))


def test_a_peek_is_not_counted_and_the_repr_can_be_read(tmp_path: Path) -> None:
    mixture = mix({write(tmp_path / "a", 30, 0): 3, write(tmp_path / "b", 20, 1000): 1}, seed=1)
    loader, twin = Loader(mixture, 4), Loader(mixture, 4)
    look = loader.peek()["x"].tolist()
    epochs = [[x for batch in loader for x in batch["x"].tolist()] for _ in range(2)]
    assert epochs == [[x for batch in twin for x in batch["x"].tolist()] for _ in range(2)]
    assert epochs[0][:4] == look
    shares = "0.75 of 30 samples, 0.25 of 20 samples"
    assert repr(mixture) == f"<bushel.loader.Mixture: {shares}; {len(mixture)} samples per epoch, seed 1>"
