"""Plans of batches of similar samples: equal steps on all ranks, each sample once, and resuming anywhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bushel.loader.order.bucketed import bucketed_order
from bushel.loader.plan.plan import Pad, Plan
from bushel.loader.plan.row_units import Buckets

LENGTHS = st.lists(st.integers(0, 30), max_size=80)
TOKENS = 40


def plan_of(lengths: list[int], world_size: int = 1, *, drop_last: bool = False, pad: Pad = None) -> Plan:
    order = bucketed_order(np.array(lengths), None, TOKENS, drop_last=drop_last, seed=3)
    return Plan(order, 1, 0, world_size, drop_last, pad, kind=Buckets)


def steps_of(plan: Plan, epoch: int = 0, consumed: int = 0) -> list[list[list[int]]]:
    """The batches of all ranks at each step."""
    ranks = []
    for rank in range(plan.world_size):
        own = replace(plan, rank=rank)
        batches = list(own.at(epoch).batches(consumed))
        counts = own.at(epoch)
        assert len(batches) == counts.steps(consumed) == counts.all_steps(consumed) == counts.reads(consumed)
        for number, batch in enumerate(batches, 1):
            assert batch.epoch == epoch
            assert len(batch.samples)
            assert batch.consumed == counts.consumed(consumed, number)
            assert np.array_equal(plan.order.take(epoch, batch.positions), batch.samples)
        ranks.append([batch.samples.tolist() for batch in batches])
    return [list(step) for step in zip(*ranks, strict=True)]


@given(lengths=LENGTHS, world_size=st.integers(1, 9), epoch=st.integers(0, 5))
def test_ranks_have_equal_steps_and_share_the_epoch(lengths: list[int], world_size: int, epoch: int) -> None:
    steps = steps_of(plan_of(lengths, world_size), epoch)
    flat = [sample for step in steps for batch in step for sample in batch]
    assert set(flat) == set(range(len(lengths)))
    for batch in (batch for step in steps for batch in step):
        assert len(batch) * max(lengths[sample] for sample in batch) <= TOKENS
    before = [sample for step in steps[:-1] for batch in step for sample in batch]
    assert len(before) == len(set(before))
    if steps and len({sample for batch in steps[-1] for sample in batch}) != sum(map(len, steps[-1])):
        assert min(map(len, steps[-1])) == 1  # too few samples for all ranks: some have the same one


@given(
    lengths=LENGTHS,
    stages=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), max_size=4),
)
def test_ranks_may_change_in_mid_epoch(lengths: list[int], stages: list[tuple[int, int]]) -> None:
    consumed, seen = 0, list[int]()
    for world_size, count in stages:
        plan = plan_of(lengths, world_size)
        steps = steps_of(plan, 1, consumed)[:count]
        seen += [sample for step in steps for batch in step for sample in batch]
        consumed = plan.at(1).consumed(consumed, len(steps))
        assert plan.at(1).is_over(consumed) == (not steps_of(plan, 1, consumed))
    seen += [sample for step in steps_of(plan_of(lengths), 1, consumed) for batch in step for sample in batch]
    assert set(seen) == set(range(len(lengths)))
    if all(world_size == 1 for world_size, _ in stages):
        assert seen == [sample for step in steps_of(plan_of(lengths), 1) for batch in step for sample in batch]


@given(lengths=LENGTHS, world_size=st.integers(1, 5), data=st.data())
def test_resuming_continues(lengths: list[int], world_size: int, data: st.DataObject) -> None:
    plan = plan_of(lengths, world_size)
    whole = steps_of(plan, 2)
    step = data.draw(st.integers(0, len(whole)))
    assert steps_of(plan, 2, plan.at(2).consumed(0, step)) == whole[step:]


@given(lengths=LENGTHS, world_size=st.integers(1, 9))
def test_drop_last_and_wrap(lengths: list[int], world_size: int) -> None:
    dropped = steps_of(plan_of(lengths, world_size, drop_last=True))
    flat = [sample for step in dropped for batch in step for sample in batch]
    assert len(flat) == len(set(flat))
    wrapped = plan_of(lengths, world_size, pad="wrap")
    steps = steps_of(wrapped)
    assert len(steps) == -(-len(wrapped.order.starts) // world_size)
    whole = {tuple(batch) for step in steps_of(plan_of(lengths)) for batch in step}
    assert {tuple(batch) for step in steps for batch in step} == whole


def test_the_last_step_divides_what_is_left() -> None:
    plan = plan_of([20] * 10, 4)  # batches of 2: five of them
    steps = steps_of(plan)
    assert [[len(batch) for batch in step] for step in steps] == [[2, 2, 2, 2], [1, 1, 1, 1]]
    assert len({sample for batch in steps[1] for sample in batch}) == 2


def test_a_place_within_a_batch_is_continued() -> None:
    plan = plan_of([4] * 25)
    whole = [sample for [batch] in steps_of(plan) for sample in batch]
    assert [sample for [batch] in steps_of(plan, 0, 7) for sample in batch] == whole[7:]
