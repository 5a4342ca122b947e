"""`bushel.open(path, spec=…)` replaces the fields that it names, and keeps the others."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN, copy, expected
from tests.containers.tar.archives import as_webdataset

import bushel
from bushel.errors import SpecError

SPEC = {"image": "bytes", "label": "int", "name": "utf8"}


@pytest.fixture(params=["tar", "ffrecord", "recordio", "bag"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with bushel.Writer(tmp_path / "ds", SPEC, container=request.param, shard_samples=2, sync=False) as writer:
        for number in range(5):
            writer.append({"image": b"x%d" % number, "label": number, "name": f"n{number}"}, key=f"k{number}")
    return tmp_path / "ds"


def test_the_others_stay(folder: Path) -> None:
    ds = bushel.open(folder, spec={"image": "utf8"})
    assert ds.spec == {**SPEC, "image": "utf8"}
    assert [ds[4][name] for name in SPEC] == ["x4", 4, "n4"]
    assert ds.read([3])[0] == {"__key__": "k3", "image": "x3", "label": 3, "name": "n3"}
    assert ds.info.checksums
    assert pickle.loads(pickle.dumps(ds))[1]["image"] == "x1"


def test_values_in_the_index_are_not_used_for_another_type(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tar", {"label": "int"}, sync=False) as writer:
        writer.append({"label": 7}, key="a")
    ds = bushel.open(tmp_path / "x.tar", spec={"label": "utf8"})
    assert ds[0]["label"] == "7"
    assert ds.read([0])[0]["label"] == "7"
    with pytest.raises(KeyError, match="is not in the index"):  # which has numbers
        ds.column("label")
    assert bushel.open(tmp_path / "x.tar", spec={"label": "float"})[0]["label"] == 7.0
    assert bushel.open(tmp_path / "x.tar")[0]["label"] == 7


@pytest.mark.parametrize("bare", [False, True])
def test_a_field_that_is_not_there(folder: Path, bare: bool) -> None:
    if bare:
        shutil.rmtree(folder / ".bushel", ignore_errors=True)
    with pytest.raises(SpecError, match=r"spec= names the field 'labl', which no sample of .* did you mean 'label"):
        bushel.open(folder, spec={"labl": "int"}, index="memory")


def test_names_for_a_tar_that_was_scanned(tmp_path: Path) -> None:
    members = {"image.jpg": b"j", "label.cls": b"1", "frames.000000.bin": b"1", "frames.000001.bin": b"2"}
    (tmp_path / "x.tar").write_bytes(as_webdataset([("a", members)]))
    scanned = {"frames.000000.bin": "bytes", "frames.000001.bin": "bytes", "image.jpg": "jpg", "label.cls": "int"}
    for _ in range(2):  # a scan stores its names
        assert {name: bushel.open(tmp_path / "x.tar").spec.get(name) for name in scanned}.keys() == scanned.keys()
        ds = bushel.open(tmp_path / "x.tar", spec={"image": "jpg", "frames": "bytes[]"})
        assert set(ds.spec) == {"image", "frames", "label.cls"}
        stored = ds.read([0], decode=False)[0]
        assert (stored["image"], stored["frames"], stored["label.cls"]) == (b"j", [b"1", b"2"], b"1")


def test_an_empty_dataset(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tar", {"label": "int"}, sync=False):
        pass
    assert len(bushel.open(tmp_path / "x.tar", spec={"other": "int"})) == 0


@pytest.mark.parametrize("name", sorted(path.parent.name for path in FOREIGN.glob("*/EXPECTED.json")))
def test_an_index_that_is_made_again_reads_the_same_values(name: str, tmp_path: Path) -> None:
    path = copy(name, tmp_path) / (expected(name).get("path") or "")
    if bushel.open(path, index="memory").info.container in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    fields = [each for each, kind in bushel.open(path, index="memory").spec.items() if kind not in ("frame", "video")]
    before = [bytes(pickle.dumps(sample)) for sample in bushel.open(path, index="memory").read(range(12), fields)]
    for force in (False, False, True):
        bushel.index(path, force=force, columns=[f"{fields[0]}.bytes"] if force else [])
        assert [bytes(pickle.dumps(sample)) for sample in bushel.open(path).read(range(12), fields)] == before


def test_types_that_are_declared_as_they_are(tmp_path: Path) -> None:
    path = copy("mds-plain", tmp_path)
    own = bushel.open(path, index="memory")
    assert bushel.open(path, index="memory", spec=own.spec)[3]["score"] == own[3]["score"]


def test_types_follow_from_a_file_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(3))
    bushel.index(path)
    np.save(path, np.ones((3, 2), np.float32))
    assert bushel.open(path)[1]["data"].tolist() == [1, 1]
    bushel.index(path, force=True)
    assert bushel.open(path).spec == {"data": "array(float32,2)"}


def test_types_follow_from_lines_that_are_added(tmp_path: Path) -> None:
    lines, table = tmp_path / "x.jsonl", tmp_path / "x.csv"
    lines.write_text('{"a": 1, "id": "07", "none": null}\n')
    table.write_text("a,id\n1,07\n")
    for path in (lines, table):
        bushel.index(path, spec={"id": "int"})
    lines.write_text(lines.read_text() + '{"a": 1.5, "id": "08", "none": 3, "new": "x"}\n')
    table.write_text(f"{table.read_text()}b,08\n")
    for _ in range(2):
        assert bushel.open(lines).spec == {"a": "float", "id": "int", "none": "int", "new": "utf8"}
        assert bushel.open(lines)[1] == {"__key__": "1", "a": 1.5, "id": 8, "none": 3, "new": "x"}
        assert [sample["a"] for sample in bushel.open(table)] == ["1", "b"]
        assert [sample["id"] for sample in bushel.open(table)] == [7, 8]
        for path in (lines, table):
            bushel.index(path)


def test_nested_lists_as_arrays(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"map": [[[1.5, 2], [3, 4]], None, [[5, 6], [7, 8]]]}), path)
    for declared in ({"map": "array(float32,2,2)"}, None):
        found = bushel.open(path, spec=declared)
        assert "map" not in found[1]
        if declared:
            assert (found[2]["map"].dtype.name, found[2]["map"].tolist()) == ("float32", [[5, 6], [7, 8]])
            assert next(iter(bushel.Loader(found[::2], 2)))["map"].shape == (2, 2, 2)
        bushel.index(path, spec=declared)
    assert bushel.open(path).spec == {"map": "array(float32,2,2)"}
    assert bushel.open(path)[0]["map"].tolist() == [[1.5, 2], [3, 4]]
    bushel.convert(bushel.open(path)[::2], tmp_path / "bag", container="bag")
    assert bushel.open(tmp_path / "bag")[1]["map"].tolist() == [[5, 6], [7, 8]]
