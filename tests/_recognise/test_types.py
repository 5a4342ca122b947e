"""The type that a caller declares: an exact conversion, or an error at `open`, for every container."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.tfrecords import example, float_list, framed, int_list

import bushel
from bushel._recognise.types import Stored, resolve
from bushel.codecs.registry import from_file, get_codec, runs_code
from bushel.errors import CodecError, SpecError
from bushel.spec import Field

VALUES: dict[str, list[Any]] = {
    "small": [1, 0, 1],
    "negative": [-1, 5, 70_000],
    "large": [(1 << 53) + 1, 1, 2],
    "whole": [2.0, -3.0, 0.0],
    "half": [0.5, -1.25, 3.0],
    "tenth": [0.1, 1e300, -7.5],
    "truth": [True, False, True],
    "digits": ["7", "-8", "9"],
    "words": ["a", "true", "é"],
    "list": [[1, 2], [3], [-4]],
    "reals": [[0.5], [1.5, 2.0], [0.1]],
    "nested": [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[0, 0], [0, 1]]],
    "object": [{"a": 1}, {"a": 2}, {"a": 3}],
}
DECLARED = (
    *("int", "uint", "i64", "u64", "float", "f32", "bool", "utf8", "json", "bytes", "jpg"),
    *("array(int32,-1)", "array(int64,-1)", "array(float32,-1)", "array(float64,-1)", "array(uint8,-1)"),
    *("array(int64,2,2)", "array(int64,-1,2)", "array", "int[]", "datetime64(us)"),
)


def _parquet(path: Path, values: list[Any]) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": values}), path / "x.parquet")
    return path / "x.parquet"


def _arrow(path: Path, values: list[Any]) -> Path:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": values})
    with pa.ipc.new_stream(path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    return path / "x.arrow"


def _jsonl(path: Path, values: list[Any]) -> Path:
    (path / "x.jsonl").write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
    return path / "x.jsonl"


def _csv(path: Path, values: list[Any]) -> Path:
    with (path / "x.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        rows.writerows([["x", "n"], *([text, 0] for text in texts)])
    return path / "x.csv"


def _written(container: str, path: Path, values: list[Any]) -> Path:
    first = values[0]
    kinds = {bool: "bool", int: "int", float: "float", str: "utf8", list: "array", dict: "json"}
    with bushel.Writer(path / "x", {"x": kinds[type(first)]}, container=container) as writer:
        for number, value in enumerate(values):
            writer.append({"x": np.array(value) if isinstance(value, list) else value}, key=f"k{number}")
    return path / "x"


def _npy(path: Path, values: list[Any]) -> Path:
    if not isinstance(values[0], bool | int | float) and values is not VALUES["nested"]:
        pytest.skip("arrays of numbers only")
    np.save(path / "x.npy", np.array(values))
    return path / "x.npy"


def _tfrecord(path: Path, values: list[Any]) -> Path:
    flat = [value if isinstance(value, list) else [value] for value in values]
    numbers = np.array(sum(flat, []))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        pytest.skip("numbers and lists of them only")
    if values is VALUES["tenth"] or values is VALUES["reals"]:
        pytest.skip("numbers that float32 holds only")
    write = float_list if numbers.dtype.kind == "f" else int_list
    (path / "x.tfrecord").write_bytes(framed([example({"x": write(*each)}) for each in flat]))
    return path / "x.tfrecord"


WRITE: dict[str, Callable[[Path, list[Any]], Path]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "jsonl": _jsonl,
    "csv": _csv,
    "npy": _npy,
    "tfrecord": _tfrecord,
    **{
        name: lambda path, values, name=name: _written(name, path, values)  # type: ignore[misc]
        for name in ("tar", "bag", "recordio", "ffrecord")
    },
}


def _plain(value: Any) -> Any:
    """Return a value with Python's types; texts of numbers as these."""
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.datetime64):
        return int(value.astype(np.int64))
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _same(found: Any, stored: Any) -> bool:
    if isinstance(found, np.ndarray) and found.dtype == np.float32:  # decimals of text are rounded
        return bool(np.array_equal(found.ravel(), np.ravel(np.array(_plain(stored), np.float32))))
    if isinstance(found, np.ndarray) and np.ndim(stored) < found.ndim:
        return bool(np.array_equal(found.ravel(), np.ravel(stored)))
    return bool(_plain(found) == _plain(stored))


