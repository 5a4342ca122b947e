"""Logical types of Parquet and Arrow, compared with pyarrow's own values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.errors import FormatError, SpecError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [0, 1, None, 86_400_000 * 20_000]
TIMES = {
    "date32": (pa.date32(), [0, 1, None, 20_000]),
    "date64": (pa.date64(), ROWS),
    **{f"timestamp {unit}": (pa.timestamp(unit), ROWS) for unit in ("s", "ms", "us", "ns")},
    "timestamp with a zone": (pa.timestamp("us", "Europe/Paris"), ROWS),
    "timestamp of a far year": (pa.timestamp("us"), [1 << 60, -(1 << 60), None, 5]),
    "time32": (pa.time32("ms"), [0, 1, None, 86_399_999]),
    "time64": (pa.time64("us"), [0, 1, None, 86_399_999_999]),
    **{f"duration {unit}": (pa.duration(unit), ROWS) for unit in ("s", "ms", "us", "ns")},
}


def _parquet(path: Path, table: Any) -> Path:
    pq.write_table(table, path / "x.parquet")
    return path / "x.parquet"


def _arrow(path: Path, table: Any) -> Path:
    with pa.ipc.new_file(path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    return path / "x.arrow"


def _stream(path: Path, table: Any) -> Path:
    with pa.ipc.new_stream(path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    return path / "x.arrow"


Write = Callable[[Path, Any], Path]
FORMATS = pytest.mark.parametrize("write", [_parquet, _arrow, _stream])


@FORMATS
@pytest.mark.parametrize("name", TIMES)
def test_times(tmp_path: Path, write: Write, name: str) -> None:
    kind, rows = TIMES[name]
    path = write(tmp_path, pa.table({"when": pa.array(rows, kind), "n": list(range(len(rows)))}))
    dataset = bushel.open(path, index="memory")
    stored = (pq.read_table(path) if path.suffix == ".parquet" else _table_of(path)).column("when").to_numpy()
    there = np.array([row is not None for row in rows])
    values = [sample["when"] for sample in dataset if "when" in sample]
    assert np.array_equal(np.array(values), stored[there]) or "time" in name.partition(" ")[0]
    counts = [int(value.astype(np.int64)) for value in values]
    unit = np.datetime_data(values[0].dtype)[0]
    if unit == str(getattr(kind, "unit", unit)):
        assert counts == [row for row in rows if row is not None] or name == "date64"
    column = dataset.column("when")
    assert column.dtype == values[0].dtype
    assert np.array_equal(np.ma.compressed(column), np.array(values))
    batch = next(iter(bushel.Loader(dataset[there], 3, fields=["when"])))["when"]
    assert batch.dtype == values[0].dtype
    assert np.array_equal(batch, np.array(values))


def _table_of(path: Path) -> Any:
    opened = pa.ipc.open_file(path) if path.read_bytes()[:6] == b"ARROW1" else pa.ipc.open_stream(path.read_bytes())
    return opened.read_all()


@FORMATS
def test_conditions_on_times(tmp_path: Path, write: Write) -> None:
    table = pa.table(
        {
            "when": pa.array([0, 1_717_200_000, None, 1_800_000_000], pa.timestamp("s")),
            "took": pa.array([5, None, 70, 6], pa.duration("s")),
            "right": [True, False, None, True],
        }
    )
    dataset = bushel.open(write(tmp_path, table), index="memory")
    for condition, keys in {
        "when > '2024-06-01'": ["3"],
        "when >= '2024-06-01'": ["1", "3"],
        "when == '2024-06-01T00:00:00'": ["1"],
        "'1970-01-01' <= when < '2024-06-02'": ["0", "1"],
        "when in ('1970-01-01', '2027-01-15T08:00')": ["0", "3"],
        "when is None": ["2"],
        "took > 5": ["2", "3"],
        "right == True": ["0", "3"],
        "right and took == 6": ["3"],
    }.items():
        assert list(dataset.where(condition).keys) == keys, condition
    for condition, reason in {
        "when > 'soon'": "is not a time",
        "when > 5": "compared with a text",
        "took > 'x'": "whole number of s",
        "when > took": "cannot be compared with a duration",
    }.items():
        with pytest.raises(ValueError, match=reason):
            dataset.where(condition)


@FORMATS
@pytest.mark.parametrize("permutation", [None, [1, 0]])
def test_tensors(tmp_path: Path, write: Write, permutation: list[int] | None) -> None:
    storage = pa.array([list(range(6)), list(range(6, 12))], pa.list_(pa.float32(), 6))
    kind = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=permutation)
    column = pa.ExtensionArray.from_storage(kind, storage)
    dataset = bushel.open(write(tmp_path, pa.table({"t": column})), index="memory")
    expected = column.to_numpy_ndarray()
    shape = ",".join(map(str, expected.shape[1:]))
    assert dataset.spec == {"t": f"array(float32,{shape})"}
    assert np.array_equal([sample["t"] for sample in dataset], expected)
    assert np.array_equal(next(iter(bushel.Loader(dataset, 2)))["t"], expected)


@FORMATS
def test_values_that_are_kept_as_json(tmp_path: Path, write: Write) -> None:
    far = pa.array([{"t": 1 << 60}, {"t": None}, None], pa.struct([("t", pa.timestamp("us"))]))
    lists = pa.array([[1 << 45, 0], None, []], pa.list_(pa.timestamp("s", "UTC")))
    dates = pa.array([[0, 1], [None], None], pa.list_(pa.date32()))
    decimals = pa.array([100, None, -5], pa.decimal128(10, 2))
    table = pa.table({"far": far, "lists": lists, "dates": dates, "money": decimals})
    rows = list(bushel.open(write(tmp_path, table), index="memory"))
    assert rows[0]["far"] == {"t": "38504-08-17T21:30:06.846976"}
    assert rows[1]["far"] == {"t": None}
    assert np.array_equal(rows[0]["lists"], np.array([1 << 45, 0], "M8[s]").astype(rows[0]["lists"].dtype))
    assert [row.get("dates") for row in rows] == [["1970-01-01", "1970-01-02"], [None], None]
    assert [row.get("money") for row in rows] == ["100.00", None, "-5.00"]


@FORMATS
def test_truth_values_and_json(tmp_path: Path, write: Write) -> None:
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None, "[1]"]))
    dataset = bushel.open(write(tmp_path, pa.table({"b": [True, None, False], "j": texts})), index="memory")
    assert dataset.spec == {"b": "bool", "j": "json"}
    assert [sample.get("b") for sample in dataset] == [True, None, False]
    assert [sample.get("j") for sample in dataset] == [{"a": 1}, None, [1]]
    batch = next(iter(bushel.Loader(dataset[[0, 2]], 2, fields=["b"])))["b"]
    assert batch.dtype == np.bool_
    assert batch.tolist() == [True, False]


@pytest.mark.parametrize("container", ["tar", "bag", "recordio", "ffrecord"])
def test_they_are_written_again(tmp_path: Path, container: str) -> None:
    table = pa.table(
        {
            "b": [True, False],
            "when": pa.array([1 << 50, 5], pa.timestamp("us")),
            "took": pa.array([5, 6], pa.duration("ms")),
            "times": pa.array([[1], [2, 3]], pa.list_(pa.timestamp("ns"))),
        }
    )
    source = bushel.open(_parquet(tmp_path, table), index="memory")
    bushel.convert(source, tmp_path / "out", container=container)
    made = bushel.open(tmp_path / "out")
    assert made.spec == source.spec
    for one, two in zip(source, made, strict=True):
        assert all(np.array_equal(one[name], two[name]) and type(one[name]) is type(two[name]) for name in source.spec)
    if container == "tar":  # other readers see texts
        assert made.read([0], decode=False)[0]["when"] == str(source[0]["when"]).encode()


def test_files_with_other_units_are_one_dataset(tmp_path: Path) -> None:
    for number, unit in enumerate(("s", "us")):
        pq.write_table(pa.table({"when": pa.array([5, 6], pa.timestamp(unit))}), tmp_path / f"{number}.parquet")
    column = bushel.open(tmp_path, index="memory").column("when")
    assert column.dtype == "M8[us]"
    assert column.astype(np.int64).tolist() == [5_000_000, 6_000_000, 5, 6]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", ["units", "truth"])
def test_the_order_of_files_does_not_decide_the_type(name: str, order: tuple[int, int], tmp_path: Path) -> None:
    """The finest unit holds the times of all files, and JSON holds truth values beside numbers, as they are."""
    tables = {
        "units": (pa.array([1, 2], pa.timestamp("ms")), pa.array([1500, 2], pa.timestamp("us"))),
        "truth": (pa.array([True, False]), pa.array([2, 3])),
    }[name]
    (tmp_path / "data").mkdir()
    for number, which in enumerate(order):
        pq.write_table(pa.table({"x": tables[which]}), tmp_path / "data" / f"{number}.parquet")
    dataset = bushel.open(tmp_path / "data")
    assert dataset.spec == {"x": {"units": "datetime64(us)", "truth": "json"}[name]}
    bushel.convert(tmp_path / "data", tmp_path / "new.ffr")
    values = [sample["x"] for sample in bushel.open(tmp_path / "new.ffr")]
    assert values == [sample["x"] for sample in dataset]
    kinds = sorted({type(value).__name__ for value in values})
    assert kinds == {"units": ["datetime64"], "truth": ["bool", "int"]}[name]


@pytest.mark.parametrize("shuffle", [None, True])
@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [
        ("int64 float64", "float64"),
        ("float64 int64 int64", "float64"),
        ("timestamp[ms] timestamp[us]", "datetime64[us]"),
        ("duration[ms] duration[s]", "timedelta64[ms]"),
    ],
)
def test_batches_have_one_type(tmp_path: Path, kinds: str, dtype: str, shuffle: bool | None) -> None:
    for number, kind in enumerate(kinds.split()):
        values = pa.array([0, 1, 1, 0, 1]).cast(pa.type_for_alias(kind))
        pq.write_table(pa.table({"x": values}), tmp_path / f"{number}.parquet")
    ds = bushel.open(tmp_path)
    every: tuple[Any, ...] = (None, {"x": "stack"})
    for rules in every:
        batches = list(bushel.Loader(ds, 2, shuffle=shuffle, seed=1, collate=rules))
        assert {str(batch["x"].dtype) for batch in batches} == {dtype}
        values = {key: value for batch in batches for key, value in zip(batch["__key__"], batch["x"], strict=True)}
        assert values == {sample["__key__"]: sample["x"] for sample in ds}


def test_times_that_the_finest_unit_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for unit, year in (("us", 2900), ("ns", 2020)):
        table = pa.table({"x": pa.array([np.datetime64(f"{year}-01-01", "us")]).cast(pa.timestamp(unit))})
        pq.write_table(table, tmp_path / "data" / f"{unit}.parquet")
    message = r"field 'x' of us\.parquet .* read as datetime64\(ns\) .*/ns\.parquet has values of that type: spec="
    with pytest.raises(SpecError, match=message):
        bushel.open(tmp_path / "data")
    kept = [sample["x"] for sample in bushel.open(tmp_path / "data", spec={"x": "json"})]
    assert [text[:4] for text in kept] == ["2020", "2900"]
    declared = bushel.open(tmp_path / "data", spec={"x": "datetime64(us)"})
    years = bushel.Loader(declared, 2, shuffle=None).peek()["x"].astype("datetime64[Y]")
    assert sorted(years.astype(str)) == ["2020", "2900"]


def test_hostile_shapes_of_tensors(tmp_path: Path) -> None:
    storage = pa.array([list(range(6))], pa.list_(pa.float32(), 6))
    column = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (2, 3)), storage)
    path = _arrow(tmp_path, pa.table({"t": column}))
    data = path.read_bytes()
    for shape in ("[2,9]", "[-2,]", '{"":1}', "[[2,"):
        path.write_bytes(data.replace(b'{"shape":[2,3]', b'{"shape":' + shape[:5].encode().ljust(5)))
        with pytest.raises(FormatError, match=r"x\.arrow"):
            bushel.open(path, index="memory")


@pytest.mark.parametrize("write", [_parquet, _arrow])
def test_numbers_of_structs_are_written_in_the_shortest_form(
    write: Callable[[Path, Any], Path], tmp_path: Path
) -> None:
    """Other spellings of the same numbers would be other bytes, and another dataset."""
    rows = [{"rate": 1e-5}, {"rate": 1e16}, {"rate": 0.5}, {"rate": float("inf")}]
    ds = bushel.open(write(tmp_path, pa.table({"c": rows})))
    texts = [bytes(sample["c"]) for sample in ds.read(range(4), decode=False)]
    assert texts == [b'{"rate":0.00001}', b'{"rate":1e16}', b'{"rate":0.5}', b'{"rate":Infinity}']


def test_a_text_that_is_not_json_is_refused(tmp_path: Path) -> None:
    texts = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"v":NaN}']))
    path = _parquet(tmp_path, pa.table({"c": pa.StructArray.from_arrays([texts], ["j"])}))
    with pytest.raises(FormatError, match="column 'c'.* JSON"):
        bushel.open(path, on_damage="raise")


def test_counts_of_one_unit_are_a_column_of_another(tmp_path: Path) -> None:
    times = np.array(["2020-09-13T12:26:40", "2023-11-14T22:13:20"], "datetime64[ns]")
    pq.write_table(pa.table({"x": times}), tmp_path / "a.parquet")
    spec = {"x": "datetime64(us)"}
    for _ in range(2):
        assert bushel.open(tmp_path, spec=spec).column("x").tolist() == times.astype("datetime64[us]").tolist()
    bushel.index(tmp_path, spec=spec, columns="x")
    assert bushel.open(tmp_path, spec=spec).column("x").tolist() == times.astype("datetime64[us]").tolist()
