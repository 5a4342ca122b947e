"""What `who` and `when` count of an epoch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bushel._runtime.draws import Balanced
from bushel._runtime.order import Blocks, Exact, Sequential
from bushel.loader.order.chunks import Chunked, Megatron, MegatronChunks
from bushel.loader.order.packed import Packed, pieces_of
from bushel.loader.plan import who
from bushel.loader.plan.plan import Plan
from bushel.loader.plan.row_units import ChunkRows, PackedRows

LENGTHS = np.random.default_rng(4).integers(0, 60, 6000).astype(np.uint32)
CLASSES = Balanced(np.arange(6000), (2000, 4000), 6000, 5)
Make = Callable[[], Plan]


def packs(base: Any) -> Make:
    return lambda: Plan(Packed(base, pieces_of(LENGTHS, 64, "error"), 64, 100, 7), 4, 1, 2, kind=PackedRows)


def chunks(base: Any) -> Make:
    return lambda: Plan(Chunked(base, LENGTHS, 64, 1, 7), 4, 1, 2, kind=ChunkRows)


PLANS: dict[str, Make] = {
    "packs": packs(Exact(6000, 3)),
    "packs of blocks": packs(Blocks(6000, 3, 64, 4)),
    "packs as stored": packs(Sequential(6000, 3)),
    "packs of draws": packs(CLASSES),
    "chunks": chunks(Exact(6000, 3)),
    "chunks of blocks": chunks(Blocks(6000, 3, 64, 4)),
    "chunks of draws": chunks(CLASSES),
    "megatron": lambda: Plan(MegatronChunks(Megatron(5000), LENGTHS, 64, 1, 7, 3), 4, 1, 2, kind=ChunkRows),
}


def answers(plan: Plan) -> list[Any]:
    """Ask a plan about both ends and the middle of two epochs, and about some samples."""
    answers: list[Any] = []
    for epoch in (0, 1):
        for step in (0, 150, 290):
            batch = who.batch_of(plan, epoch, step, 0)
            answers.append([batch.samples.tolist(), batch.consumed])
        answers += [who.steps_with(plan, epoch, sample) for sample in (0, 17, 5999)]
    return answers


@pytest.mark.parametrize("name", PLANS)
def test_what_was_counted_before_does_not_change_an_answer(name: str) -> None:
    plan = PLANS[name]()
    counted = [answers(plan), answers(plan)]
    assert counted == [answers(PLANS[name]())] * 2
    assert not list(Path(os.environ["BUSHEL_TABLES_DIR"]).rglob("*-[0-9]"))  # nothing is left for later processes


@pytest.mark.parametrize("pad", [None, "wrap"])
def test_rows_after_a_step_are_not_counted(pad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel.loader.order.chunks._AT_A_TIME", 1)
    monkeypatch.setattr("bushel.loader.order.packed.cpu_count", lambda: 1)
    plan = replace(chunks(CLASSES)(), pad=pad)  # draws: nobody knows how many tokens they have
    assert isinstance(plan.order, Chunked)
    who.batch_of(plan, 0, 3, 0)
    [(_, counts)] = plan.order.sums.kept
    assert 1 < len(counts) < 5
    with pytest.raises(IndexError, match=f"step=999: epoch 0 has {plan.at(0).steps()} steps"):
        who.batch_of(plan, 0, 999, 0)