def _check_type(declared: str, value: Any) -> None:
    base = declared.partition("(")[0]
    kinds = {"utf8": str, "bytes": bytes, "bool": bool, "float": float, "f32": float, "array": np.ndarray}
    kinds |= dict.fromkeys(("int", "uint", "i64", "u64"), int) | {"datetime64": np.datetime64}
    assert type(value) is kinds.get(base, type(value)) or isinstance(value, kinds.get(base, object))
    if base in ("int", "uint", "i64", "u64"):
        assert not isinstance(value, bool)
    if declared.startswith("array(") and isinstance(value, np.ndarray):
        assert value.dtype == np.dtype(declared[6:].partition(",")[0])


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("container", WRITE)
def test_values_are_converted_exactly_or_refused(tmp_path: Path, container: str, name: str) -> None:
    values = VALUES[name]
    path = WRITE[container](tmp_path, values)
    field = next(iter(bushel.open(path, index="memory").spec))
    for declared in DECLARED:
        try:
            dataset = bushel.open(path, spec={field: declared}, index="memory")
        except SpecError as error:
            assert "'x'" in str(error) or "'data'" in str(error) or "x" in str(error)  # noqa: PT017
            continue
        assert dataset.spec[field] == declared
        found = _readable(dataset, field)
        for value, stored in zip(found, values, strict=True):
            if value is not None:
                assert _same(value, stored), (declared, value, stored)
                _check_type(declared, value)
        if any(value is None for value in found):
            continue
        batch = next(iter(bushel.Loader(dataset, 3, fields=[field], collate={field: "list"})))[field]
        for value, stored in zip(batch, values, strict=True):
            assert _same(value, stored), (declared, "in a batch", value, stored)
        if field in dataset.columns:
            assert [_plain(value) for value in _values(dataset.column(field))] == [_plain(value) for value in found]


def _values(column: Any) -> list[Any]:
    """Return the values of a column; times as NumPy's."""
    return list(column) if column.dtype.kind in "mM" else column.tolist()


def _readable(dataset: Any, field: str) -> Sequence[Any]:
    """Return the values, with None for those that are an error."""
    found: list[Any] = []
    for number in range(len(dataset)):
        try:
            found.append(dataset[number][field])
        except CodecError:
            found.append(None)
    return found


@pytest.mark.parametrize("container", ["jsonl", "csv", "parquet", "arrow", "tar", "bag"])
def test_convert_reads_declared_types_as_open_does(tmp_path: Path, container: str) -> None:
    target = tmp_path / "target.tar"
    for name, values in VALUES.items():
        (tmp_path / name).mkdir()
        path = WRITE[container](tmp_path / name, values)
        natural = bushel.open(path, index="memory").spec["x"]
        for declared in ("int", "uint", "f32", "bool", "utf8", "json", "array(float64,-1)", "datetime64(us)"):
            spec = {"x": declared}
            if declared.startswith("array") and natural.startswith("array"):
                continue  # convert looks at each number, and open at their types only
            try:
                opened = bushel.open(path, spec=spec, index="memory")
            except SpecError as error:
                with pytest.raises(SpecError, match=re.escape(str(error).partition(" is stored")[2].partition(":")[0])):
                    bushel.convert(path, target, spec=spec)
                assert not target.exists()
                continue
            bushel.convert(path, target, spec=spec, mode="overwrite", sync=False)
            converted = bushel.open(target, index="memory")
            found = [sample["x"] for sample in converted]
            assert converted.spec["x"] == declared
            assert list(map(_plain, found)) == [_plain(sample["x"]) for sample in opened], (name, declared)
            target.unlink()
            shutil.rmtree(tmp_path / ".bushel")


