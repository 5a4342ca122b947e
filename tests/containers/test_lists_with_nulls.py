"""Nulls among the elements of lists: the values of pyarrow in Parquet, Arrow and JSON lines, or a warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bushel

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

TEXTS = [["a", None, ""], ["b"], None, [], [None]]
BYTES = [[b"a", None, b""], [b"b"], None, [], [None]]
NUMBERS = [[1, None, 3], [4], None, [], [None]]
PAIR = pa.struct([("x", pa.string()), ("y", pa.int64())])
MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

AS_PYARROW: dict[str, tuple[Any, list[Any]]] = {
    "texts": (pa.list_(pa.string()), TEXTS),
    "large texts": (pa.list_(pa.large_string()), TEXTS),
    "views of texts": (pa.list_(pa.string_view()), TEXTS),
    "large lists": (pa.large_list(pa.string()), TEXTS),
    "views of lists": (pa.list_view(pa.string()), TEXTS),
    "lists of a size": (pa.list_(pa.string(), 2), [["a", None], ["b", "c"], None, [None, None]]),
    "dictionaries": (pa.list_(pa.dictionary(pa.int8(), pa.string())), TEXTS),
    "truth values": (pa.list_(pa.bool_()), [[True, None, False], [True], None, []]),
    "whole numbers": (pa.list_(pa.int64()), NUMBERS),
    "views of numbers": (pa.list_view(pa.int64()), NUMBERS),
    "reals": (pa.list_(pa.float32()), [[1.5, None], [2.0], None, []]),
    "numbers of a size": (pa.list_(pa.int32(), 2), [[1, None], [2, 3], None]),
    "lists of texts": (pa.list_(pa.list_(pa.string())), [[["a", None], None], [], None]),
    "lists of numbers": (pa.list_(pa.list_(pa.int32())), [[[1, None], None], [], None]),
    "structs": (pa.list_(PAIR), [[{"x": None, "y": 1}, None], [], None]),
    "in a struct": (pa.struct([("l", pa.list_(pa.string()))]), [{"l": ["a", None, ""]}, None]),
}
WITHOUT_LISTS_OF_NULLS: dict[str, tuple[Any, list[Any]]] = {
    "binaries": (pa.list_(pa.binary()), BYTES),
    "large binaries": (pa.large_list(pa.large_binary()), BYTES),
    "views of binaries": (pa.list_(pa.binary_view()), BYTES),
    "binaries of a size": (pa.list_(pa.binary(2)), [[b"ab", None], [b"cd"], None, []]),
    "media": (
        pa.list_(MEDIA),
        [[{"bytes": b"a", "path": ""}, None], [{"bytes": b"b", "path": ""}], None],
    ),
}


def _write(table: Any, folder: Path, kind: str) -> Path:
    path = folder / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        new = {"arrow": pa.ipc.new_file, "feather": pa.ipc.new_stream}[kind]
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


def _table(kind: Any, rows: list[Any]) -> Any:
    return pa.table({"n": list(range(len(rows))), "c": pa.array(rows, kind)})


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather", "jsonl"])
@pytest.mark.parametrize("name", AS_PYARROW)
def test_values_are_those_of_pyarrow(name: str, kind: str, tmp_path: Path) -> None:
    table = _table(*AS_PYARROW[name])
    ds = bushel.open(_write(table, tmp_path, kind))
    assert ds.spec["c"] == "json"
    assert [sample.get("c") for sample in ds] == table["c"].to_pylist()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather"])
@pytest.mark.parametrize("name", WITHOUT_LISTS_OF_NULLS)
def test_lists_of_bytes_with_a_null_are_missing_and_said(
    name: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = _table(*WITHOUT_LISTS_OF_NULLS[name])
    expected = [
        None if row is None or None in row else [_bytes(element) for element in row] for row in table["c"].to_pylist()
    ]
    ds = bushel.open(_write(table, tmp_path, kind))
    assert ds.spec["c"] == "bytes[]"
    assert [sample.get("c") for sample in ds] == expected
    assert f"t.{kind}: " in caplog.text
    assert "a null among their elements" in caplog.text
    assert "(the first is in row 0)" in caplog.text


def _bytes(element: Any) -> Any:
    return element["bytes"] if isinstance(element, dict) else element


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_with_and_without_nulls_are_read_as_json(kind: str, tmp_path: Path) -> None:
    for name, rows in (("a", [["x"], None]), ("b", [["y", None]])):
        (tmp_path / name).mkdir()
        _write(_table(pa.list_(pa.string()), rows), tmp_path / name, kind).rename(tmp_path / f"{name}.{kind}")
        (tmp_path / name).rmdir()
    for spec in (None, {"c": "json"}):
        for _ in range(2):
            ds = bushel.open(tmp_path, spec=spec)
            assert [sample.get("c") for sample in ds] == [["x"], None, ["y", None]]
            assert ds.spec["c"] == "json"
    assert len(bushel.index(tmp_path)) == 3
    assert bushel.verify(tmp_path).ok
    assert [sample.get("c") for sample in bushel.open(tmp_path)] == [["x"], None, ["y", None]]
    bushel.pack(tmp_path, tmp_path.parent / f"{kind}.tar")
    assert [sample.get("c") for sample in bushel.open(tmp_path.parent / f"{kind}.tar")] == [["x"], None, ["y", None]]
