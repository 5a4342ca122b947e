"""Packs have what Grain's packs have: whole documents, places in them, numbers of segments; and no more padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.documents import LENGTHS, write

import bushel

python = pytest.importorskip("grain.python")
experimental = pytest.importorskip("grain.experimental")

TOKENS = 64


def documents_in(row: Any, segments: Any, places: Any) -> list[list[int]]:
    """Return the documents of a row, each of which must begin at place 0 and have no gap."""
    found = []
    for number in range(1, int(segments.max()) + 1):
        own = segments == number
        assert places[own].tolist() == list(range(int(own.sum())))
        found.append(row[own].tolist())
    return found


def test_the_same_documents_in_no_more_rows(tmp_path: Path) -> None:
    ds = write(tmp_path / "data", LENGTHS, container="bag")
    source = [{"tokens": sample["tokens"]} for sample in ds]
    theirs = experimental.FirstFitPackIterDataset(
        python.MapDataset.source(source).to_iter_dataset(), length_struct={"tokens": TOKENS}, num_packing_bins=8
    )
    packed, rows = [], 0
    for row in theirs:
        packed += documents_in(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
        rows += 1
    own, count = [], 0
    loader: Any = bushel.Loader(ds, 4, pack_by="tokens.length", pack_tokens=TOKENS, shuffle=True, fields=["tokens"])
    for batch in loader:
        for row, documents, places in zip(batch["tokens"], batch["documents"], batch["positions"], strict=True):
            own += documents_in(row, documents + 1, places)
            count += 1
    assert sorted(own) == sorted(packed)
    assert count <= rows
    assert count * TOKENS <= 1.03 * sum(LENGTHS)
    assert np.array_equal(np.sort(np.concatenate(own)), np.sort(np.concatenate([one["tokens"] for one in source])))
