"""Types of what files store: files of other writers, files without rows, and columns without values."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import pytest

import bushel
from bushel.errors import DamagedWarning, FormatError, SpecError
from bushel.filters import FilterError, expand

DATA = bytes(range(250)) * 40


def _hadoop(*blocks: bytes) -> bytes:
    packed = [bytes(cramjam.lz4.compress_block(block, store_size=False)) for block in blocks]
    pairs = zip(blocks, packed, strict=True)
    return b"".join(struct.pack(">II", len(block), len(own)) + own for block, own in pairs)


class TestHadoopsLz4:
    """Parquet's compression number 5."""

    @pytest.mark.parametrize(
        "stored",
        [
            _hadoop(DATA),
            _hadoop(DATA[:3000], DATA[3000:]),
            bytes(cramjam.lz4.compress_block(DATA, store_size=False)),
            bytes(cramjam.lz4.compress(DATA)),
        ],
        ids=["one", "two", "plain", "frame"],
    )
    def test_every_form(self, stored: bytes) -> None:
        assert expand("lz4-hadoop", stored, len(DATA)).tobytes() == DATA
        with pytest.raises(FilterError):
            expand("lz4-hadoop", stored[:-5], len(DATA))

    def test_in_a_file(self, tmp_path: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "rows.parquet"
        pq.write_table(pa.table({"text": [f"line {i % 7}" for i in range(100)]}), path, compression="lz4")
        data = path.read_bytes()
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        path.write_bytes(data[:footer] + data[footer:].replace(b"\x15\x0e\x16", b"\x15\x0a\x16"))
        assert [row["text"] for row in bushel.open(path)] == [f"line {i % 7}" for i in range(100)]


class TestFooterOfArrow:
    @pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
    def test_files_of_polars(self, tmp_path: Path, compression: str) -> None:
        polars = pytest.importorskip("polars")
        path = tmp_path / "rows.arrow"
        frame = polars.DataFrame({"label": [3, 4], "text": ["one", None], "tokens": [[1], [2, 3]]})
        frame.write_ipc(path, compression=compression)
        rows = bushel.open(path).read(range(2))
        assert [list(row.get("tokens", ())) for row in rows] == [[1], [2, 3]]
        assert [(row["label"], row.get("text")) for row in rows] == [(3, "one"), (4, None)]

    def test_damage(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        path = tmp_path / "rows.arrow"
        table = pa.table({"n": [1, 2]})
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        data = path.read_bytes()
        assert len(bushel.open(path)) == 2
        for damaged in (data[:-1], data[:60], data[:-10] + b"\xff\xff\xff\x7f" + data[-6:]):
            path.write_bytes(damaged)
            with pytest.raises(FormatError, match=r"rows\.arrow"):
                bushel.open(path)


def _parquet(path: Path, table: Any) -> None:
    pytest.importorskip("pyarrow.parquet").write_table(table, path)


def _stream(path: Path, table: Any) -> None:
    with pytest.importorskip("pyarrow").ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


class TestWithoutRows:
    @pytest.mark.parametrize(("name", "write"), [("e.parquet", _parquet), ("e.arrow", _stream)])
    def test_types_are_those_of_the_schema(self, tmp_path: Path, name: str, write: Callable[[Path, Any], None]) -> None:
        pa = pytest.importorskip("pyarrow")
        kinds = {"n": pa.int64(), "x": pa.float32(), "t": pa.string(), "s": pa.struct([("a", pa.int8())])}
        lists = {"v": pa.list_(pa.int32()), "texts": pa.list_(pa.string())}
        write(tmp_path / name, pa.schema(kinds | lists).empty_table())
        dataset = bushel.open(tmp_path / name)
        spec = {"n": "int", "x": "float", "t": "utf8", "s": "json", "v": "array", "texts": "utf8[]"}
        assert dict(dataset.spec) == spec
        bushel.convert(dataset, tmp_path / "out", container="bag")
        assert dict(bushel.open(tmp_path / "out").spec) == spec
        assert bushel.verify(tmp_path / name).ok
        assert list(bushel.Loader(dataset, 2)) == []


class TestWithoutValues:
    """A column whose values are all null, such as the labels of a test split."""

    @pytest.mark.parametrize(
        ("name", "text"), [("t.csv", "label,n\n,1\n,2\n"), ("t.jsonl", '{"label":null,"n":1}\n{"n":2}\n')]
    )
    @pytest.mark.parametrize("kind", ["int", "utf8", "float", "json", "array(int32,-1)"])
    def test_any_type_may_be_declared(self, tmp_path: Path, name: str, text: str, kind: str) -> None:
        path = tmp_path / name
        path.write_text(text)
        dataset = bushel.open(path, spec={"label": kind})
        assert dataset.spec == {"label": kind, "n": "int"}
        assert [sample["n"] for sample in dataset if "label" not in sample] == [1, 2]

    def test_a_name_that_no_line_has_is_a_mistake(self, tmp_path: Path) -> None:
        path = tmp_path / "t.jsonl"
        path.write_text('{"label":null}\n')
        with pytest.raises(SpecError, match="labels"):
            bushel.open(path, spec={"labels": "int"})


class TestAfterAnArray:
    @pytest.mark.parametrize("rest", [' {"n":3}', "x", ",", "]", '\n\n{"n":3}\n' + " " * 5000 + "]"])
    def test_something_is_damage(self, tmp_path: Path, rest: str) -> None:
        path = tmp_path / "rows.json"
        path.write_text(json.dumps([{"n": 1}, {"n": 2}]) + rest)
        with pytest.raises(FormatError, match="follows the array"):
            bushel.index(path)

    def test_blanks_are_not(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.json"
        path.write_text(json.dumps([{"n": 1}, {"n": 2}]) + " \n\t \n")
        assert [sample["n"] for sample in bushel.open(path)] == [1, 2]


@pytest.mark.parametrize("container", ["tar", "bag", "recordio", "ffrecord"])
@pytest.mark.parametrize("name", [" a", "a ", "b" * 100, "c" * 300, "d\te", "d\ne", "f\x7f", "g/h", ""])
def test_a_name_is_kept_or_refused_when_writing_begins(tmp_path: Path, container: str, name: str) -> None:
    fields = {name: "int", "other": "int"}
    try:
        with bushel.Writer(tmp_path / "out", fields, container=container) as writer:
            writer.append({name: 1, "other": 2}, key="0")
    except SpecError as error:
        refused = {"bag": ("c" * 300, "d\te", "d\ne", "f\x7f", "g/h", ""), "tar": ("d\ne", "g/h", "")}
        assert name in refused.get(container, ("",)), error  # noqa: PT017
        return
    sample = bushel.open(tmp_path / "out")[0]
    assert {each: value for each, value in sample.items() if each != "__key__"} == {name: 1, "other": 2}
    bushel.convert(tmp_path / "out", tmp_path / "again", container="recordio")
    assert bushel.open(tmp_path / "again")[0] == sample


@pytest.mark.parametrize("container", ["tar", "bag", "recordio", "ffrecord"])
def test_names_with_blanks_at_their_ends_are_kept(tmp_path: Path, container: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id, label,note \n1,5,x\n2,6,y\n")
    bushel.convert(path, tmp_path / "out", container=container)
    sample = bushel.open(tmp_path / "out")[1]
    assert (sample["id"], sample[" label"], sample["note "]) == (2, 6, "y")


@pytest.mark.parametrize(
    ("name", "text", "damaged"),
    [
        ("a.jsonl", '{"x": 1}\n{"x" 2}\n{"x": 3}\n{x}\n[4]\n{"x": 5}\n', {"1": "line 2", "3": "line 4", "4": "line 5"}),
        ("a.csv", "x,y\n1,2\n1,2,3\n4,5\n6,7,8\n", {"1": "line 3", "3": "line 5"}),
        ("a.json", '[{"x": 1},\n{"x": 2, },\n{"x": 3},\n{"x"},\n{"x": 4}]', {"1": "object 2", "3": "object 4"}),
    ],
)
def test_every_damaged_line_is_named(tmp_path: Path, name: str, text: str, damaged: dict[str, str]) -> None:
    path = tmp_path / name
    path.write_text(text)
    problems = bushel.verify(path).problems
    assert [problem.message.partition(":")[0] for problem in problems] == list(damaged.values())
    assert len({problem.offset for problem in problems}) == len(damaged)
    with pytest.warns(DamagedWarning):
        dataset = bushel.open(path, index="memory")
    for key, line in damaged.items():
        with pytest.raises(FormatError, match=rf"sample '{key}' .*: {line}: "):
            dataset[key]


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_column_whose_name_no_field_has_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, name: str
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, table = tmp_path / f"x.{suffix}", pa.table({name: [1, 2], "y": [3, 4], "z": [["a"], []]})
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    for _ in range(2):  # the second time by the table that the first time, or `bushel index`, has kept
        assert [sample["y"] for sample in bushel.open(path)] == [3, 4]
        assert list(bushel.index(path).spec) == ["y", "z"]
    assert "not an index" not in caplog.text
    assert f"a column that is called {name!r} is not read" in caplog.text
