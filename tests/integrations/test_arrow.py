"""Record batches of samples, DuckDB, and Parquet files as a source, with the real packages."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from tests.integrations.samples import write
from tests.sources.folders import jpeg

import bushel

pa = pytest.importorskip("pyarrow")
arrow = pytest.importorskip("bushel.integrations.arrow")


def test_a_stream_has_all_values(tmp_path: Path) -> None:
    ds = write(tmp_path / "train")
    stream = arrow.ArrowStream(ds, batch_samples=4)
    for _ in range(2):  # it can be read again
        table = stream.reader().read_all()
        assert table.num_rows == len(stream) == 10
        assert table["__key__"].to_pylist() == list(ds.keys)
        assert table["image"].to_pylist() == [jpeg(number) for number in range(10)]
        assert table["label"].to_pylist() == [number % 3 for number in range(10)]
        assert [json.loads(text) for text in table["meta"].to_pylist()] == [{"number": number} for number in range(10)]
        assert table["tags"].to_pylist()[:4] == [[], ["a"], ["a", "a"], []]
    assert [batch.num_rows for batch in stream.reader()] == [4, 4, 2]


def test_other_packages_read_it_by_the_capsule_interface(tmp_path: Path) -> None:
    ds = write(tmp_path / "train")
    assert pa.table(arrow.ArrowStream(ds, ["caption"])).column_names == ["__key__", "caption"]
    dataset = pytest.importorskip("pyarrow.dataset")
    scanner = dataset.Scanner.from_batches(
        arrow.ArrowStream(ds, ["label"]).reader(), filter=dataset.field("label") == 2
    )
    assert scanner.to_table()["__key__"].to_pylist() == ["k2", "k5", "k8"]


def test_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    from bushel.integrations.duckdb import register

    ds = write(tmp_path / "train")
    with duckdb.connect() as connection:
        register(connection, "train", ds)
        query = "SELECT label, count(*) FROM train GROUP BY label ORDER BY label"
        assert connection.execute(query).fetchall() == [(0, 4), (1, 3), (2, 3)]
        assert connection.execute(query).fetchall() == [(0, 4), (1, 3), (2, 3)]
        [(length,)] = connection.execute("SELECT sum(image.length) FROM train_index").fetchall()
        assert length == sum(len(jpeg(number)) for number in range(10))
        by_size = "ORDER BY train_index.image.length DESC LIMIT 1"
        joined = f"SELECT train.caption FROM train JOIN train_index USING (__key__) {by_size}"
        longest = max(range(10), key=lambda number: len(jpeg(number)))
        assert connection.execute(joined).fetchall() == [(f"photo {longest}",)]
        register(connection, "photos", ds, ["image"])
        assert connection.execute("SELECT image FROM photos LIMIT 1").fetchone() == (jpeg(0),)


def test_parquet_files_are_a_source(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow.dataset

    (tmp_path / "parquet").mkdir()
    for file in range(2):
        numbers = range(file * 5, file * 5 + 5)
        images = [{"bytes": jpeg(number), "path": None} for number in numbers]
        texts = [None if number == 3 else f"t{number}" for number in numbers]
        rows = {"id": [f"k{number}" for number in numbers], "image": images, "text": texts}
        parquet.write_table(pa.table(rows), tmp_path / f"parquet/{file}.parquet", row_group_size=2)
    source = arrow.ArrowSource(pyarrow.dataset.dataset(tmp_path / "parquet"), key="id")
    assert len(source._pieces) == 6
    copy = pickle.loads(pickle.dumps(arrow.ArrowSource(pa.table({"a": [1, 2]}))))
    assert copy[1] == {"a": 2}
    done = bushel.pack(source, tmp_path / "out", container="tar", threads=2)
    assert done.samples == 10
    packed = bushel.open(tmp_path / "out")
    assert list(packed.keys) == [f"k{number}" for number in range(10)]
    assert packed.spec == {"image": "jpg", "text": "utf8"}
    assert [sample.get("text") for sample in packed] == [None if number == 3 else f"t{number}" for number in range(10)]
    assert bytes(packed.read([9], decode=False)[0]["image"]) == jpeg(9)


def test_sources_refuse_what_is_missing() -> None:
    table = pa.table({"a": [1]})
    with pytest.raises(bushel.errors.SpecError, match="unknown column 'b'; the columns are a"):
        arrow.ArrowSource(table, key="b")
    with pytest.raises(bushel.errors.SpecError, match="without rows"):
        arrow.ArrowSource(table.slice(0, 0))
    with pytest.raises(IndexError):
        arrow.ArrowSource(table)[1]
