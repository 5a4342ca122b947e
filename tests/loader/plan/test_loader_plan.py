"""Plans: the union over ranks is the epoch exactly once, whatever changes on the way."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loader.memory_dataset import MemoryDataset

from bushel._runtime.order import Exact, Sequential
from bushel.loader import Loader
from bushel.loader.plan.plan import Pad, Plan


def union(plan: Plan, epoch: int = 0, consumed: int = 0, steps: int | None = None) -> list[int]:
    """What all ranks get in the next `steps` global batches."""
    found: list[int] = []
    for rank in range(plan.world_size):
        own = Plan(plan.order, plan.batch_size, rank, plan.world_size, plan.drop_last, plan.pad)
        batches = list(own.at(epoch).batches(consumed))
        assert len(batches) == own.at(epoch).steps(consumed)
        for batch in batches[:steps]:
            assert len(batch.positions) == len(batch.samples) >= 1
            assert np.array_equal(plan.order.take(epoch, batch.positions), batch.samples)
            found += batch.samples.tolist()
    return found


@given(samples=st.integers(0, 200), batch_size=st.integers(1, 20), world_size=st.integers(1, 9))
def test_the_union_over_ranks_is_the_epoch_once(samples: int, batch_size: int, world_size: int) -> None:
    plan = Plan(Exact(samples, 3), batch_size, 0, world_size)
    assert sorted(union(plan)) == list(range(samples))


@given(
    samples=st.integers(1, 150),
    stages=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(0, 4)), max_size=4),
)
def test_ranks_and_batch_size_may_change_in_mid_epoch(samples: int, stages: list[tuple[int, int, int]]) -> None:
    order, consumed, seen = Exact(samples, 5), 0, list[int]()
    for batch_size, world_size, steps in stages:
        plan = Plan(order, batch_size, 0, world_size)
        seen += union(plan, 1, consumed, steps)
        consumed = plan.at(1).consumed(consumed, steps)
    seen += union(Plan(order, 7, 0, 3), 1, consumed)
    assert sorted(seen) == list(range(samples))


@given(samples=st.integers(1, 100), batch_size=st.integers(1, 12), world_size=st.integers(1, 9))
def test_wrap_fills_every_batch_of_every_rank(samples: int, batch_size: int, world_size: int) -> None:
    plans = [Plan(Exact(samples, 3), batch_size, rank, world_size, pad="wrap") for rank in range(world_size)]
    batches = [list(plan.at(0).batches()) for plan in plans]
    assert {len(own) for own in batches} == {-(-samples // (batch_size * world_size))}
    assert all(len(batch.samples) == batch_size for own in batches for batch in own)
    counts = np.bincount(np.concatenate([batch.samples for own in batches for batch in own]), minlength=samples)
    assert counts.min() >= 1
    assert counts.max() - counts.min() <= 1


@given(samples=st.integers(0, 100), batch_size=st.integers(1, 12), world_size=st.integers(1, 9))
def test_drop_last_gives_whole_batches_only(samples: int, batch_size: int, world_size: int) -> None:
    plan = Plan(Exact(samples, 3), batch_size, world_size - 1, world_size, drop_last=True)
    batches = list(plan.at(0).batches())
    assert len(batches) == samples // (batch_size * world_size)
    assert all(len(batch.samples) == batch_size for batch in batches)


def test_a_global_batch_is_consecutive_positions_cut_by_rank() -> None:
    ranks = [Plan(Sequential(10), 2, rank, 2) for rank in range(2)]
    assert [[b.samples.tolist() for b in plan.at(0).batches()] for plan in ranks] == [
        [[0, 1], [4, 5], [8]],
        [[2, 3], [6, 7], [9]],
    ]
    assert [b.consumed for b in ranks[0].at(0).batches()] == [4, 8, 10]
    assert [b.samples.tolist() for b in ranks[1].at(0).batches(4)] == [[6, 7], [9]]


def test_without_padding_a_rank_may_get_one_batch_fewer() -> None:
    assert [Plan(Sequential(9), 2, rank, 4).at(0).steps() for rank in range(4)] == [1, 1, 1, 2]
    assert [Plan(Sequential(9), 2, rank, 4, pad="wrap").at(0).steps() for rank in range(4)] == [2, 2, 2, 2]


def test_starting_in_a_long_epoch_costs_nothing() -> None:
    plan = Plan(Exact(2**48, 1), 256)
    assert plan.at(0).steps() == 2**40
    batch = next(plan.at(0).batches(2**47))
    assert batch.positions[0] == 2**47
    assert batch.consumed == 2**47 + 256


@pytest.mark.parametrize(
    ("drop_last", "pad", "says"),
    [
        (True, "wrap", "give only one"),
        (False, "zeros", "unknown pad"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"bucket_by": [4] * 5}])
def test_wrong_arguments_are_refused(drop_last: bool, pad: Pad, says: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=says):
        Loader(MemoryDataset(5), 1, drop_last=drop_last, pad=pad, **options)