@pytest.mark.parametrize("container", ["parquet", "arrow", "tar", "bag"])
def test_texts_in_files_are_looked_at_when_they_are_opened(tmp_path: Path, container: str) -> None:
    path = WRITE[container](tmp_path, ["7", "seven", "eight"])
    spec = {"x": "int"}
    for read in (bushel.open, bushel.index, lambda path, spec: bushel.convert(path, tmp_path / "out.tar", spec=spec)):
        with pytest.raises(
            SpecError, match=r"field 'x' of .* cannot be read as int without a change: row 1 is seven\."
        ):
            read(path, spec=spec)
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("container", ["tar", "bag"])
@pytest.mark.parametrize(
    ("stored", "declared", "error"),
    [
        ("array(int32,-1)", "array(float64,2)", None),
        ("array(int32,-1)", "array(int32,1,2)", "another number of dimensions"),
        ("array(int64,2)", "array(float32,2)", "int64 holds numbers that float32 does not"),
        ("array", "array(int32,2)", None),
        ("array", "array(float32,2)", "sample 'a', field 'x': .*dtype float32"),
        ("array", "array(int32,1,2)", "sample 'a', field 'x': .*shape"),
    ],
)
def test_converted_arrays_have_the_declared_numbers_and_shape(
    tmp_path: Path, stored: str, declared: str, error: str | None, container: str
) -> None:
    with bushel.Writer(tmp_path / "in", {"x": stored}, container=container, sync=False) as writer:
        writer.append({"x": np.array([1, 2], "int64" if "int64" in stored else "int32")}, key="a")
    if error is not None and not (container == "bag" and "dimensions" in error):  # a bag has bare numbers
        with pytest.raises((SpecError, CodecError), match=error):
            bushel.convert(tmp_path / "in", tmp_path / "out", container="tar", spec={"x": declared}, sync=False)
        return
    bushel.convert(tmp_path / "in", tmp_path / "out", container="tar", spec={"x": declared}, sync=False)
    found = bushel.open(tmp_path / "out")[0]["x"]
    dtype, *shape = declared[6:-1].split(",")
    assert (str(found.dtype), found.shape, found.ravel().tolist()) == (dtype, tuple(map(int, shape)), [1, 2])


def test_files_with_several_types_are_converted_exactly(tmp_path: Path) -> None:
    path = _in_two_files("jsonl", tmp_path, [1, 2], [3.0, 4.0])
    bushel.convert(path, tmp_path / "whole.tar", spec={"x": "int"}, sync=False)
    assert [sample["x"] for sample in bushel.open(tmp_path / "whole.tar")] == [1, 2, 3, 4]


