"""Values of every type of Parquet and Arrow, as pyarrow, polars, pandas and duckdb write and read them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

pytestmark = pytest.mark.interop

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

MOMENT = datetime(2024, 6, 1, 12, 30, 15, 250_000)
COLUMNS: Mapping[str, tuple[Any, list[Any]]] = {
    "bool": (pa.bool_(), [True, None, False]),
    "int8": (pa.int8(), [-128, None, 127]),
    "uint64": (pa.uint64(), [0, None, (1 << 64) - 1]),
    "int64": (pa.int64(), [-(1 << 63), None, (1 << 63) - 1]),
    "float16": (pa.float16(), [0.5, None, -2.0]),
    "float32": (pa.float32(), [0.5, None, float("inf")]),
    "float64": (pa.float64(), [0.1, None, -1e300]),
    "text": (pa.string(), ["", None, "é\n"]),
    "large text": (pa.large_string(), ["a", None, "bc"]),
    "text view": (pa.string_view(), ["a", None, "a text that is longer than twelve bytes"]),
    "binary": (pa.binary(), [b"\x00\xff", None, b""]),
    "large binary": (pa.large_binary(), [b"a", None, b"bc"]),
    "fixed binary": (pa.binary(3), [b"abc", None, b"\x00\x01\x02"]),
    "date32": (pa.date32(), [date(1969, 12, 31), None, date(2024, 6, 1)]),
    "date64": (pa.date64(), [date(1969, 12, 31), None, date(2024, 6, 1)]),
    "time32": (pa.time32("ms"), [time(0), None, time(23, 59, 59, 999_000)]),
    "time64": (pa.time64("us"), [time(0), None, time(23, 59, 59, 999_999)]),
    "timestamp s": (pa.timestamp("s"), [datetime(1960, 1, 1), None, MOMENT.replace(microsecond=0)]),
    "timestamp us": (pa.timestamp("us"), [datetime(1960, 1, 1), None, MOMENT]),
    "timestamp ns": (pa.timestamp("ns"), [datetime(1960, 1, 1), None, MOMENT]),
    "timestamp with a zone": (pa.timestamp("us", "UTC"), [MOMENT.replace(tzinfo=UTC), None, None]),
    "duration": (pa.duration("us"), [timedelta(days=-1), None, timedelta(seconds=1.5)]),
    "decimal": (pa.decimal128(9, 2), [Decimal("-12.30"), None, Decimal("0.01")]),
    "wide decimal": (pa.decimal256(50, 3), [Decimal("123456789012345678901234567890.125"), None, Decimal("0.500")]),
    "list": (pa.list_(pa.int64()), [[1, 2], None, []]),
    "list with nulls": (pa.list_(pa.int64()), [[1, None], None, [3]]),
    "large list": (pa.large_list(pa.float32()), [[0.5], None, []]),
    "fixed list": (pa.list_(pa.float32(), 2), [[0.5, 1.5], [2.5, 3.5], [0.0, 0.0]]),
    "list of texts": (pa.list_(pa.string()), [["a", None], None, []]),
    "list of lists": (pa.list_(pa.list_(pa.int32())), [[[1], []], None, [[2, 3]]]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.string()), ("when", pa.timestamp("us")), ("data", pa.binary())]),
        [{"a": 1, "b": None, "when": MOMENT, "data": b"\xff"}, None, {"a": None, "b": "x", "when": None, "data": None}],
    ),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], None, []]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"]),
    "json": (pa.json_(), ['{"a": [1, null]}', None, "3"]),
    "null": (pa.null(), [None, None, None]),
}
UNITS = {"date32": "D", "date64": "ms", "time32": "ms", "time64": "us"}


def plain(value: Any) -> Any:
    """Return a value of pyarrow as it comes out: numbers and texts as they are, what is inside others as JSON."""
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "asm8"):  # pandas' class of times, for nanoseconds
        return value.asm8
    if isinstance(value, dict):
        return {name: inside(each) for name, each in value.items()}
    if isinstance(value, list):
        return [inside(each) for each in value]
    if isinstance(value, time):
        return np.timedelta64(((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond, "us")
    if isinstance(value, datetime):
        return np.datetime64(value.replace(tzinfo=None), "us")
    if isinstance(value, date):
        return np.datetime64(value, "D")
    if isinstance(value, timedelta):
        return np.timedelta64(value)
    return value


def inside(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, tuple):
        return [inside(each) for each in value]
    return plain(value)


def as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) and value.ndim else value


def assert_same(dataset: bushel.Dataset, column: str, values: list[Any]) -> None:
    """Compare samples, many read at once, and the column of a table with values of pyarrow; nulls are missing."""
    wanted = [plain(value) for value in values]
    for samples in (list(dataset), dataset.read(range(len(wanted)))):
        found = [as_list(sample.get(column)) for sample in samples]
        assert found == wanted, column
    assert [column in sample for sample in dataset] == [value is not None for value in wanted]


def parquet(path: Path, table: Any) -> Path:
    pq.write_table(table, path / "x.parquet")
    return path / "x.parquet"


def arrow(path: Path, table: Any) -> Path:
    with pa.ipc.new_file(path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    return path / "x.arrow"


def stream(path: Path, table: Any) -> Path:
    with pa.ipc.new_stream(path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    return path / "x.arrow"


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("write", [parquet, arrow, stream])
def test_pyarrow(write: Callable[[Path, Any], Path], name: str, tmp_path: Path) -> None:
    type_, values = COLUMNS[name]
    try:
        table = pa.table({"x": pa.array(values, type_), "n": [0, 1, 2]})
        path = write(tmp_path, table)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, TypeError) as error:
        pytest.skip(f"pyarrow does not write it: {error}")
    if name == "json":
        values = [{"a": [1, None]}, None, 3]
    assert_same(bushel.open(path), "x", values)


def test_tensors(tmp_path: Path) -> None:
    tensors = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    table = pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(tensors)})
    for number, write in enumerate((parquet, arrow)):
        (tmp_path / str(number)).mkdir()
        dataset = bushel.open(write(tmp_path / str(number), table))
        assert np.array_equal(np.stack([sample["x"] for sample in dataset]), tensors)
        [batch] = bushel.Loader(dataset, 4, fields=["x"])
        assert np.array_equal(batch["x"], tensors)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_polars(suffix: str, name: str, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    type_, values = COLUMNS[name]
    path = tmp_path / f"x.{suffix}"
    if name == "wide decimal":
        pytest.skip("polars has no decimals of 256 bits, and panics")
    try:
        frame = polars.from_arrow(pa.table({"x": pa.array(values, type_), "n": [0, 1, 2]}))
        frame.write_parquet(path) if suffix == "parquet" else frame.write_ipc(path)
    except Exception as error:  # polars and pyarrow name no set of errors for types that polars lacks
        pytest.skip(f"polars does not write it: {error}")
    table = pq.read_table(path) if suffix == "parquet" else pa.ipc.open_file(path).read_all()
    stored = table["x"].to_pylist()
    if suffix == "arrow" and "arrow.json" in str(table["x"].type):  # polars writes no JSON type to Parquet itself
        stored = [None if text is None else json.loads(text) for text in stored]
    assert_same(bushel.open(path), "x", stored)


@pytest.mark.parametrize("name", COLUMNS)
def test_pandas(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    type_, values = COLUMNS[name]
    path = tmp_path / "x.parquet"
    try:
        pa.table({"x": pa.array(values, type_), "n": [0, 1, 2]}).to_pandas().to_parquet(path)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, TypeError, ValueError, OverflowError) as error:
        pytest.skip(f"pandas does not write it: {error}")
    assert_same(bushel.open(path), "x", pq.read_table(path)["x"].to_pylist())


@pytest.mark.parametrize(
    "value",
    [
        *("true", "1::TINYINT", "-1::HUGEINT", "18446744073709551615::UBIGINT", "1.5::FLOAT", "0.1::DOUBLE", "'é'"),
        *("'\\xFF'::BLOB", "DATE '2024-06-01'", "TIME '23:59:59.5'", "TIMESTAMP '1960-01-01 00:00:00.25'"),
        *(
            "TIMESTAMP_NS '2024-06-01 00:00:00.000000001'",
            "TIMESTAMPTZ '2024-06-01 12:00:00+02'",
            "1.25::DECIMAL(9, 2)",
        ),
        *("[1, NULL, 3]", "[['a'], NULL]", "{'a': 1, 'b': [1.5]}", "MAP {'a': 1}", "'a'::ENUM('a', 'b')"),
    ],
)
def test_duckdb(value: str, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "x.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {value} AS x, 0 AS n UNION ALL SELECT NULL, 1 ORDER BY n) TO '{path}' (FORMAT parquet)"
        )
    assert_same(bushel.open(path), "x", pq.read_table(path)["x"].to_pylist())
