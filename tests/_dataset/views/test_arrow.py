"""The index as an Arrow table says where the bytes are, and with which checksum."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import pytest
from tests.formats import each_format
from tests.integrity.small import reading, write

import bushel

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@each_format
def test_the_rows_lead_to_the_bytes(tmp_path: Path, container: str, generation: str | None) -> None:
    dataset = reading(write(tmp_path / "data", container, generation))  # type: ignore[arg-type]
    table = dataset.to_arrow()
    own = [f"{name}.extent" if name in dataset.columns else name for name in dataset.spec]
    assert table.column_names == ["__key__", *own, *dataset.columns]
    rows = table.to_pylist()
    assert [row["__key__"] for row in rows] == list(dataset.keys)
    for position, row in enumerate(rows):
        place, stored = row["image"], dataset.read([position], decode=False)[0]["image"]
        data = Path(place["file"]).read_bytes()[place["offset"] : place["offset"] + place["length"]]
        assert data == stored
        assert place["crc32"] == zlib.crc32(stored)


def test_views_fields_sequences_and_missing_values(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"a": "bytes", "words": "utf8[]"}, container="ffrecord") as writer:
        writer.append({"a": b"12345", "words": ["x", "yz"]}, key="one")
        writer.append({"words": []}, key="two")
        writer.append({"a": b"1"}, key="three")
    dataset = reading(tmp_path / "data")
    rows = dataset.to_arrow().to_pylist()
    assert [row["a"] and row["a"]["length"] for row in rows] == [5, None, 1]
    assert [[word["length"] for word in row["words"] or ()] for row in rows] == [[1, 2], [], []]
    view = dataset[[2, 0]].select_fields(["a"]).to_arrow()
    assert view.column_names == ["__key__", "a"]
    assert view.column("__key__").to_pylist() == ["three", "one"]
    assert [
        row["length"] for row in dataset[1:].select_fields(["words"]).to_arrow().column("words").to_pylist()[0]
    ] == []


def test_positions_are_the_keys_of_samples_without(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"a": "bytes"}, container="bag", shard_samples=2) as writer:
        for number in range(5):
            writer.append({"a": bytes(number)})
    table = reading(tmp_path / "data").to_arrow()
    assert table.column("__key__").to_pylist() == ["0", "1", "2", "3", "4"]
    assert len(set(table.column("a").combine_chunks().field("file").to_pylist())) == 3


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = reading(write(tmp_path / "data", "tar"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'bushel\[arrow\]'"):
        dataset.to_arrow()
