"""`--config`, `--split` and `--revision`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.running import fails, run
from tests.containers.read_in_place import FOREIGN

import bushel
from bushel.cli.options import SplitOptions

PARQUET = FOREIGN / "hf-parquet/data/train-00000-of-00001.parquet"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for split in ("train", "test"):
        (tmp_path / "set/data").mkdir(parents=True, exist_ok=True)
        shutil.copy(PARQUET, tmp_path / f"set/data/{split}-00000-of-00001.parquet")
    return tmp_path / "set"


def test_every_command_that_reads_one_dataset(copy: Path, tmp_path: Path) -> None:
    chosen = ("--split", "test")
    assert json.loads(run("info", copy, *chosen, "--json"))["samples"] == 24
    assert run("ls", copy, "-n", 2, *chosen) == "0\n1\n"
    assert json.loads(run("cat", copy, "-n", 1, *chosen))["__key__"] == "0"
    assert json.loads(run("get", copy, 3, *chosen))["__key__"] == "3"
    run("bench", copy, *chosen, "--seconds", 0.05, "--json")
    run("convert", copy, tmp_path / "out.tar", *chosen, "-q")
    assert len(bushel.open(tmp_path / "out.tar")) == 24
    assert json.loads(run("verify", copy, *chosen, "--json"))["ok"]
    assert json.loads(run("index", copy, *chosen, "--json"))["checksums"]
    assert bushel.open(copy, split="test").info.checksums
    assert not bushel.open(copy, split="train").info.checksums


def test_index_has_them_in_python(copy: Path) -> None:
    assert len(bushel.index(copy, split="train")) == 24
    with pytest.raises(bushel.errors.SpecError, match="no configuration 'german'"):
        bushel.index(copy, config="german")


def test_what_does_not_suit(copy: Path) -> None:
    assert "did you mean 'test'" in fails("info", copy, "--split", "tst")
    assert "has no configuration 'german'" in fails("info", copy, "--config", "german")
    assert "it is for hf://datasets/ORG/NAME" in fails("info", copy, "--revision", "v2")
    assert "it is for hf://" in fails("info", "hf://datasets/org/photos@v1", "--revision", "v2")
    assert "they are for one dataset" in fails("info", copy, copy, "--split", "train")


def test_a_revision_is_part_of_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("bushel._dataset.open.sources.files_named", lambda *arguments: asked.append(arguments))
    SplitOptions("de", "train", "refs/convert/parquet").files("hf://datasets/org/photos/")
    assert asked == [("hf://datasets/org/photos@refs%2Fconvert%2Fparquet", "de", "train")]
