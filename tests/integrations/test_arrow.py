"""Values and the index in DuckDB, with the real packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integrations.samples import write
from tests.sources.folders import jpeg

import bushel

pa = pytest.importorskip("pyarrow")


def test_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    ds = write(tmp_path / "train")
    with duckdb.connect() as connection:
        connection.register("train", pa.Table.from_pylist(ds.read(range(len(ds)), ["label", "caption"])))
        connection.register("train_index", ds.to_arrow())
        query = "SELECT label, count(*) FROM train GROUP BY label ORDER BY label"
        assert connection.execute(query).fetchall() == [(0, 4), (1, 3), (2, 3)]
        [(length,)] = connection.execute("SELECT sum(image.length) FROM train_index").fetchall()
        assert length == sum(len(jpeg(number)) for number in range(10))
        by_size = "ORDER BY train_index.image.length DESC LIMIT 1"
        joined = f"SELECT train.caption FROM train JOIN train_index USING (__key__) {by_size}"
        longest = max(range(10), key=lambda number: len(jpeg(number)))
        assert connection.execute(joined).fetchall() == [(f"photo {longest}",)]


def test_tables_from_the_cache_of_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    ds = write(tmp_path / "train")
    table = bushel.to_hf(ds.select_fields(["image", "caption"])).data.table
    assert table.column_names == ["__key__", "image", "caption"]
    assert [image["bytes"] for image in table["image"].to_pylist()] == [jpeg(number) for number in range(10)]
    assert table["__key__"].to_pylist() == list(ds.keys)
