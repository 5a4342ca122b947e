"""docs/promises.md lists every promise of the five originals' documents, and the tests that it names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.paths import ROOT

PAGE = ROOT / "docs" / "promises.md"
PROMISES = {"G": 26, "B": 29, "W": 28, "F": 16, "M": 19}
ROW = re.compile(r"^\| ([GBWFM]\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)
PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> dict[str, str]:
    return {number: proof for number, _, proof in ROW.findall(PAGE.read_text("utf-8"))}


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_every_promise_has_a_row() -> None:
    assert set(rows()) == {f"{letter}{number}" for letter, most in PROMISES.items() for number in range(1, most + 1)}


@pytest.mark.parametrize("number", sorted(rows()) if PAGE.exists() else [])
def test_what_a_row_names_is_there(number: str) -> None:
    proofs = PROOF.findall(rows()[number])
    assert proofs, f"{number} names no test"
    missing = [f"{path}::{name}" for path, name in proofs if name not in names_in(ROOT / path)]
    assert not missing
