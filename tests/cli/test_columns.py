"""Columns on the command line: `index --columns`, `info --columns`, `ls --where`, and `split --stratify`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.running import fails, run

import bushel
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.info import summary


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with bushel.Writer(tmp_path / "data", {"label": "int", "name": "utf8", "x": "float"}, container="tar") as writer:
        for number in range(8):
            own = {"name": f"n {number % 2}"} if number != 5 else {}
            writer.append({"label": number % 3, "x": number / 4 if number else float("nan"), **own}, key=f"k{number}")
    return tmp_path / "data"


def test_ls(data: Path) -> None:
    assert run("ls", data, "--where", "label == 1 and x < 1.5").split() == ["k1", "k4"]
    listed = run("ls", data, "--columns", "label,name", "--sort", "-label", "-n", 3, "--start", 1).splitlines()
    assert listed == ["k5  label=2  name=", "k1  label=1  name=n 1", "k4  label=1  name=n 0"]
    assert run("ls", data, "--sort", "name", "--where", "label == 2").split() == ["k2", "k5"]
    lines = map(json.loads, run("ls", data, "--json", "--columns", "name,x", "--sort", "-x", "-n", 2).splitlines())
    table = [(line["position"], line["key"], *line["columns"].values()) for line in lines]
    assert table == [(7, "k7", "n 1", 1.75), (6, "k6", "n 0", 1.5)]
    assert run("ls", data, "--sort", "-x").split()[-1] == "k0"  # not a number: it comes last in both orders
    line = json.loads(run("ls", data, "--json", "--columns", "x,label").splitlines()[0])
    assert line["columns"] == {"x": None, "label": 0}
    assert line["position"] == 0


def test_ls_says_what_is_wrong(data: Path) -> None:
    assert "did you mean 'label'" in fails("ls", data, "--where", "lable == 3")
    assert "malformed" in fails("ls", data, "--where", "label ==")
    with bushel.Writer(data.parent / "without.tar", {"name": "utf8"}, columns=()) as writer:
        writer.append({"name": "a"})
    assert "--columns name.length" in fails("ls", data.parent / "without.tar", "--columns", "name.length")


def test_index_and_info(data: Path) -> None:
    assert json.loads(run("index", data, "--columns", "name.length", "--json"))["columns"] == [
        *("label", "name", "x", "name.length")
    ]
    shown = run("info", data, "--columns")
    assert "0 (3), 1 (3), 2 (2)" in shown
    assert "n 0 (4), n 1 (3)" in shown
    found = {column["name"]: column for column in json.loads(run("info", data, "--columns", "--json"))["columns"]}
    assert (found["x"]["min"], found["x"]["max"]) == (0.25, 1.75)
    assert (found["name"]["values"], found["name"]["missing"], found["name"]["distinct"]) == (7, 1, 2)
    with bushel.Writer(data.parent / "none.tar", {"data": "bytes"}) as writer:
        writer.append({"data": b""})
    assert "bushel index --columns auto" in run("info", data.parent / "none.tar", "--columns")


def test_index_columns_of_pack_and_convert(data: Path, tmp_path: Path) -> None:
    run("convert", data, tmp_path / "a.rec", "--index-columns", "none")
    assert bushel.open(tmp_path / "a.rec").columns == ()
    run("pack", tmp_path / "a.rec", tmp_path / "b.tar", "--index-columns", "label,name.length")
    assert bushel.open(tmp_path / "b.tar").columns == ("label", "name.length")
    assert "can have" in fails("convert", data, tmp_path / "c.tar", "--index-columns", "label.x")


def test_stratify_reads_no_data(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel._dataset.read import splitting

    dataset = bushel.open(data)
    monkeypatch.setattr(Dataset, "read", lambda *_: pytest.fail("data are read"))
    assert splitting.classes_of(dataset, "label").tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert splitting.classes_of(dataset[::-1], "label").tolist() == [1, 0, 2, 1, 0, 2, 1, 0]
    monkeypatch.undo()
    assert splitting.classes_of(dataset, "name").tolist() == [0, 1, 0, 1, 0, 2, 0, 1]


@given(st.lists(st.floats() | st.integers(-5, 1 << 62), max_size=40), st.lists(st.booleans(), max_size=40))
def test_summaries(values: list[float], absent: list[bool]) -> None:
    array = np.array(values, np.float64)
    mask = np.zeros(len(array), np.bool_)
    mask[: len(absent)] = absent[: len(array)]
    found = summary("x", np.ma.MaskedArray(array, mask))
    assert (found.values, found.missing) == (int((~mask).sum()), int(mask.sum()))
    finite = array[~mask & np.isfinite(array)]
    if len(finite):
        assert (found.min, found.max) == (finite.min(), finite.max())
