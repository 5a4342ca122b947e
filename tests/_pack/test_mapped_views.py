"""Views of `ds.map` are written by `convert`; `split` and `merge` say so."""

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
    with pytest.raises(UnsupportedError, match=r"bushel\.convert"):
        bushel.split(mapped, tmp_path / "parts", {"x": 0.5, "y": 0.5}, container="bag")
    with pytest.raises(UnsupportedError, match=r"bushel\.convert"):
        bushel.merge([mapped], tmp_path / "all", container="bag")
