"""Divisions of a dataset are those that docs/order.md specifies, with its vectors."""

from __future__ import annotations

import json
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import pytest
from tests._runtime.order_by_document import derive_by_document, permute_by_document

import bushel

ORDER = Path(__file__).parents[3] / "docs" / "order.md"
VECTORS = [json.loads(line) for line in ORDER.read_text("utf-8").splitlines() if line.startswith('{"split"')]


def split_by_document(shares: dict[str, float], samples: int, seed: int, classes: list[Any] | None) -> dict[str, Any]:
    key = derive_by_document(1, 1, samples, seed, 0)
    listed = [permute_by_document(samples, key, 0, place) for place in range(samples)]
    whole = sum(map(Fraction, shares.values()))
    parts: dict[str, list[int]] = {name: [] for name in shares}
    if classes is None:
        until, start = Fraction(0), 0
        for name, share in shares.items():
            until += Fraction(share) * samples / whole
            parts[name] = listed[start : round(until)]
            start = round(until)
    for kind in dict.fromkeys(classes or []):
        own = [sample for sample in listed if classes is not None and classes[sample] == kind]
        exact = [Fraction(share) * len(own) / whole for share in shares.values()]
        counts = [floor(each) for each in exact]
        for _ in range(len(own) - sum(counts)):
            best = max(range(len(exact)), key=lambda part: (exact[part] - counts[part], -part))
            counts[best] += 1
        start = 0
        for name, count in zip(shares, counts, strict=True):
            parts[name] += own[start : start + count]
            start += count
    return {name: sorted(own) for name, own in parts.items()}


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_divisions_of_the_page(vector: dict[str, Any], tmp_path: Path) -> None:
    classes = vector["classes"]
    with bushel.Writer(tmp_path / "x", {"number": "int", "label": "int"}, container="bag", sync=False) as writer:
        for number in range(vector["samples"]):
            writer.append({"number": number, "label": 0 if classes is None else classes[number]})
    ds = bushel.open(tmp_path / "x")
    parts = ds.split(vector["split"], seed=vector["seed"], stratify=None if classes is None else "label")
    assert {name: part.column("number").tolist() for name, part in parts.items()} == vector["parts"]
    assert split_by_document(vector["split"], vector["samples"], vector["seed"], classes) == vector["parts"]


def test_the_page_has_vectors_with_and_without_classes() -> None:
    assert sum(vector["classes"] is None for vector in VECTORS) >= 2
    assert sum(vector["classes"] is not None for vector in VECTORS) >= 2
