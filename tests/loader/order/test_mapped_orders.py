"""Orders by columns of an index, of views whose samples pass through a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.errors import SpecError


def doubled(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "tokens": sample["tokens"] * 2}


def longer(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "tokens": np.tile(sample["tokens"], 2)}


@pytest.fixture
def dataset(tmp_path: Path) -> bushel.Dataset:
    with bushel.Writer(tmp_path / "data", {"tokens": "array(int32,-1)", "kind": "int"}, container="tar") as writer:
        for number in range(40):
            tokens = np.arange(number % 9 + 1, dtype=np.int32) + number
            writer.append({"tokens": tokens, "kind": number % 3}, key=f"k{number}")
    return bushel.open(tmp_path / "data")


@pytest.mark.parametrize(
    "options",
    [
        {"pack_by": "tokens.length", "pack_tokens": 16, "shuffle": True},
        {"chunk_by": "tokens.length", "chunk_tokens": 16, "shuffle": True},
        {"bucket_by": "tokens.length"},
        {"weights": "kind"},
        {"balance": "kind"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_mapped_view_has_the_order_of_its_dataset(dataset: bushel.Dataset, options: dict[str, Any]) -> None:
    plain = list(bushel.Loader(dataset, 3, seed=2, fields=["tokens"], **options))
    batches = list(bushel.Loader(dataset.map(doubled), 3, seed=2, fields=["tokens"], **options))
    assert [batch["__key__"] for batch in batches] == [batch["__key__"] for batch in plain]
    for one, other in zip(batches, plain, strict=True):
        assert all(np.array_equal(own, 2 * its) for own, its in zip(one["tokens"], other["tokens"], strict=True))


def test_a_mixture_with_a_function_for_each_dataset_is_packed(dataset: bushel.Dataset) -> None:
    mixture = bushel.mix({"one": dataset[:15], "two": dataset[15:]}, weights={"one": 1, "two": 2})
    options: dict[str, Any] = {"pack_by": "tokens.length", "pack_tokens": 16}
    mapped = bushel.Loader(mixture, 3, sample_transform=doubled, **options)
    for one, other in zip(mapped, bushel.Loader(mixture, 3, **options), strict=True):
        assert np.array_equal(one["tokens"], 2 * other["tokens"])


def test_a_function_that_changes_lengths_is_an_error_that_names_the_sample(dataset: bushel.Dataset) -> None:
    packs = bushel.Loader(dataset.map(longer), 3, pack_by="tokens.length", pack_tokens=16)
    with pytest.raises(SpecError, match=r"longer than the column of lengths says, such as sample 'k\d+'"):
        list(packs)
    chunks = bushel.Loader(dataset.map(longer), 3, chunk_by="tokens.length", chunk_tokens=16)
    with pytest.raises(SpecError, match=r"sample 'k\d+' has \d+ tokens in field 'tokens', but the column of lengths"):
        list(chunks)
    with pytest.raises(KeyError, match="unknown column 'nothing'"):
        bushel.Loader(dataset.map(doubled), 3, weights="nothing")
