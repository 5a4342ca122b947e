"""Chunks: the rows of a stream of documents, Megatron's order by its own indices, and loaders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loader.documents import COUNT, LENGTHS, longer, write

import bushel
from bushel._runtime.draws import Order, Weighted
from bushel._runtime.order import Blocks, Exact, Sequential
from bushel.errors import SpecError, StateError
from bushel.loader.order.chunks import Chunked, Megatron, MegatronChunks, RowPieces
from bushel.loader.plan.plan import Plan
from bushel.loader.plan.row_units import ChunkRows

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "megatron-order.json").read_text())


def rows_of(pieces: RowPieces) -> list[list[list[int]]]:
    """The document, first token and end of each piece, row by row."""
    whole = np.stack([pieces.documents, pieces.begins, pieces.begins + pieces.counts], axis=1).tolist()
    return [whole[start:end] for start, end in zip([0, *pieces.ends], pieces.ends, strict=False)]


@pytest.mark.parametrize("golden", GOLDEN["orders"], ids=lambda one: f"{one['seed']}-{one['num_samples']}")
def test_rows_of_megatron_are_those_of_megatron(golden: dict[str, Any]) -> None:
    overlap = golden["add_extra_token_to_sequence"]
    lengths, tokens = np.array(GOLDEN["lengths"], np.uint32), golden["sequence_length"] + overlap
    order = MegatronChunks(Megatron(golden["num_samples"]), lengths, tokens, overlap, 0, golden["seed"])
    assert order.rows(0) == len(golden["rows"])
    assert rows_of(order.pieces(0, np.arange(order.rows(0)))) == golden["rows"]


@given(
    lengths=st.lists(st.integers(0, 30), max_size=700),
    base=st.sampled_from([Exact, Sequential, Blocks]),
    tokens=st.integers(1, 40),
    epoch=st.integers(0, 3),
    data=st.data(),
)
def test_rows_are_those_of_the_stream(
    lengths: list[int], base: type[Order], tokens: int, epoch: int, data: st.DataObject
) -> None:
    overlap, kind = data.draw(st.integers(0, tokens - 1)), base
    made: Any = kind
    order = Chunked(made(len(lengths), 5), np.array(lengths, np.uint32), tokens, overlap, 0)
    documents = order.base.take(epoch, np.arange(len(lengths))).tolist()
    stream = [(document, token) for document in documents for token in range(lengths[document])]
    count = order.rows(epoch)
    assert count == max(0, len(stream) - overlap) // (tokens - overlap)
    rows = data.draw(st.lists(st.integers(0, count - 1), max_size=9)) if count else []
    pieces = order.pieces(epoch, np.array(rows, np.int64)) if rows else None
    for row, found in zip(rows, rows_of(pieces) if pieces else [], strict=True):
        own = [(document, token) for document, begin, end in found for token in range(begin, end)]
        assert own == stream[row * (tokens - overlap) :][:tokens]


def test_epochs_of_random_draws_may_have_other_numbers_of_rows() -> None:
    lengths = np.arange(1000, dtype=np.uint32)
    order = Chunked(Weighted(np.cumsum(np.ones(1000)), 3), lengths, 100, 0, 0)
    assert not order.is_even
    for epoch in range(3):
        drawn = order.base.take(epoch, np.arange(1000))
        assert order.rows(epoch) == int(lengths[drawn].sum()) // 100
    assert len({order.rows(epoch) for epoch in range(3)}) == 3


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    return write(tmp_path_factory.mktemp("chunks") / "data", [*LENGTHS[:-2], 900, 0], container="bag")


def made(ds: Any, size: int = 3, **options: Any) -> bushel.Loader:
    given = {"chunk_by": "tokens.length", "chunk_tokens": 40, "shuffle": True, "seed": 5, **options}
    return bushel.Loader(ds, size, **given)


def stream_of(ds: bushel.Dataset, order: Any, epoch: int = 0) -> list[int]:
    documents = ds.read(order.take(epoch, np.arange(order.samples)), ["tokens"])
    return [token for document in documents for token in document["tokens"].tolist()]


@pytest.mark.parametrize("overlap", [0, 1, 39])
def test_documents_are_joined_and_cut(ds: bushel.Dataset, overlap: int) -> None:
    stream = stream_of(ds, Exact(COUNT, 5))
    loader = made(ds, overlap=overlap)
    rows = [row for batch in loader for row in batch["tokens"].tolist()]
    assert len(loader) == -(-len(rows) // 3)
    assert rows == [stream[at : at + 40] for at in range(0, len(stream) - 39, 40 - overlap)]
    for batch in made(ds, overlap=overlap):
        assert batch["mask"].shape == batch["tokens"].shape
        assert (batch["mask"] == (batch["tokens"] % 1000 % 2 == 0)).all()
        assert sorted(batch) == sorted(["__key__", "tokens", "mask", "label", "box", "cu_seqlens"])
        for tokens, keys, bounds in zip(batch["tokens"], batch["__key__"], batch["cu_seqlens"], strict=True):
            assert bounds[0] == 0
            assert bounds[-1] == 40
            for key, start, end in zip(keys, bounds[:-1], bounds[1:], strict=True):
                assert {f"k{token // 1000}" for token in tokens[start:end].tolist()} == {key}


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 3}, {"processes": 1, "threads": 1}])
@pytest.mark.parametrize("shuffle", [True, Megatron(), Megatron(rows=200)])
def test_resume_ranks_and_processes(ds: bushel.Dataset, options: dict[str, Any], shuffle: Any) -> None:
    whole = [row for batch in made(ds, shuffle=shuffle) for row in batch["tokens"].tolist()]
    loader = made(ds, 4, shuffle=shuffle, **options)
    first, state = [], {}
    for batch in loader:
        first += batch["tokens"].tolist()
        if len(first) == 12:
            state = loader.state_dict()
            break
    assert state["samples"] == 12
    ranks = []
    for rank in range(2):
        own = made(ds, 5, shuffle=shuffle, rank=rank, world_size=2, **options)
        own.load_state_dict(state)
        ranks.append(list(own))
    steps = [batch for n in range(len(ranks[0])) for own in ranks for batch in own[n : n + 1]]
    assert first + [row for batch in steps for row in batch["tokens"].tolist()] == whole
    skipped = made(ds, shuffle=shuffle)
    skipped.skip(len(skipped) * 2 + 1)
    assert skipped.epoch == 2
    assert skipped.state_dict()["samples"] == 3


def test_mistakes_are_explained(ds: bushel.Dataset) -> None:
    with pytest.raises(StateError, match="chunked"):
        made(ds, chunk_tokens=41).load_state_dict(made(ds).state_dict())
    with pytest.raises(StateError, match="an epoch has only"):
        made(ds).load_state_dict(made(ds).state_dict() | {"samples": 1000})
    for changed in (first_ten, longer):
        with pytest.raises(SpecError, match="'k.*' has .* tokens.*but the column of lengths says"):
            list(made(ds, transforms={"tokens": changed}))
    for options, error, says in (
        ({"chunk_by": "box.length"}, KeyError, "bushel index"),
        ({"chunk_by": {"tokens.length": 1}}, TypeError, "expected the column with the lengths"),
        ({"chunk_tokens": None}, ValueError, "needs chunk_tokens="),
        ({"overlap": 40}, ValueError, "overlap=40: expected a whole number from 0 to 39"),
        ({"chunk_by": None}, ValueError, "need chunk_by="),
        ({"pack_by": "tokens.length"}, ValueError, "only one of them"),
        ({"on_error": "skip"}, ValueError, "without the bad documents"),
        ({"exclude": ["k1"]}, ValueError, "without the bad documents"),
        ({"exclude": [0]}, ValueError, "without the bad documents"),
        ({"exclude": ["not there"]}, ValueError, "without the bad documents"),
        ({"exclude": "no-such-file.jsonl"}, ValueError, "without the bad documents"),
        ({"shuffle": Megatron(), "seed": 1 << 32}, ValueError, "order of Megatron"),
        (
            {"shuffle": Megatron(), "weights": np.ones(COUNT)},
            ValueError,
            "weights= has an order of its own: leave out shuffle=Megatron",
        ),
    ):
        given: dict[str, Any] = {**options}
        with pytest.raises(error, match=says):
            made(ds, **given)
    with pytest.raises(TypeError, match="Megatron is an order of chunks"):
        bushel.Loader(ds, 4, shuffle=Megatron())
    with pytest.raises(ValueError, match="bucket_by= has an order of its own: leave out shuffle=Megatron"):
        bushel.Loader(ds, shuffle=Megatron(), bucket_by="tokens.length", batch_tokens=1000)
    with pytest.raises(ValueError, match="rows=0"):
        Megatron(rows=0)


def test_the_largest_seed_of_megatron_goes_on_with_the_smallest() -> None:
    lengths, rows = np.full(50, 33, np.uint32), np.arange(20)
    last, first = (MegatronChunks(Megatron(), lengths, 20, 1, 0, seed) for seed in ((1 << 32) - 1, 0))
    for epoch in range(2):
        pieces, expected = last.pieces(epoch + 1, rows), first.pieces(epoch, rows)
        assert pieces.documents.tolist() == expected.documents.tolist()


def first_ten(tokens: Any) -> Any:
    """A transform that leaves tokens out."""
    return tokens[:10]


def test_the_plan_of_chunks_shares_rows_as_any_plan() -> None:
    order = Chunked(Exact(50, 1), np.full(50, 33, np.uint32), 20, 1, 0)
    plan = Plan(order, 4, 1, 2, pad="wrap", kind=ChunkRows)
    batches = list(plan.at(0).batches())
    assert [len(batch.rows.ends) for batch in batches if batch.rows] == [4] * plan.at(0).steps()
    assert batches[-1].consumed == order.rows(0)
    assert plan.at(0).units.sizes(4) == "batches of 4 rows of 20 tokens"
