"""Caches: what a process or a folder kept from before a removal does not show a removed sample after it."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.integrity.removed import COUNT, GONE, KEPT, keys, restore_all, write
from tests.storage.objects.range_server import Server, served
from tests.viewer.serving import client_of

import bushel
from bushel.storage.expansion_cache import expansion_cache


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    yield from served(tmp_path, monkeypatch, 60)


def all_of(source: Any, **options: Any) -> list[int]:
    """Return the labels in a dataset, after reading all that they are beside, in order, at random and by a loader."""
    dataset = bushel.open(source, **options)
    labels = [sample["label"] for sample in dataset]
    assert [sample["label"] for sample in dataset.read(range(len(dataset))[::-1])] == labels[::-1]
    assert list(dataset.keys) == keys(labels)
    batches = bushel.Loader(bushel.open(source, **options), 4, shuffle=True)
    assert sorted(label for batch in batches for label in batch["label"].tolist()) == labels
    return labels


def test_the_block_cache(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_CACHE_DIR", str(tmp_path / "cache"))
    path = write(server.folder / "data")
    assert all_of(f"{server.url}/data/") == list(range(COUNT))
    kept = list((tmp_path / "cache").glob("*/*-*"))
    assert kept
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    assert all_of(f"{server.url}/data/") == KEPT
    assert set(kept) <= set((tmp_path / "cache").glob("*/*-*"))


def test_the_cache_of_tables(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of remote files without an index are kept in a folder; the list is with the index that is made later."""
    monkeypatch.setenv("BUSHEL_TABLES_DIR", str(tmp_path / "tables"))
    shutil.rmtree(write(server.folder / "data", shard_samples=COUNT) / ".bushel")
    [shard] = (server.folder / "data").glob("*.tar")
    url = f"{server.url}/data/{shard.name}"
    assert all_of(url) == list(range(COUNT))
    assert [path for path in (tmp_path / "tables").rglob("*") if path.is_file()]
    bushel.index(url, index=tmp_path / "index").close()
    bushel.remove(url, keys=keys(GONE), reason="opt-out", index=tmp_path / "index")
    assert all_of(url, index=tmp_path / "index") == KEPT


@pytest.mark.filterwarnings("ignore:the order")  # which expands much of so small a file
def test_expanded_blocks(tmp_path: Path) -> None:
    write(tmp_path / "plain", shard_samples=COUNT)
    [plain] = (tmp_path / "plain").glob("*.tar")
    path = tmp_path / "data.tar.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    bushel.index(path).close()
    expansion_cache().clear()
    assert all_of(path) == list(range(COUNT))
    assert expansion_cache()._kept
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    assert all_of(path) == KEPT


def test_thumbnails_and_filters_of_the_viewer(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with bushel.Writer(path, {"image": "png", "label": "int"}, container="tar", sync=False) as writer:
        for number in range(COUNT):
            writer.append({"image": np.full((8, 8, 3), number, np.uint8), "label": number}, key=keys([number])[0])
    asked = ("/api/0/rows?count=100", "/api/0/rows?q=k&count=100", "/api/0/rows?where=label+>=+0&sort=-label&count=100")

    def shown() -> list[list[str]]:
        found = []
        with client_of(path) as client:
            for url in (*asked, *asked):  # the second time from what is kept
                rows = client.get(url).json()["rows"]
                pictures = [client.get(f"/d/0/thumb?i={row['position']}&f=image&side=64") for row in rows]
                assert {picture.status_code for picture in pictures} == {200}
                found.append(sorted(row["key"] for row in rows))
            assert client.get(f"/d/0/thumb?i={len(rows)}&f=image&side=64").status_code == 404
        return found

    assert shown() == [keys(range(COUNT))] * 6
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    assert shown() == [keys(KEPT)] * 6


def test_the_arrow_cache_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("datasets").config
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "arrow")
    path = write(tmp_path / "data")
    assert bushel.to_hf(bushel.open(path))["label"][:] == list(range(COUNT))
    assert bushel.to_hf(bushel.open(path))["label"][:] == list(range(COUNT))
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    assert bushel.to_hf(bushel.open(path))["label"][:] == KEPT


@pytest.mark.parametrize("options", [{"cache_index": False}, {"cache_keys": ("label", "refs")}])
def test_caches_of_granular(tmp_path: Path, options: dict[str, Any]) -> None:
    from bushel.compat import granular

    path = write(tmp_path / "data", "bag")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    with granular.ShardedDatasetReader(path, granular.decoders, **options) as reader:
        assert [reader[number]["label"] for number in range(len(reader))] == KEPT
        assert [reader[number]["label"] for number in range(len(reader))] == KEPT


def test_databases_and_memory_of_webdataset(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    import bushel.compat.webdataset as wds
    from bushel.compat.webdataset.flow import LMDBCached

    path = write(tmp_path / "data")
    shards = [str(shard) for shard in sorted(path.glob("*.tar"))]

    def seen() -> list[str]:
        stage = LMDBCached(str(tmp_path / "database"), map_size=1e8)
        found = [sample["__key__"] for sample in stage.run(wds.WebDataset(shards, shardshuffle=False))]
        assert stage.is_complete()
        stage.close()
        return found

    assert seen() == seen() == keys(range(COUNT))
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    assert seen() == keys(KEPT)
    restore_all(path)
    assert seen() == keys(range(COUNT))
