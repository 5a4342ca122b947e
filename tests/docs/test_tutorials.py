"""The tutorials are run from their first block to their last, and their results are compared with the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import blocks, run, run_whole
from tests.sources.folders import image_folder

import bushel


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_get_started() -> None:
    pytest.importorskip("torch")
    assert run_whole("docs/get-started.md") == 10


def test_frameworks(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", 4)
    bushel.pack("photos", "train", container="tar")
    [code] = blocks("docs/frameworks.md", "python")  # tests/examples/test_ranks.py runs the commands
    assert run("docs/frameworks.md", code, {}) == 1


def test_tokens() -> None:
    names: dict[str, Any] = {}
    assert run_whole("docs/tokens.md", names) == 11
    assert (names["batch"]["tokens"][:, None] == names["tokens"][None]).all(2).any(1).all()
