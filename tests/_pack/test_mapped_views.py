"""Views of `ds.map` are written by `convert` and `split`; `merge` and `column` say why they refuse them."""

from __future__ import annotations

from pathlib import Path

import pytest

import bushel
from bushel.errors import UnsupportedError


def test_a_mapped_view_is_converted_as_it_is_packed(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    rows = bushel.open(tmp_path / "rows.jsonl")
    mapped = rows.map(lambda sample: {"b": sample["a"] + 1}, ["a"], spec={"b": "int"}).select_fields(["b"])
    for write in (bushel.convert, bushel.pack):
        target = tmp_path / write.__name__
        assert write(mapped, target, container="bag").spec == {"b": "int"}
        with bushel.open(target) as written:
            assert [sample["b"] for sample in written] == [2, 3]
    with pytest.raises(KeyError, match=r"ds\.map\(function, spec=\{'c': 'int'\}\)"):
        bushel.pack(mapped, tmp_path / "typed", container="bag", spec={"c": "int"})
    with pytest.raises(UnsupportedError, match=r"classes by their names.*bushel\.convert"):
        bushel.merge([mapped], tmp_path / "all", container="bag")  # type: ignore[list-item]


def test_a_mapped_view_is_split_by_its_results(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"label": "int"}, container="tar") as out:
        for number in range(12):
            out.append({"label": number % 4}, key=str(number))
    view = bushel.open(tmp_path / "in").map(lambda sample: {"label": sample["label"] // 2})
    parts = view.split(train=0.5, val=None, stratify="label")
    written = bushel.split(view, tmp_path / "parts", {"train": 0.5, "val": 0.5}, shuffle=True, stratify="label")
    assert {name: result.samples for name, result in written.items()} == {"train": 6, "val": 6}
    for name, part in parts.items():
        with bushel.open(tmp_path / "parts" / name) as stored:
            assert stored.info.container == "tar"
            assert [(sample["__key__"], sample["label"]) for sample in stored] == [
                (sample["__key__"], sample["label"]) for sample in part
            ]
            assert sorted(stored.column("label")) == [0, 0, 0, 1, 1, 1]
    assert view.columns == ()
    with pytest.raises(UnsupportedError, match=r"values before it: view\.dataset\.column\('label'\)"):
        view.column("label")
