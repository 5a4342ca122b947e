"""Data that earlier versions wrote opens in this one: sidecars, orders, states of loaders (docs/compatibility.md)."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.paths import ROOT

import bushel

KEPT = sorted(Path(__file__).parent.glob("kept-*/*.json"))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def describe() -> Any:
    return runpy.run_path(str(ROOT / "scripts/keep_version.py"))["describe"]


@pytest.mark.parametrize("path", KEPT, ids=[f"{path.parent.name}-{path.stem}" for path in KEPT])
def test_data_of_a_version(path: Path, tmp_path: Path, describe: Any) -> None:
    expected = json.loads(path.read_text("utf-8"))
    shutil.copytree(path.with_suffix(""), tmp_path / "data")
    dataset = bushel.open(tmp_path / "data", verify=True, index="memory")  # else new times of files may be noted
    assert dataset.info.indexed
    assert dataset.info.checksums
    assert describe(dataset) == expected
    for shuffle in (True, "blocks"):
        known = expected[f"shuffle={shuffle}"]
        loader = bushel.Loader(dataset, 3, shuffle=shuffle, fields=["label"], workers=1)
        loader.load_state_dict(known["state"])
        assert [key for batch in loader for key in batch["__key__"]] == known["epochs"][0][known["state"]["samples"] :]
        assert [key for batch in loader for key in batch["__key__"]] == known["epochs"][1]
    assert bushel.verify(tmp_path / "data").ok
    assert files_of(tmp_path / "data") == files_of(path.with_suffix(""))  # nothing was written again


def test_each_container_is_kept() -> None:
    assert {path.stem for path in KEPT} == {"bag", "tar", "ffrecord", "gulp", "recordio"}
