"""What who and when have counted is kept: later processes answer without counting, and never from wrong counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.loader.documents import write

import bushel
from bushel import kernels
from bushel._runtime.order import Balanced, Blocks, Exact, Sequential
from bushel.loader.order import chunked, megatron, packed
from bushel.loader.order.chunked import Chunked
from bushel.loader.order.megatron import Megatron, MegatronChunks
from bushel.loader.order.packed import Packed, pieces_of
from bushel.loader.plan import who
from bushel.loader.plan.chunk_plan import ChunkPlan
from bushel.loader.plan.pack_plan import PackPlan

LENGTHS = np.random.default_rng(4).integers(0, 60, 6000).astype(np.uint32)
CLASSES = Balanced(np.arange(6000), (2000, 4000), 6000, 5)
Make = Callable[[], PackPlan | ChunkPlan]


def packs(base: Any) -> Make:
    return lambda: PackPlan(Packed(base, pieces_of(LENGTHS, 64, "error"), 64, 100, 7), 4, 1, 2)


def chunks(base: Any) -> Make:
    return lambda: ChunkPlan(Chunked(base, LENGTHS, 64, 1, 7), 4, 1, 2)


PLANS: dict[str, Make] = {
    "packs": packs(Exact(6000, 3)),
    "packs of blocks": packs(Blocks(6000, 3, 64, 4)),
    "packs as stored": packs(Sequential(6000, 3)),
    "packs of draws": packs(CLASSES),
    "chunks": chunks(Exact(6000, 3)),
    "chunks of blocks": chunks(Blocks(6000, 3, 64, 4)),
    "chunks of draws": chunks(CLASSES),
    "megatron": lambda: ChunkPlan(MegatronChunks(Megatron(5000), LENGTHS, 64, 1, 7, 3), 4, 1, 2),
}


@pytest.fixture(autouse=True)
def _small_epochs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_WINDOWS_WORTH_KEEPING", 1)
    monkeypatch.setattr(chunked, "_WORTH_KEEPING", 1)
    monkeypatch.setattr(megatron, "_WORTH_KEEPING", 1)


def kept() -> list[Path]:
    return sorted(path for path in Path(os.environ["BUSHEL_TABLES_DIR"]).rglob("*-[0-9]"))


def answers(make: Make) -> list[Any]:
    """Ask a plan that has counted nothing about both ends and the middle of two epochs, and about some samples."""
    found: list[Any] = []
    for epoch in (0, 1):
        for step in (0, 150, 290):
            batch = who.batch_of(make(), epoch, step, 0)
            found.append([batch.samples.tolist(), batch.consumed])
        found += [who.steps_with(make(), epoch, sample) for sample in (0, 17, 5999)]
    return found


def no_counting(*_: Any, **__: Any) -> Any:
    raise AssertionError("this was counted before")


@pytest.mark.parametrize("name", PLANS)
def test_later_processes_do_not_count_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_TABLES_SIZE", "0")
    wanted = answers(PLANS[name])
    assert not kept()
    monkeypatch.delenv("BUSHEL_TABLES_SIZE")
    assert answers(PLANS[name]) == wanted
    assert kept()
    assert answers(PLANS[name]) == wanted  # what the first questions did not need is counted and kept, too
    monkeypatch.setattr(kernels, "count_rows", no_counting)
    monkeypatch.setattr(Chunked, "_count_more", no_counting)
    monkeypatch.setattr(MegatronChunks, "_shuffled", no_counting)
    assert answers(PLANS[name]) == wanted


@pytest.mark.parametrize("name", PLANS)
def test_batches_alone_keep_nothing(name: str) -> None:
    plan = PLANS[name]()
    assert len(list(plan.batches(0))) == plan.at(0).steps()
    assert not kept()


TRAININGS: dict[str, dict[str, Any]] = {
    "packs": {"pack_by": "tokens.length", "pack_tokens": 64},
    "chunks": {"chunk_by": "tokens.length", "chunk_tokens": 64},
    "megatron": {"chunk_by": "tokens.length", "chunk_tokens": 64, "overlap": 1, "shuffle": Megatron(900)},
}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", TRAININGS)
def test_a_saved_state_keeps_what_training_counted(
    name: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_LEAST", 64)
    monkeypatch.setattr(packed, "_ROWS", 8)
    options = {"shuffle": True, "seed": 3, **TRAININGS[name]}
    documents = write(tmp_path / "documents", LENGTHS[:2000].tolist(), container="tar")

    def made(rank: int = 0) -> bushel.Loader:
        return bushel.Loader(documents, 4, rank=rank, world_size=2, **options)

    def trained(rank: int) -> dict[int, Any]:
        loader, seen = made(rank), {}
        for step, batch in enumerate(loader):
            seen[step] = batch["__key__"]
            if step == 40 and not whole:
                break
        loader.state_dict()
        return seen

    trained(1)
    assert not kept()
    seen = trained(0)
    assert kept()
    monkeypatch.setattr(kernels, "count_rows", no_counting)
    monkeypatch.setattr(Chunked, "_count_more", no_counting)
    monkeypatch.setattr(MegatronChunks, "_shuffled", no_counting)
    asked = made()
    for step in (0, 20, 38):
        assert asked.who(step, rank=0) == seen[step]


@pytest.mark.parametrize("damage", ["bits", "other counts", "short"])
@pytest.mark.parametrize("name", PLANS)
def test_wrong_counts_are_counted_again(name: str, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = answers(PLANS[name])
    files = kept()
    for file in files:
        data = bytearray(file.read_bytes())
        if damage == "bits":
            data[-5] ^= 0x40
        file.write_bytes(data)
    if damage != "bits":  # with right checksums, as another program could have written them
        wrong = np.full(7, 1 << 30, np.int64) if damage == "other counts" else np.zeros(0, np.int64)
        for module in (packed, chunked, megatron):
            monkeypatch.setattr(module, "kept_counts", lambda *_, **__: wrong)
    assert answers(PLANS[name]) == wanted


def test_other_lengths_seeds_and_epochs_have_counts_of_their_own() -> None:
    for name in ("packs", "chunks", "megatron"):
        plan = PLANS[name]()
        fields = {
            name: getattr(plan.order, name) for name, field in plan.order.__dataclass_fields__.items() if field.init
        }
        for seed in (3, 4):
            for checksum in (7, 8):
                order = type(plan.order)(**{**fields, "checksum": checksum}).reseeded(seed)
                for epoch in (0, 1):
                    before = set(kept())
                    who.batch_of(replace(plan, order=order), epoch, 150, 0)
                    assert set(kept()) - before


@pytest.mark.parametrize("pad", [None, "wrap"])
def test_rows_after_a_step_are_not_counted(pad: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_TABLES_SIZE", "0")
    monkeypatch.setattr(chunked, "_AT_A_TIME", 1)
    monkeypatch.setattr(chunked, "_MOST_AT_A_TIME", 1)
    plan, own = replace(chunks(CLASSES)(), pad=pad), chunks(CLASSES)()  # draws: nobody knows how many tokens they have
    assert isinstance(plan.order, Chunked)
    assert isinstance(own.order, Chunked)
    who.batch_of(plan, 0, 3, 0)
    [(_, counts)] = plan.order._counts
    assert 1 < len(counts.head) < 5
    early = next(sample for sample in range(6000) if 0 < max(CLASSES.positions(0, sample), default=0) < 1000)
    assert who.steps_with(own, 0, early)
    [(_, counts)] = own.order._counts
    assert len(counts.head) < own.order._windows / 2
    with pytest.raises(IndexError, match=f"step=999: epoch 0 has {own.at(0).steps()} steps"):
        who.batch_of(plan, 0, 999, 0)