class TestErrors:
    def test_what_they_name(self, tmp_path: Path) -> None:
        path = _parquet(tmp_path, [0.5, 1.0])
        with pytest.raises(SpecError, match=r"field 'x' of x\.parquet is stored as float.* as int .* value 0 is 0\.5"):
            bushel.open(path, spec={"x": "int"})

    @pytest.mark.parametrize("container", ["jsonl", "csv", "parquet", "arrow"])
    @pytest.mark.parametrize(
        ("values", "types"),
        [
            ([[1, 2], [3, None]], ("array", "array(int64,-1)", "array(float32,2)", "int")),
            ([[[1, 2], [3, 4]], [[1, 2], [3, None]]], ("array", "array(float32,2,2)")),
            ([[[1, 2], [3, 4]], [[1], [2, 3]]], ("array", "array(float32,2,2)", "array(int64,-1)")),
        ],
    )
    def test_a_list_that_is_no_such_array_is_refused_when_it_is_opened(
        self, values: list[Any], types: tuple[str, ...], container: str, tmp_path: Path
    ) -> None:
        path, where = WRITE[container](tmp_path, values), {"jsonl": "line 2", "csv": "line 3"}
        for declared in types:
            first = 1 if declared in ("array", "array(int64,-1)", "array(float32,2)") else 0
            with pytest.raises(SpecError, match=rf"'x' of .*x\.{container} .*as array|as int") as caught:
                bushel.open(path, spec={"x": declared}, index="memory")
            assert "Leave it out of spec=" in str(caught.value)
            if first and declared != "array(int64,-1)":
                assert f"{where.get(container, 'row 1')} is [" in str(caught.value)

    @pytest.mark.parametrize("container", ["jsonl", "csv"])
    @pytest.mark.parametrize(
        ("last", "declared"),
        [
            ([1, 1 << 64], "array(int64,-1)"),
            ([1, -(1 << 63) - 1], "array"),
            ([(1 << 24) + 1], "array(float32,-1)"),
            ([1.5], "array(int64,-1)"),
            ([True], "array(int64,-1)"),
            (["a", 1], "array"),
            ({"x": 1}, "array"),
            ([[1], [1, 2]], "array"),
            (5, "array(int64,-1)"),
            ("abc", "array(float32,-1)"),
            ([1, 2, 3], "array(int64,2)"),
        ],
    )
    def test_the_first_value_that_is_no_such_array_is_named(
        self, last: Any, declared: str, container: str, tmp_path: Path
    ) -> None:
        good = [[number, number] for number in range(5000)]  # more than are decoded together
        path = WRITE[container](tmp_path, [*good, last, [1, None]])
        line = len(good) + (2 if container == "csv" else 1)
        with pytest.raises(SpecError, match=f"the value in line {line} is "):
            bushel.open(path, spec={"x": declared}, index="memory")
        assert len(bushel.open(WRITE[container](tmp_path, good), spec={"x": declared}, index="memory")) == len(good)

    @pytest.mark.parametrize("container", ["jsonl", "csv"])
    @pytest.mark.parametrize(
        ("values", "declared", "line"),
        [
            ([1, "x"], "int", 2),
            ([1, 1.5], "int", 2),
            ([1.0, 2.5, 3.0], "bool", 2),
            ([1, -1], "uint", 2),
            ([0.1, 1e300], "f32", 1),
        ],
    )
    def test_texts_of_other_numbers_name_their_line(
        self, values: list[Any], declared: str, line: int, container: str, tmp_path: Path
    ) -> None:
        path = WRITE[container](tmp_path, values)
        with pytest.raises(SpecError, match=f"the value in line {line + (container == 'csv')} is "):
            bushel.open(path, spec={"x": declared}, index="memory")

    def test_integers_that_no_float_equals(self, tmp_path: Path) -> None:
        path = _parquet(tmp_path, [1, 2, (1 << 53) + 1, -(1 << 63)])
        with pytest.raises(SpecError, match="value 2 is 9007199254740993"):
            bushel.open(path, spec={"x": "float"})
        rounded = _parquet(tmp_path, [1 << 60, (1 << 53) + 2, -(1 << 62), 0])
        assert bushel.open(rounded, spec={"x": "float"}).column("x").tolist() == [2.0**60, 2.0**53 + 2, -(2.0**62), 0.0]


class TestCodec:
    def test_both_ways(self) -> None:
        codec = get_codec("as(datetime64(us),utf8)")
        value = np.datetime64("2024-06-01T12:30:00.000001", "us")
        assert codec.decode(codec.encode(value)) == value
        assert get_codec("as(array(float64,-1),array(float32,-1))").decode(np.ones(2, "<f4").tobytes()).tolist() == [
            1,
            1,
        ]

    def test_no_file_can_let_code_run_by_it(self) -> None:
        assert runs_code("as(json,pickle)")
        assert from_file("as(json,gzip(pickle))").startswith("stored(")
        with pytest.raises(SpecError, match="'as"):
            get_codec("as(int)")


FILES = ("parquet", "arrow", "jsonl", "csv", "tfrecord")


