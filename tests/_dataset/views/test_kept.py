"""Data that earlier versions wrote opens in this one: sidecars, orders, states of loaders (docs/compatibility.md)."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.paths import ROOT

import bushel
from bushel._dataset.read.key_file import NAME
from bushel._index.key_lookup import KeyTable, StoredKeyTable

KEPT = sorted(Path(__file__).parent.glob("kept-*/*.json"))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def script() -> Any:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts/keep_version.py")))


@pytest.mark.parametrize("path", KEPT, ids=[f"{path.parent.name}-{path.stem}" for path in KEPT])
def test_data_of_a_version(path: Path, tmp_path: Path, script: Any) -> None:
    expected = json.loads(path.read_text("utf-8"))
    loaders = [name for name in script.LOADERS if name in expected]
    shutil.copytree(path.with_suffix(""), tmp_path / "data")
    dataset = bushel.open(tmp_path / "data", verify=True, index="memory")  # else new times of files may be noted
    assert dataset.info.indexed
    assert dataset.info.checksums
    assert [dataset[key]["__key__"] for key in expected["keys"]] == expected["keys"]
    has_key_file = any((tmp_path / "data").rglob(NAME))
    assert isinstance(dataset._lookup, StoredKeyTable if has_key_file else KeyTable)
    found = script.describe(dataset, loaders)
    assert {name: found[name] for name in expected} == expected
    labels = np.array([sample["label"] for sample in dataset.read(range(len(dataset)), fields=["label"])])
    for name in loaders:
        state, epochs = expected[name]["state"], expected[name]["epochs"]
        loader = script.make_loader(dataset, name, labels, seed=0)
        loader.load_state_dict(state)
        assert [key for batch in loader for key in batch["__key__"]] == epochs[0][state["samples"] :]
        assert [key for batch in loader for key in batch["__key__"]] == epochs[1]
    assert bushel.verify(tmp_path / "data").ok
    assert files_of(tmp_path / "data") == files_of(path.with_suffix(""))  # nothing was written again


def test_each_container_is_kept() -> None:
    assert {path.stem for path in KEPT} == {"bag", "tar", "ffrecord", "gulp", "recordio"}
