"""Loaders with packs: what batches hold, resuming, ranks, processes, bad samples, errors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.documents import COUNT, LENGTHS, longer, write
from tests.loader.memory_dataset import MemoryDataset

import bushel
from bushel.errors import SpecError, StateError
from bushel.loader import Padded

TOKENS = 64
Document = tuple[str, list[int]]


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    return write(tmp_path_factory.mktemp("packs") / "data", LENGTHS, container="tar")


def made(ds: Any, size: int = 3, **options: Any) -> bushel.Loader:
    given = {"pack_by": "tokens.length", "pack_tokens": TOKENS, "shuffle": True, "seed": 5, **options}
    return bushel.Loader(ds, size, **given)


def rows_of(batches: Iterable[Any]) -> list[list[Document]]:
    """The keys and tokens of the documents in each row, after a check of all that a batch says of them."""
    found = []
    for batch in batches:
        assert batch["tokens"].shape == batch["positions"].shape == batch["documents"].shape
        assert batch["positions"].dtype == batch["documents"].dtype == np.int32
        for row, keys in enumerate(batch["__key__"]):
            bounds = batch["cu_seqlens"][row]
            assert bounds.dtype == np.int32
            assert len(bounds) == len(keys) + 1
            own = []
            for number, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
                assert batch["documents"][row, start:end].tolist() == [number] * (end - start)
                assert batch["positions"][row, start:end].tolist() == list(range(end - start))
                own.append((keys[number], batch["tokens"][row, start:end].tolist()))
            assert not batch["tokens"][row, bounds[-1] :].any()
            assert set(batch["documents"][row, bounds[-1] :].tolist()) <= {-1}
            found.append(own)
    return found


def test_documents_share_rows(ds: bushel.Dataset) -> None:
    loader = made(ds)
    batches = list(loader)
    assert len(batches) == len(loader)
    rows = rows_of(batches)
    found = {key: tokens for row in rows for key, tokens in row}
    assert sum(map(len, rows)) == COUNT
    assert found == {f"k{n}": list(range(1000 * n, 1000 * n + length)) for n, length in enumerate(LENGTHS)}
    for batch in batches:
        assert batch["mask"].dtype == bool
        assert (batch["mask"] == (batch["positions"] % 2 == 0) & (batch["documents"] >= 0)).all()
        assert [len(row) for row in batch["label"]] == [len(row) for row in batch["box"]]
        assert [[f"k{label}" for label in row] for row in batch["label"]] == batch["__key__"]
    assert sum(batch["tokens"].size for batch in batches) < 1.1 * sum(LENGTHS)
    assert rows_of(loader) != rows  # the next epoch
    assert "batches of 3 rows of 64 tokens" in repr(loader)


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 3}, {"processes": 1, "threads": 1}])
def test_resume_ranks_and_processes(ds: bushel.Dataset, options: dict[str, Any]) -> None:
    whole = rows_of(made(ds))
    loader = made(ds, **options)
    before, state = [], {}
    for batch in loader:
        before.append(batch)
        if len(before) == 4:
            state = loader.state_dict()
            break
    first = rows_of(before)
    assert first == whole[:12]
    ranks = [made(ds, 2, rank=rank, world_size=2, **options) for rank in range(2)]
    batches = []
    for loader in ranks:
        loader.load_state_dict(state)
        left = loader.steps_left
        batches.append(list(loader))
        assert len(batches[-1]) == left
    steps = [batch for n in range(len(batches[0])) for own in batches for batch in own[n : n + 1]]
    assert first + rows_of(steps) == whole
    skipped = made(ds)
    skipped.skip(len(skipped) + 2)
    assert skipped.epoch == 1
    again = made(ds)
    again.epoch = 1
    assert rows_of(skipped) == rows_of(again)[6:]


@pytest.mark.parametrize(
    "options", [{}, {"pack_by": None, "pack_tokens": None, "chunk_by": "tokens.length", "chunk_tokens": 64}]
)
def test_rows_of_documents_in_blocks_are_resumed(ds: bushel.Dataset, options: dict[str, Any]) -> None:
    loader = made(ds, shuffle="blocks", **options)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [batch["tokens"].tolist() for batch in batches]
    resumed = made(ds, shuffle="blocks", seed=6, **options)
    resumed.peek()
    resumed.load_state_dict(state)
    assert [batch["tokens"].tolist() for batch in resumed] == rest


def test_every_rank_has_as_many_rows(ds: bushel.Dataset) -> None:
    for options in ({"drop_last": True}, {"pad": "wrap"}):
        ranks = [rows_of(made(ds, 2, rank=rank, world_size=3, **options)) for rank in range(3)]
        assert len({len(rows) for rows in ranks}) == 1
    with pytest.raises(StateError, match="another dataset"):
        made(ds[:9]).load_state_dict(made(ds).state_dict())
    with pytest.raises(StateError, match="packed"):
        made(ds, pack_tokens=65).load_state_dict(made(ds).state_dict())


@pytest.mark.parametrize("shuffle", [False, True, "blocks"])
def test_long_documents(ds: bushel.Dataset, shuffle: Any) -> None:
    with pytest.raises(ValueError, match=r"documents have more than pack_tokens=10.*ds.where\('tokens.length <= 10'\)"):
        made(ds, pack_tokens=10)
    cut = dict(
        document for row in rows_of(made(ds, pack_tokens=10, pack_longer="cut", shuffle=shuffle)) for document in row
    )
    assert cut == {f"k{n}": list(range(1000 * n, 1000 * n + min(length, 10))) for n, length in enumerate(LENGTHS)}
    split: dict[str, list[int]] = {}
    rows = rows_of(made(ds, pack_tokens=10, pack_longer="split", shuffle=shuffle))
    for key, tokens in sorted(document for row in rows for document in row):
        split[key] = split.get(key, []) + tokens
    assert split == {f"k{n}": list(range(1000 * n, 1000 * n + length)) for n, length in enumerate(LENGTHS)}


def refuse_some(tokens: Any) -> Any:
    """A transform that fails on every fourth document."""
    if tokens[0] // 1000 % 4 == 1:
        raise ValueError("bad document")
    return tokens


def test_bad_documents_are_left_out_or_replaced_by_smaller_ones(ds: bushel.Dataset) -> None:
    bad = {f"k{number}" for number in range(1, COUNT, 4)}
    good = rows_of(made(ds))
    options: dict[str, Any] = {"transforms": {"tokens": refuse_some}}
    with pytest.raises(ValueError, match="bad document"):
        list(made(ds, **options))
    left = rows_of(made(ds, on_error="skip", **options))
    assert left == [[document for document in row if document[0] not in bad] for row in good]
    loader = made(ds, on_error="replace", **options)
    replaced = rows_of(loader)
    assert len(loader.errors) == len(bad)
    for row, before in zip(replaced, good, strict=True):
        assert all(document in row for document in before if document[0] not in bad)
        assert len(row) <= len(before)
        assert not {key for key, _ in row} & bad
        assert sum(len(tokens) for _, tokens in row) <= TOKENS
    assert sum(map(len, replaced)) > COUNT - len(bad)
    assert rows_of(made(ds, on_error="replace", threads=3, **options)) == replaced
    known = rows_of(made(ds, on_error="replace", exclude=iter(sorted(bad))))
    assert [[key for key, _ in row] for row in known] == [[key for key, _ in row] for row in replaced]


def test_rules_set_the_padding(ds: bushel.Dataset) -> None:
    for batch in made(ds, collate={"tokens": Padded(-1), "mask": "list", "label": np.array}, keys=False):
        assert (batch["tokens"] == -1).sum() == (batch["documents"] == -1).sum()
        assert [len(one) for row in batch["mask"] for one in row] == [
            size for bounds in batch["cu_seqlens"] for size in np.diff(bounds).tolist()
        ]
        assert batch["label"].shape == (sum(map(len, batch["mask"])),)
        assert "__key__" not in batch
    with pytest.raises(SpecError, match="'box'.*as long as 'tokens'"):
        list(made(ds, collate={"box": "stack"}))


def test_costs_of_other_fields_count(ds: bushel.Dataset) -> None:
    rows = rows_of(made(ds, pack_by={"tokens.length": 1, "label": 0.25}, pack_tokens=TOKENS))
    for row in rows:
        assert sum(len(tokens) + -(-int(key[1:]) // 4) for key, tokens in row) <= TOKENS
    assert sum(map(len, rows)) == COUNT
    with pytest.raises(ValueError, match="adds 2"):
        made(ds, pack_by={"tokens.length": 1, "label": 1}, pack_longer="cut")


def test_packs_of_mixtures_and_weights(ds: bushel.Dataset) -> None:
    rows = rows_of(made(bushel.mix({"a": ds[:100], "b": ds[100:]}, weights={"a": 1, "b": 1}, seed=5), shuffle=None))
    drawn = [int(key[1:]) for row in rows for key, _ in row]
    assert abs(sum(number >= 100 for number in drawn) / len(drawn) - 0.5) < 0.1
    weights = np.arange(COUNT) % 2
    drawn = [int(key[1:]) for row in rows_of(made(ds, shuffle=None, weights=weights)) for key, _ in row]
    assert len(drawn) == COUNT
    assert all(number % 2 for number in drawn)


def tokenized(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "ids": np.arange(3)}


def test_mistakes_are_explained(ds: bushel.Dataset, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a row of 64 tokens got .*bushel convert --transform"):
        list(made(ds, transforms={"tokens": longer}))
    with pytest.raises(KeyError, match=r"bushel index.*--columns mask.length.*bushel convert --transform"):
        made(ds, pack_by="mask.length")
    with pytest.raises(KeyError, match=r"bushel index --columns FIELD.length.*bushel convert --transform"):
        made(ds.select_fields(["mask"]), pack_by="ids.length", sample_transform=tokenized)  # which has no lengths yet
    with pytest.raises(TypeError, match="names a column of an index, which MemoryDataset"):
        made(MemoryDataset(9), pack_by="vector.length")
    for options, error, says in (
        ({"pack_tokens": None}, ValueError, "needs pack_tokens="),
        ({"pack_by": None}, ValueError, "need pack_by="),
        ({"pack_tokens": 0}, ValueError, "pack_tokens=0"),
        ({"pack_longer": "drop"}, ValueError, "expected 'error', 'cut', 'split'"),
        ({"bucket_by": "tokens.length"}, ValueError, "leave out bucket_by="),
        ({"size": None}, ValueError, "needs a batch size"),
        ({"collate": list}, TypeError, "joins the fields itself"),
        ({"decode": False}, ValueError, "decode=False"),
        ({"pack_by": "label"}, ValueError, "must be the length of the field"),
        ({"pack_by": {"tokens.length": -1}}, ValueError, "expected weights from 0"),
        ({"pack_by": {}}, TypeError, "expected a column of lengths"),
        ({"pack_by": {3: 1}}, TypeError, "expected names of columns"),
        (
            {"pack_longer": "split", "ds": bushel.mix({"a": ds}, weights={"a": 1}, seed=5), "shuffle": None},
            ValueError,
            "shares",
        ),
    ):
        given: dict[str, Any] = {"ds": ds, **options}
        with pytest.raises(error, match=says):
            made(given.pop("ds"), **given)
    with bushel.Writer(tmp_path / "a.tar", {"text": "utf8", "documents": "int"}, columns=["text.length"]) as writer:
        writer.append({"text": "abc", "documents": 1}, key="a")
    with pytest.raises(ValueError, match="leave the field 'documents' out"):
        made(bushel.open(tmp_path / "a.tar"), pack_by="text.length")
    with pytest.raises(SpecError, match="field 'text' is a str"):
        list(made(bushel.open(tmp_path / "a.tar"), pack_by="text.length", fields=["text"]))


def test_arrays_without_headers_need_no_column(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a", {"tokens": "array(uint16,-1)"}, container="bag", columns=()) as writer:
        for length in (3, 5, 2, 60):
            writer.append({"tokens": np.arange(length, dtype=np.uint16)})
    [batch] = list(made(bushel.open(tmp_path / "a"), shuffle=False))
    assert [bounds.tolist() for bounds in batch["cu_seqlens"]] == [[0, 3, 63], [0, 5, 7]]
    assert batch["tokens"].dtype == np.uint16
