"""The order of packs: by the document, every piece once in rows of few tokens, and the plan of any ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests._runtime.order_by_document import derive_by_document, permute_by_document

from bushel import kernels
from bushel._runtime.draws import Order
from bushel._runtime.order import Blocks, Exact, Sequential
from bushel.loader.order.packed import Longer, Packed, pieces_of, usual_window
from bushel.loader.plan.plan import Pad, Plan
from bushel.loader.plan.row_units import PackedRows

TOKENS = 40
LENGTHS = st.lists(st.integers(0, TOKENS), max_size=90)


def order_of(
    lengths: list[int], base: type[Order] = Exact, *, window: int = 16, longer: Longer = "error", seed: int = 3
) -> Packed:
    pieces = pieces_of(np.array(lengths, np.int64), TOKENS, longer)
    made: Any = base
    return Packed(made(len(pieces), seed), pieces, TOKENS, window, 0)


def first_fit_by_document(costs: list[int], tokens: int) -> list[list[int]]:
    rows: list[list[int]] = []
    for item in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        for row in rows:
            if sum(costs[i] for i in row) + costs[item] <= tokens:
                row.append(item)
                break
        else:
            rows.append([item])
    return [sorted(row) for row in rows]


def rows_by_document(costs: list[int], tokens: int, window: int, seed: int, e: int) -> list[list[int]]:
    """The pieces of each row of an epoch, over the order `exact`."""
    n, found = len(costs), []
    exact = derive_by_document(1, 1, n, seed, e)
    for w in range(-(-n // window)):
        pieces = [permute_by_document(n, exact, 0, p) for p in range(w * window, min((w + 1) * window, n))]
        rows = first_fit_by_document([costs[piece] for piece in pieces], tokens)
        key = derive_by_document(1, 9, len(rows), seed, e, w)
        order = [permute_by_document(len(rows), key, 0, r) for r in range(len(rows))]
        found += [[pieces[i] for i in rows[r]] for r in order]
    return found


def rows_of(plan: Plan, epoch: int = 0, consumed: int = 0) -> list[list[tuple[int, int]]]:
    """The samples of each row with their first tokens, of the batches on a rank."""
    found = []
    for batch in plan.at(epoch).batches(consumed):
        assert batch.rows is not None
        samples = list(zip(batch.samples.tolist(), batch.rows.begins.tolist(), strict=True))
        found += [samples[start:end] for start, end in zip([0, *batch.rows.ends], batch.rows.ends, strict=False)]
    return found


@given(lengths=LENGTHS, seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**64 - 1), window=st.integers(1, 40))
def test_packs_agree_with_the_document(lengths: list[int], seed: int, epoch: int, window: int) -> None:
    order = order_of(lengths, window=window, seed=seed)
    rows = [[sample for sample, _ in row] for row in rows_of(Plan(order, 3, kind=PackedRows), epoch)]
    assert rows == rows_by_document(lengths, TOKENS, window, seed, epoch)
    assert all(sum(lengths[sample] for sample in row) <= TOKENS for row in rows)
    assert sorted(sample for row in rows for sample in row) == list(range(len(lengths)))


@given(
    sizes=st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 3000), max_size=60),
    capacity=st.integers(1, 2**31 - 1) | st.integers(1, 3000),
)
def test_the_kernel_is_first_fit_decreasing(sizes: list[int], capacity: int) -> None:
    own = [min(size, capacity) for size in sizes]
    items, ends = kernels.pack_rows(np.array(own, np.uint32), capacity)
    rows = [items[start:end].tolist() for start, end in zip([0, *ends], ends, strict=False)]
    assert rows == first_fit_by_document(own, capacity)


def test_the_kernel_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="at most capacity"):
        kernels.pack_rows(np.array([3, 9], np.uint32), 8)
    with pytest.raises(ValueError, match="capacity"):
        kernels.pack_rows(np.array([0], np.uint32), 0)
    with pytest.raises(TypeError, match="uint32"):
        kernels.pack_rows(np.array([3]), 8)


@given(lengths=st.lists(st.integers(0, 5 * TOKENS), max_size=40), base=st.sampled_from([Exact, Sequential, Blocks]))
def test_long_documents_are_split_into_pieces_or_cut(lengths: list[int], base: type[Order]) -> None:
    split = [
        piece for row in rows_of(Plan(order_of(lengths, base, longer="split"), 2, kind=PackedRows)) for piece in row
    ]
    wanted = [(n, b) for n, length in enumerate(lengths) for b in range(0, max(length, 1), TOKENS)]
    assert sorted(split) == wanted
    for row in rows_of(Plan(order_of(lengths, base, longer="split"), 2, kind=PackedRows)):
        assert sum(min(TOKENS, lengths[sample] - begin) for sample, begin in row) <= TOKENS
    cut = [piece for row in rows_of(Plan(order_of(lengths, base, longer="cut"), 2, kind=PackedRows)) for piece in row]
    assert sorted(cut) == [(n, 0) for n in range(len(lengths))]
    pieces = pieces_of(np.array(lengths, np.int64), TOKENS, "split")
    for document in range(len(lengths)):
        for piece in np.flatnonzero(pieces.documents(np.arange(len(pieces)))[0] == document):
            assert pieces.documents(np.array([piece]))[0].tolist() == [document]


def steps_of(plan: Plan, epoch: int = 0, consumed: int = 0) -> list[list[list[int]]]:
    """The samples of all ranks at each step; ranks that have one batch fewer have none there."""
    ranks = []
    for rank in range(plan.world_size):
        own = replace(plan, rank=rank)
        batches, counts = list(own.at(epoch).batches(consumed)), own.at(epoch)
        assert len(batches) == counts.steps(consumed) == counts.reads(consumed)
        for number, batch in enumerate(batches, 1):
            assert batch.consumed == counts.consumed(consumed, number)
            assert np.array_equal(plan.order.take(epoch, batch.positions), batch.samples)
            assert counts.is_over(batch.consumed) == (number == counts.all_steps(consumed))
        ranks.append([batch.samples.tolist() for batch in batches])
    most = max(map(len, ranks))
    return [[rank[step] if step < len(rank) else [] for rank in ranks] for step in range(most)]


@given(lengths=LENGTHS, world_size=st.integers(1, 5), size=st.integers(1, 4), pad=st.sampled_from([None, "wrap"]))
def test_ranks_share_the_rows(lengths: list[int], world_size: int, size: int, pad: Pad) -> None:
    plan = Plan(order_of(lengths), size, 0, world_size, pad=pad, kind=PackedRows)
    rows = len(rows_by_document(lengths, TOKENS, 16, 3, 0))
    steps = steps_of(plan)
    flat = [sample for step in steps for batch in step for sample in batch]
    assert set(flat) == set(range(len(lengths)))
    assert len(steps) == plan.at(0).all_steps() == -(-rows // (world_size * size))
    if pad is None:
        assert len(flat) == len(lengths)
    else:
        counts = [len(rows_of(replace(plan, rank=rank))) for rank in range(world_size)]
        assert set(counts) == {len(steps) * size}
    dropped = replace(plan, pad=None, drop_last=True)
    for step in steps_of(dropped):
        assert all(step)
    assert dropped.at(0).all_steps() == rows // (world_size * size)


@given(lengths=LENGTHS, stages=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 4)), max_size=4))
def test_ranks_and_batches_may_change_in_mid_epoch(lengths: list[int], stages: list[tuple[int, int, int]]) -> None:
    order = order_of(lengths)
    consumed, seen = 0, list[list[tuple[int, int]]]()
    for world_size, size, steps in [*stages, (2, 2, 1 << 30)]:
        plan, done = Plan(order, size, 0, world_size, kind=PackedRows), consumed
        ranks = [list(replace(plan, rank=rank).at(0).batches(consumed))[:steps] for rank in range(world_size)]
        for step in range(max(map(len, ranks))):
            for batches in ranks:
                if step < len(batches):
                    batch = batches[step]
                    assert batch.rows is not None
                    samples = list(zip(batch.samples.tolist(), batch.rows.begins.tolist(), strict=True))
                    ends = batch.rows.ends.tolist()
                    seen += [samples[start:end] for start, end in zip([0, *ends], ends, strict=False)]
                    done = batch.consumed
        consumed = done
    assert seen == rows_of(Plan(order, 1, kind=PackedRows))


def test_padding_is_below_one_percent_and_ranks_have_equal_tokens() -> None:
    lengths = np.clip(np.random.default_rng(0).lognormal(6, 1.2, 200_000), 1, 8192).astype(np.int64)
    pieces = pieces_of(lengths, 8192, "error")
    window = usual_window(pieces.costs, 8192)
    order = Packed(Exact(len(pieces), 7), pieces, 8192, window, 0)
    assert window == 8192
    rows = int(order.row_counts(2)[-1])
    assert int(lengths.sum()) / (rows * 8192) > 0.99
    totals = []
    for rank in range(8):
        plan = Plan(order, 4, rank, 8, drop_last=True, kind=PackedRows)
        batches = list(plan.at(2).batches())
        totals.append(sum(int(lengths[batch.samples].sum()) for batch in batches))
        assert len(batches) == rows // 32
    assert max(totals) / min(totals) < 1.01


def test_windows_are_larger_for_longer_rows() -> None:
    costs = np.full(1000, 100, np.uint32)
    assert usual_window(costs, 1 << 20) == 1 << 17
    assert usual_window(costs, 1 << 15) == 1 << 18 >> 1
    assert usual_window(costs, 700) == usual_window(np.zeros(0, np.uint32), 5) == 1 << 12


def test_versions_name_what_the_order_depends_on() -> None:
    order = order_of([3, 50], longer="cut")
    assert order.version == "packed(40,16,cut,00000000;exact/1)/1"
    assert order_of([3, 50], longer="split").version == "packed(40,16,split,00000000;exact/1)/1"
