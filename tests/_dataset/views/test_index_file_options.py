"""Options and commands with an exported index: each works, or is refused with an error that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import fails, run
from tests.integrations.samples import write

import bushel

pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    return write(tmp_path / "data", container="tar").export_index(tmp_path / "data.parquet")


@pytest.mark.parametrize("as_index", [False, True])
def test_declared_types_are_those_of_the_data(exported: Path, as_index: bool) -> None:
    data, spec = exported.with_suffix(""), {"label": "bytes"}
    again = bushel.open(data, index=exported, spec=spec) if as_index else bushel.open(exported, spec=spec)
    expected = bushel.open(data, spec=spec)
    assert (again.spec, again.columns) == (expected.spec, expected.columns)
    assert again[2, ["label"]] == expected[2, ["label"]]
    assert isinstance(again[2]["label"], bytes)


@pytest.mark.parametrize("spec", [{"other": "int"}, {"label": "int[]"}, {"label": "jpg(path)"}])
def test_declared_types_that_do_not_fit(exported: Path, spec: dict[str, str]) -> None:
    with pytest.raises(bushel.SpecError, match=r"spec=.* does not fit .*data\.parquet"):
        bushel.open(exported, spec=spec)
    with pytest.raises(bushel.SpecError, match="nonsense"):
        bushel.open(exported, spec={"label": "nonsense"})


REFUSED: dict[str, Any] = {
    "partial": True,
    "episodes": True,
    "delta_timestamps": {"label": [0.0]},
    "index": "./elsewhere",
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_are_refused(exported: Path, name: str) -> None:
    with pytest.raises(bushel.UnsupportedError, match=rf"exported index.* {name}=.*Open the data"):
        bushel.open(exported, **{name: REFUSED[name]})


def test_options_that_change_nothing(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = exported.with_suffix("")
    expected = bushel.open(data).fingerprint
    assert bushel.open(exported, damaged="raise", index="require").fingerprint == expected
    assert bushel.open(data, container="tar", index=exported).fingerprint == expected
    monkeypatch.chdir(exported.parent)
    assert bushel.open("data", index="./data.parquet").fingerprint == expected
    with pytest.raises(ValueError, match="damaged must be"):
        bushel.open(exported, damaged="ignore")  # type: ignore[arg-type]
    with pytest.raises(bushel.SpecError, match=r"container='bag'.*a dataset of tar"):
        bushel.open(data, container="bag", index=exported)


CALLS: dict[str, Callable[[Any], object]] = {
    "remove": lambda file: bushel.remove(file, keys=["k3"], reason="opt-out"),
    "removals": bushel.removals,
    "restore": bushel.restore,
    "erase": bushel.erase,
    "index": bushel.index,
    "verify": bushel.verify,
    "repair": lambda file: bushel.repair(file, f"{file}.repaired", to="tar"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_needs_the_data_refuses_the_file(exported: Path, name: str) -> None:
    with pytest.raises(bushel.UnsupportedError, match=r"exported index.*name the dataset itself"):
        CALLS[name](exported)
    assert sorted(path.name for path in exported.parent.iterdir()) == ["data", "data.parquet"]
    assert len(bushel.open(exported)) == len(bushel.open(exported.with_suffix("")))


def test_a_file_is_no_folder_for_an_index(exported: Path) -> None:
    data = exported.with_suffix("")
    with pytest.raises(ValueError, match=r"index=.*is a file"):
        bushel.remove(data, keys=["k3"], reason="opt-out", index=exported)
    with pytest.raises(ValueError, match=r"index=.*is a file"):
        bushel.index(data, index=exported)


def test_the_commands(exported: Path) -> None:
    for call in (["remove", exported, "--position", 0, "--reason", "x"], ["verify", exported], ["index", exported]):
        assert "name the dataset itself" in fails(*call)
    assert "10 samples" in run("verify", exported, "--container", "parquet")
