"""Record batches of samples, DuckDB, and Parquet files as a source, with the real packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integrations.samples import write
from tests.sources.folders import jpeg

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
