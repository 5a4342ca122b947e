"""`bushel diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.running import run

import bushel


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    for name, texts in (("a", {"x": "1", "y": "2", "z": "3"}), ("b", {"x": "1", "y": "9", "w": "3"})):
        with bushel.Writer(tmp_path / name, {"text": "utf8"}, container="bag") as writer:
            for key, text in texts.items():
                writer.append({"text": text}, key=key)
    return tmp_path / "a", tmp_path / "b"


def test_it_prints_what_differs(pair: tuple[Path, Path]) -> None:
    assert run("diff", *pair, code=1).splitlines() == [
        "removed: 1 sample: z",
        "added: 1 sample: w",
        "text: changed: 1 sample: y",
        f"{pair[0]} has 3 samples, {pair[1]} 3; 2 matched by key: 1 removed, 1 added, 1 text changed",
    ]


def test_equal_datasets_exit_with_0(pair: tuple[Path, Path]) -> None:
    assert "the same" in run("diff", pair[0], pair[0])


def test_json(pair: tuple[Path, Path]) -> None:
    found = json.loads(run("diff", *pair, "--json", "--values", code=1))
    assert (found["same"], found["samples"], found["matched"]) == (False, [3, 3], 2)
    assert found["differences"][2] == {"what": "text: changed", "samples": 1, "keys": ["y"]}
