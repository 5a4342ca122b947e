from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel._index.shard import FOLDER
from bushel.errors import FormatError

FEW = '{"x": 1}\n{"x": 2}\n'


def _numbers(folder: Path, samples: int = 6) -> None:
    with bushel.Writer(folder, {"x": "int"}, container="tar", shard_samples=2) as writer:
        for number in range(samples):
            writer.append({"x": number}, key=f"k{number}")


def test_indexing_one_shard_keeps_the_others_of_its_dataset(tmp_path: Path) -> None:
    _numbers(tmp_path / "numbers")
    indexed = bushel.index(tmp_path / "numbers" / "shard-000001.tar", columns="x", force=True)
    assert indexed.keys[:] == ["k2", "k3"]
    numbers = bushel.open(tmp_path / "numbers")  # a warning is an error
    assert [sample["x"] for sample in numbers] == list(range(6))
    assert bushel.verify(tmp_path / "numbers").ok


def test_indexing_one_shard_keeps_the_names_of_classes(tmp_path: Path) -> None:
    target = tmp_path / "classes"
    with bushel.Writer(target, {"label": "int"}, container="tar", shard_samples=1, labels={"label": ["a", "b"]}) as w:
        w.append({"label": 0}, key="first")
        w.append({"label": 1}, key="second")
    bushel.index(target / "shard-000000.tar", force=True)
    assert bushel.open(target).labels == {"label": ("a", "b")}


def test_files_that_share_a_folder_are_indexed_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(FEW)
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n')
    bushel.index(tmp_path / "a.jsonl", columns="x")
    bushel.index(tmp_path / "b.jsonl", columns="text")  # not a field of the other file
    assert not (tmp_path / FOLDER / "manifest.json").exists()
    assert len(bushel.open(tmp_path)) == 3
    assert bushel.open(tmp_path / "b.jsonl").columns == ("text",)


def test_a_file_that_the_manifest_does_not_list_leaves_it_as_it_is(tmp_path: Path) -> None:
    _numbers(tmp_path, 2)
    before = (tmp_path / FOLDER / "manifest.json").read_bytes()
    (tmp_path / "rows.jsonl").write_text(FEW)
    assert len(bushel.index(tmp_path / "rows.jsonl", columns="x")) == 2
    assert (tmp_path / FOLDER / "manifest.json").read_bytes() == before


def test_files_that_are_all_of_their_folder_get_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(FEW)
    (tmp_path / "b.jsonl").write_text(FEW)
    bushel.index(str(tmp_path / "*.jsonl"))
    assert (tmp_path / FOLDER / "manifest.json").exists()
    assert len(bushel.open(tmp_path)) == 4


def test_changed_types_are_accepted_by_force_only(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(4))
    bushel.index(path)
    np.save(path, np.arange(4).view(np.float64))  # the checksums stay the same
    with pytest.raises(FormatError, match=r"recorded as array\(int64\), and is array\(float64\).*--force"):
        bushel.index(path)
    assert bushel.index(path, force=True).spec == {"data": "array(float64)"}


def test_types_that_the_caller_declares_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(FEW)
    bushel.index(path)
    path.write_text(FEW + '{"x": 3}\n')
    assert bushel.index(path, spec={"x": "float"}).spec == {"x": "float"}
