"""The index as a Parquet file: others query it, and `bushel.open` makes the dataset again from it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import run
from tests.integrations.samples import write
from tests.paths import GOLDEN

import bushel

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")

FOREIGN = sorted(path.name for path in (GOLDEN / "foreign").iterdir() if path.is_dir())
COMPRESSED = {
    *("arrayrecord-brotli", "arrayrecord-default", "arrayrecord-groups", "arrayrecord-plain", "jsonl-gz"),
    *("hf-parquet", "lerobot", "litdata-zstd", "mds-hashes", "mds-zstd", "parquet-gzip-v2-plain"),
    *("parquet-snappy-v1-dictionary", "parquet-zstd-v2-dictionary", "tfrecord-gzip", "zip-deflated"),
}


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(np.array_equal(one, other))


def check_same(again: bushel.Dataset, dataset: bushel.Dataset) -> None:
    assert again.fingerprint == dataset.fingerprint
    assert (again.spec, again.labels, list(again.keys)) == (dataset.spec, dataset.labels, list(dataset.keys))
    stored = dataset.read(range(len(dataset)), decode=False)
    assert equal(again.read(range(len(dataset)), decode=False), stored)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_the_dataset_is_made_again(tmp_path: Path, container: str) -> None:
    dataset = write(tmp_path / "data", container=container)
    file = dataset.export_index(tmp_path / "data.parquet")
    again = bushel.open(file)
    check_same(again, dataset)
    check_same(pickle.loads(pickle.dumps(again)), dataset)
    assert again.columns == dataset.columns
    assert equal(again[3], dataset[3])
    assert again.where("label == 2").keys[0] == "k2"
    assert not again.info.indexed
    assert equal([*bushel.Loader(again, 4)], [*bushel.Loader(dataset, 4)])
    rows = pq.read_table(file).to_pylist()
    for row, sample in zip(rows, dataset.read(range(len(dataset)), decode=False), strict=True):
        place = row["image"]
        data = (tmp_path / place["uri"]).read_bytes()[place["offset"] : place["offset"] + place["size"]]
        assert data == sample["image"]
        assert place["content_type"] == "image/jpeg"
        assert place["checksum"] == f"CRC32:{zlib.crc32(data):08x}"


@pytest.mark.parametrize("name", FOREIGN)
def test_containers_of_others(tmp_path: Path, name: str) -> None:
    shutil.copytree(GOLDEN / "foreign" / name, tmp_path / name)
    own = sorted((tmp_path / name).glob("*.npy")) or tmp_path / name
    try:
        dataset = bushel.open(own, index="memory")
    except bushel.MissingPackageError as error:
        pytest.skip(str(error))
    if name in COMPRESSED:
        with pytest.raises(bushel.UnsupportedError, match="bushel convert"):
            dataset.export_index(tmp_path / "index.parquet")
        assert os.listdir(tmp_path) == [name]
        return
    check_same(bushel.open(dataset.export_index(tmp_path / "index.parquet")), dataset)


def test_keys_that_are_not_utf8_and_samples_without_keys(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a", {"x": "int"}, container="bag", shard_samples=2) as writer:
        for number in range(5):
            writer.append({"x": number})
    check_same(
        bushel.open(bushel.open(tmp_path / "a").export_index(tmp_path / "a.parquet")), bushel.open(tmp_path / "a")
    )
    with bushel.Writer(tmp_path / "b", {"x": "int"}, container="tar") as writer:
        writer.append({"x": 1}, key="caf\udce9")
        writer.append({"x": 2}, key="plain")
    check_same(
        bushel.open(bushel.open(tmp_path / "b").export_index(tmp_path / "b.parquet")), bushel.open(tmp_path / "b")
    )


def test_removed_samples_are_not_in_it(tmp_path: Path) -> None:
    dataset = write(tmp_path / "data", container="tar")
    before = dataset.export_index(tmp_path / "before.parquet")
    bushel.remove(tmp_path / "data", keys=["k3", "k9"], reason="opt-out")
    dataset = bushel.open(tmp_path / "data")
    after = dataset.export_index(tmp_path / "after.parquet")
    assert pq.read_table(after)["__key__"].to_pylist() == list(dataset.keys)
    for file in (before, after):
        check_same(bushel.open(file), dataset)
    bushel.remove(tmp_path / "data", keys=["k0"], reason="later")
    for file in (before, after):
        check_same(bushel.open(file), bushel.open(tmp_path / "data"))
    bushel.restore(tmp_path / "data")
    bushel.restore(tmp_path / "data")
    assert len(bushel.open(before)) == 10
    assert bushel.open(after).fingerprint == dataset.fingerprint


def test_a_file_elsewhere_needs_the_folder_of_the_data(tmp_path: Path) -> None:
    dataset = write(tmp_path / "data" / "own", container="tar")
    file = dataset.export_index(tmp_path / "elsewhere" / "index.parquet")
    with pytest.raises(bushel.FormatError, match=r"not below the folder of this file .*index="):
        bushel.open(file)
    check_same(bushel.open(tmp_path / "data" / "own", index=file), dataset)
    shutil.copytree(tmp_path / "data" / "own", tmp_path / "copy")
    check_same(bushel.open(tmp_path / "copy", index=str(file)), dataset)
    (tmp_path / "copy" / "shard-000000.tar").write_bytes(b"other")
    with pytest.raises(bushel.FormatError, match="changed since the index was exported"):
        bushel.open(tmp_path / "copy", index=file)


def test_what_is_not_exported(tmp_path: Path) -> None:
    dataset = write(tmp_path / "data", container="tar")
    other = write(tmp_path / "other").fields(["label"])
    joined = bushel.join(dataset.fields(["image"]), other, on="key")
    for view in (dataset[2:], dataset.windows("tags", 1), joined):
        with pytest.raises(bushel.UnsupportedError, match="is not exported"):
            view.export_index(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="read as data"):
        dataset.export_index(tmp_path / "data" / "x.parquet")
    with pytest.raises(ValueError, match=r"ends in \.parquet"):
        dataset.export_index(tmp_path / "x.csv")
    check_same(bushel.open(dataset.fields(["label"]).export_index(tmp_path / "x.parquet")), dataset.fields(["label"]))


def test_duckdb_and_polars_query_it(tmp_path: Path) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    file = write(tmp_path / "data", container="tar").export_index(tmp_path / "data.parquet")
    query = f"SELECT label, count(*), sum(image.size) FROM '{file}' GROUP BY label ORDER BY label"
    found = duckdb.sql(query).fetchall()
    assert [(label, count) for label, count, _ in found] == [(0, 4), (1, 3), (2, 3)]
    frame = polars.read_parquet(file)
    sizes = frame.group_by("label").agg(polars.col("image").struct.field("size").sum()).sort("label")["size"]
    assert sizes.to_list() == [size for _, _, size in found]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = write(tmp_path / "data", container="tar")
    assert "train.parquet: the index of 10 samples" in run("index", "data", "--export", "train.parquet")
    check_same(bushel.open("train.parquet"), dataset)
    assert json.loads(run("info", "train.parquet", "--json"))["fingerprint"] == dataset.fingerprint


Change = Callable[[dict[str, Any], list[dict[str, Any]]], None]


def head(**values: Any) -> Change:
    return lambda metadata, _: metadata.update(values)


def shard(**values: Any) -> Change:
    return lambda metadata, _: metadata["shards"][0].update(values)


def image(**values: Any) -> Change:
    return lambda _, rows: rows[2]["image"].update(values)


def put_file(name: str) -> Change:
    def change(metadata: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        metadata["shards"][0]["files"][0][0] = name
        for row in rows[:6]:
            row["image"]["uri"] = f"data/{name}"

    return change


FORGED: dict[str, tuple[Change, str]] = {
    "a uri of another file": (image(uri="/etc/passwd"), "does not name a file of its shard"),
    "a uri that leads out": (image(uri="data/../../x"), "does not name a file of its shard"),
    "a file that leads out": (put_file("../secret"), "in its folder"),
    "an absolute file": (put_file("/etc/passwd"), "in its folder"),
    "a URL as a file": (put_file("https://example.com/x"), "in its folder"),
    "a folder that leads out": (shard(folder="../.."), "not the name of a file in this folder"),
    "a base that leads out": (head(base="../x"), "not below the folder of this file"),
    "sidecars elsewhere": (shard(sidecars="../.bushel"), "not a folder of sidecars"),
    "an offset after the end": (image(offset=1 << 40), "are not in"),
    "a negative offset": (image(offset=-1), "are not in"),
    "a size beyond the end": (image(size=1 << 62), "are not in"),
    "a negative size": (image(size=-1), "are not in"),
    "no offset": (image(offset=None), "neither 'offset' nor 'inline'"),
    "another number of samples": (shard(samples=7), "rows for"),
    "very many samples": (shard(samples=1 << 41), "not an exported index"),
    "a negative number": (shard(samples=-1), "not an exported index"),
    "no files": (shard(files=[]), "no files"),
    "another version": (head(version=2), "version 2"),
    "an unknown container": (head(container="nonsense"), "not an exported index"),
    "a field without a column": (lambda metadata, _: metadata["fields"].append(["other", "int", "int"]), "other"),
    "a type that is none": (head(fields=[["image", "jpg[[", "jpg"]]), "not an exported index"),
    "removed ones": (head(removed=3), "rows for"),
}


@pytest.mark.parametrize("name", FORGED)
def test_nothing_in_it_is_trusted(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / "data", container="tar").export_index(tmp_path / "data.parquet")
    (tmp_path / "secret").write_bytes((tmp_path / "data" / "shard-000000.tar").read_bytes())
    forge(file, FORGED[name][0])
    with pytest.raises(bushel.FormatError, match=FORGED[name][1]):
        bushel.open(file)


def forge(file: Path, change: Change) -> None:
    table = pq.read_table(file)
    rows, metadata = table.to_pylist(), json.loads(table.schema.metadata[b"bushel.index"])
    change(metadata, rows)
    forged = pa.Table.from_pylist(rows, schema=table.schema.with_metadata({"bushel.index": json.dumps(metadata)}))
    pq.write_table(forged, file)


def test_a_file_that_was_moved_without_its_data_names_the_argument(tmp_path: Path) -> None:
    file = write(tmp_path / "data", container="tar").export_index(tmp_path / "data.parquet")
    (tmp_path / "moved").mkdir()
    moved = file.rename(tmp_path / "moved" / "data.parquet")
    with pytest.raises(bushel.FormatError, match=r"is missing \(put it back; .*bushel\.open\(DATA, index='.*moved"):
        bushel.open(moved)
    assert len(bushel.open(tmp_path / "data", index=moved)) == len(bushel.open(tmp_path / "data"))


def test_unknown_checksums_are_ignored(tmp_path: Path) -> None:
    file = write(tmp_path / "data", container="tar").export_index(tmp_path / "data.parquet")
    forge(file, image(checksum="MD5:d41d8cd98f00b204e9800998ecf8427e"))
    again = bushel.open(file)
    assert again.shards[0].index.fields["image"].crc32 is None
    assert again.shards[1].index.fields["image"].crc32 is not None
    forge(file, image(checksum="CRC32:00000000"))
    with pytest.raises(bushel.CorruptError):
        bushel.open(file, verify=True)[2]


def test_damaged_files_and_plain_parquet_files(tmp_path: Path) -> None:
    dataset = write(tmp_path / "data", container="tar")
    file = dataset.export_index(tmp_path / "data.parquet")
    data = file.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")  # the footer, which follows, has no checksum
    for at in range(4, end, max(end // 60, 1)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with suppress(bushel.FormatError):
            check_same(bushel.open(file, verify=True), dataset)
    pq.write_table(pa.table({"x": [1, 2], "text": ["bushel.index", "b"]}), file)
    assert len(bushel.open(file)) == 2
    with pytest.raises(bushel.FormatError, match="footer has no"):
        bushel.open(tmp_path / "data", index=file)
