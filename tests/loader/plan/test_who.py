"""Who and when agree with what loaders give, for every order, on every rank."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from tests.loader.documents import COUNT, LENGTHS, write

import bushel
from bushel.loader import Megatron


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    return write(tmp_path_factory.mktemp("who") / "data", LENGTHS, container="bag")


PACKS: dict[str, Any] = {"pack_by": "tokens.length", "pack_tokens": 40, "shuffle": True}
CHUNKS: dict[str, Any] = {"chunk_by": "tokens.length", "chunk_tokens": 40, "shuffle": True}
ORDERS: dict[str, dict[str, Any]] = {
    "stored": {},
    "exact": {"shuffle": True},
    "blocks": {"shuffle": bushel.loader.Blocks(COUNT, 0, size=7, window=3)},
    "weights": {"weights": np.arange(COUNT) % 3},
    "balance": {"balance": "tokens.length"},
    "buckets": {"bucket_by": "tokens.length", "batch_tokens": 90},
    "packs": PACKS,
    "split": {**PACKS, "pack_tokens": 10, "pack_longer": "split"},
    "chunks": {**CHUNKS, "overlap": 1},
    "weighted chunks": {**CHUNKS, "shuffle": None, "weights": np.arange(COUNT) % 3},
    "megatron": {**CHUNKS, "shuffle": Megatron(rows=80)},
    "megatron, one pass": {**CHUNKS, "shuffle": Megatron()},
}


def keys_in(batch: Any) -> set[str]:
    keys = batch["__key__"]
    return {key for row in keys for key in row} if isinstance(keys[0], list) else set(keys)


def assert_agrees(dataset: Any, keys: list[str], options: dict[str, Any]) -> None:
    """Compare `who` and `when` with the batches of all ranks in two epochs."""
    loaders = [bushel.Loader(dataset, rank=rank, world_size=3, **options) for rank in range(3)]
    for epoch in range(2):
        seen = defaultdict(set)
        for rank, loader in enumerate(loaders):
            for step, batch in enumerate(loader):
                assert loaders[0].who(step, rank, epoch) == batch["__key__"]
                for key in keys_in(batch):
                    seen[key].add((epoch, step, rank))
        for key in keys:
            assert loaders[1].when(key, epoch) == sorted(seen[key])


@pytest.mark.parametrize("end", [{}, {"drop_last": True}, {"pad": "wrap"}], ids=["short", "drop_last", "wrap"])
@pytest.mark.parametrize("name", ORDERS)
def test_all_orders(ds: bushel.Dataset, name: str, end: dict[str, Any]) -> None:
    size = {} if name == "buckets" else {"batch_size": 4}
    every = 7 if end else 1  # keys whose batches do not depend on how the epoch ends are looked up once
    assert_agrees(ds, list(ds.keys[-1::-every]), {**ORDERS[name], **end, **size})


@pytest.mark.parametrize("options", [{}, PACKS, CHUNKS])
def test_mixtures(ds: bushel.Dataset, options: dict[str, Any]) -> None:
    options = {name: value for name, value in options.items() if name != "shuffle"}
    inner = bushel.mix({"a": ds[:40], "b": ds[40:70]}, {"a": 1, "b": 2}, until=80)
    sets: dict[str, Any] = {"in": inner, "c": ds[70:]}
    for mixture in (
        bushel.mix({"a": ds[:50], "b": ds[50:]}, weights={"a": 0.3, "b": 0.7}),
        bushel.mix(sets, schedule=[(0, {"in": 1}), (70, {"in": 1, "c": 3})], until=130),
    ):
        assert_agrees(mixture, list(ds.keys), {"batch_size": 4, **options})


def test_mistakes(ds: bushel.Dataset) -> None:
    loader = bushel.Loader(ds, 10, shuffle=True, world_size=2, rank=1)
    assert loader.who(3) == loader.who(3, 1, 0) != loader.who(3, 0)
    with pytest.raises(IndexError, match="step=8: epoch 0 has 8 steps for rank 1"):
        loader.who(8)
    with pytest.raises(IndexError, match="rank=2: the loader has the ranks 0 to 1"):
        loader.who(0, 2)
    with pytest.raises(KeyError, match="k999"):
        loader.when("k999")
    single = bushel.Loader(ds, shuffle=True)
    assert [single.who(step)[0] for step in range(5)] == [
        sample["__key__"] for sample, _ in zip(single, range(5), strict=False)
    ]


@pytest.mark.parametrize("name", ORDERS)
def test_peek_gives_the_batch_of_any_step_of_any_rank(ds: bushel.Dataset, name: str) -> None:
    options = {**ORDERS[name], **({} if name == "buckets" else {"batch_size": 4})}
    loaders = [bushel.Loader(ds, rank=rank, world_size=3, **options) for rank in range(3)]
    for rank, loader in enumerate(loaders):
        other = loaders[rank - 1]
        state = other.state_dict()
        loader.epoch = 1
        batches = list(loader)
        for step in sorted({0, len(batches) // 2, len(batches) - 1}):
            assert str(dict(other.peek(step, rank, 1))) == str(dict(batches[step]))
        with pytest.raises(IndexError, match=f"step={len(batches)}"):
            other.peek(len(batches), rank, 1)
        assert other.state_dict() == state


def test_peek_at_a_step_of_single_samples_and_of_one_that_is_left_out(ds: bushel.Dataset) -> None:
    single = bushel.Loader(ds, shuffle=True)
    assert single.peek(step=5)["__key__"] == single.who(5)[0]
    nothing = bushel.Loader(ds, 2, exclude=list(ds.keys[:2]), on_error="skip")
    with pytest.raises(IndexError, match="all samples of this step are left out"):
        nothing.peek(step=0)
    with pytest.raises(IndexError, match="rank=1"):
        nothing.peek(rank=1)


@pytest.mark.parametrize("options", [{}, PACKS, CHUNKS])
def test_shares_of_a_step_are_those_of_its_batch(ds: bushel.Dataset, options: dict[str, Any]) -> None:
    options = {name: value for name, value in options.items() if name != "shuffle"}
    mixture = bushel.mix({"a": ds[:40], "b": ds[40:]}, schedule=[(0, {"a": 1}), (30, {"a": 1, "b": 3})], until=90)
    loader = bushel.Loader(mixture, 4, **options)
    for step, batch in enumerate(loader):
        rows = batch["__source__"]
        names = [name for row in rows for name in row] if isinstance(rows[0], list) else rows
        assert loader.shares(step) == {"a": names.count("a"), "b": names.count("b")}
    assert bushel.Loader(ds, 4).shares(0) == {}