def _in_two_files(container: str, path: Path, first: list[Any], second: list[Any]) -> Path:
    for name, values in (("a", first), ("b", second)):
        (path / name).mkdir()
        written = WRITE[container](path / name, values)
        (path / "data").mkdir(exist_ok=True)
        written.rename(path / "data" / f"{name}{written.suffix}")
    return path / "data"


@pytest.mark.parametrize("container", FILES)
@pytest.mark.parametrize("turned", [False, True])
def test_whole_numbers_beside_others_are_read_as_float(tmp_path: Path, container: str, turned: bool) -> None:
    whole: list[Any] = [1, 1 << 53]
    others: list[Any] = [0.5, 2.0]
    first, second = (others, whole) if turned else (whole, others)
    for policy in ("memory", "auto", "auto"):
        dataset = bushel.open(
            _in_two_files(container, tmp_path, first, second) if policy == "memory" else tmp_path / "data"
        )
        assert dataset.spec["x"] == "float"
        found = [sample["x"] for sample in dataset]
        assert (found, set(map(type, found))) == ([*first, *second], {float})
        assert dataset.column("x").dtype == np.float64
        [batch] = bushel.Loader(dataset, 4, fields=["x"])
        assert (batch["x"].dtype, batch["x"].tolist()) == (np.float64, found)


@pytest.mark.parametrize("container", FILES)
def test_a_number_that_float_does_not_hold_names_both_files(tmp_path: Path, container: str) -> None:
    path = _in_two_files(container, tmp_path, [1, (1 << 53) + 1], [0.5, 2.0])
    names = sorted(each.name for each in path.iterdir())
    with pytest.raises(SpecError, match="'x'.*(value|row) 1 is 9007199254740993") as caught:
        bushel.open(path, index="memory")
    assert all(name in str(caught.value) for name in names)
    dataset = bushel.open(path, spec={"x": "json"}, index="memory")  # as the error says
    assert [sample["x"] for sample in dataset] == [1, (1 << 53) + 1, 0.5, 2.0]


def test_lists_with_nulls_in_one_file_make_lists_of_all(tmp_path: Path) -> None:
    cases: list[tuple[list[Any], list[Any]]] = [([[1, None]], [[2]]), ([[2]], [[1, None]])]
    for number, (first, second) in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        path = _in_two_files("parquet", tmp_path / str(number), first, second)
        dataset = bushel.open(path, index="memory")
        assert dataset.spec["x"] == "json"
        assert [sample["x"] for sample in dataset] == [*first, *second]


@pytest.mark.parametrize(("cell", "truth"), [("True", True), ("FALSE", False), ("true", True), ("1", True), ("", None)])
def test_truth_values_of_csv(cell: str, truth: bool | None, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"n,x\n0,{cell}\n1,False\n")
    dataset = bushel.open(tmp_path / "x.csv", spec={"x": "bool"})
    assert [sample.get("x") for sample in dataset] == [truth, False]


def test_texts_as_bytes_are_not_read_to_check_them() -> None:
    def values() -> list[tuple[int, bytes]]:
        raise AssertionError("values are read")

    stored = Stored(Field("txt", "utf8"), "utf8", "a.txt", values=values)
    assert resolve(stored, Field("txt", "bytes"), "bytes") == "bytes"
    with pytest.raises(AssertionError, match="values are read"):
        resolve(stored, Field("txt", "int"), "int")


@pytest.mark.parametrize(
    ("target", "reason"), [("datetime64(s)", "value 1 is 1500"), ("timedelta64(ms)", "value 0 is 1000")]
)
def test_times_that_a_declared_unit_does_not_hold_are_refused(target: str, reason: str) -> None:
    stored = Stored(Field("x", "datetime64(ms)"), "datetime64(ms)", "a.parquet", np.array([1000, 1500]))
    with pytest.raises(SpecError, match=reason):
        resolve(stored, Field("x", target), target)
    assert resolve(stored, Field("x", "datetime64(us)"), "datetime64(us)") == "as(datetime64(us),datetime64(ms))"
