"""Datasets of more than a thousand shards: opened by their list of shards, with the same result as without it."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import bushel
from bushel._dataset.read import listed
from bushel._dataset.read.listed import write_manifest
from bushel._dataset.read.shards import Listing, OpenShard
from bushel._index.saving import save_index, sealed
from bushel._index.shard import Shard
from bushel._index.shard_list import NAME
from bushel._index.sidecar import load_index
from bushel.errors import FormatError

SHARDS = 1010
LONG_AGO = 1_700_000_000


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of many shards, made of two: the others are copies with other names."""
    root = tmp_path_factory.mktemp("listed") / "many"
    labels = {"label": ["no", "yes"]}
    with bushel.Writer(root, {"data": "bytes", "label": "cls"}, container="tar", shard_samples=3, labels=labels) as out:
        for number in range(5):
            out.append({"data": b"x" * number, "label": number % 2}, key=f"key{number}")
    tables = [load_index(path) for path in sorted((root / ".bushel").glob("*.safetensors"))]
    files = sorted(root.glob("*.tar"))
    shards = []
    for number in range(SHARDS):
        path = root / f"train-{number:06}.tar"
        shutil.copyfile(files[number % 2], path)
        stamp = replace(tables[number % 2].files[0], name=path.name, mtime_ns=path.stat().st_mtime_ns)
        index = replace(tables[number % 2], files=(stamp,))
        shard = Shard(root, path.name, (path.name,))
        save_index(index, shard.sidecar, sync=False)
        shards.append(OpenShard.of("tar", shard, index, stored=True))
    for path in (*files, *(Path(str(root / ".bushel" / path.name) + ".safetensors") for path in files)):
        path.unlink()
    write_manifest(shards, sync=False)
    age(root)
    return root


@pytest.fixture
def many(original: Path) -> Iterator[Path]:
    yield original
    (original / ".bushel" / NAME).unlink(missing_ok=True)
    age(original)


def age(root: Path, seconds: int = 0) -> None:
    """Let the folder and its manifest be as if they changed long ago."""
    for path in (root / ".bushel" / "manifest.json", root):
        os.utime(path, (LONG_AGO + seconds, LONG_AGO + seconds))


def is_listed(dataset: bushel.Dataset) -> bool:
    return isinstance(dataset.shards, Listing)


def test_the_second_open_uses_the_table(many: Path) -> None:
    first, second = bushel.open(many), bushel.open(many)
    assert not is_listed(first)
    assert is_listed(second)
    assert len(second) == len(first) == SHARDS // 2 * 5
    for name in ("spec", "info", "size", "remote", "labels", "fingerprint"):
        assert getattr(second, name) == getattr(first, name), name
    assert repr(second) == repr(first)
    positions = np.random.default_rng(0).integers(0, len(first), 300)
    assert second.read(positions) == first.read(positions)
    assert second[-1] == first[-1]
    assert second.keys[7:19] == first.keys[7:19]
    assert second.position("key3") == first.position("key3") == 3
    assert "no such key" not in second
    assert [shard.stamps for shard in second.shards] == [shard.stamps for shard in first.shards]
    assert second.location(77, "data") == first.location(77, "data")
    assert len(bushel.concat([second, second[:5]])) == len(first) + 5
    loaders = [bushel.Loader(each, batch_size=50, shuffle=True, seed=3, threads=1) for each in (first, second)]
    for mine, its in zip(*loaders, strict=True):
        assert mine["__key__"] == its["__key__"]
        assert mine["data"] == its["data"]


def test_a_copy_in_another_process_reads_by_the_table(many: Path) -> None:
    whole = bushel.open(many)
    copy = pickle.loads(pickle.dumps(bushel.open(many)))
    assert is_listed(copy)
    assert copy.read([5, 900, 33]) == whole.read([5, 900, 33])


def test_verify_and_containers_are_as_requested(many: Path) -> None:
    bushel.open(many)
    assert is_listed(bushel.open(many, verify=True))
    assert bushel.open(many, verify=True)[11] == bushel.open(many)[11]
    assert is_listed(bushel.open(many, container="tar"))
    with pytest.raises(FormatError):
        bushel.open(many, container="bag")
    with pytest.raises(ValueError, match="on_damage must be"):
        bushel.open(many, on_damage="perhaps")  # type: ignore[arg-type]


def test_no_table_is_stored_after_a_recent_change_or_for_memory_only(many: Path) -> None:
    table = many / ".bushel" / NAME
    bushel.open(many, index="memory")
    assert not table.exists()
    now = time.time_ns()
    os.utime(many, ns=(now, now))
    bushel.open(many)
    assert not table.exists()


def test_a_changed_folder_is_looked_at(many: Path) -> None:
    bushel.open(many)
    assert is_listed(bushel.open(many))
    added = many / "train-999999.tar"
    shutil.copyfile(many / "train-000000.tar", added)
    try:
        with pytest.warns(bushel.errors.IncompleteWarning, match="not listed in the manifest"):
            whole = bushel.open(many)
        assert not is_listed(whole)
        assert len(whole) == SHARDS // 2 * 5
    finally:
        added.unlink()
        (many / ".bushel" / "train-999999.tar.safetensors").unlink(missing_ok=True)


def test_a_changed_manifest_is_read(many: Path) -> None:
    bushel.open(many)
    manifest = many / ".bushel" / "manifest.json"
    text = manifest.read_text()
    try:
        manifest.write_bytes(sealed(text.replace('"yes"', '"nay"').encode()))
        assert bushel.open(many).labels["label"] == ("no", "nay")
    finally:
        manifest.write_text(text)


def test_an_incomplete_dataset_is_reported(many: Path) -> None:
    bushel.open(many)
    staging = many / ".bushel" / "staging"
    (staging / "begun").mkdir(parents=True)
    try:
        with pytest.warns(bushel.errors.IncompleteWarning):
            assert not is_listed(bushel.open(many))
    finally:
        shutil.rmtree(staging)


def test_a_damaged_table_is_not_used(many: Path) -> None:
    expected = bushel.open(many).info
    table = many / ".bushel" / NAME
    good, draw = table.read_bytes(), random.Random(0)
    for number in range(12):
        changed = bytearray(good)
        at = draw.randrange(8 if number % 3 == 0 else 600 if number % 3 == 1 else len(good))
        changed[at] ^= 1 << draw.randrange(8)
        table.write_bytes(changed if number else good[:-5])
        found = bushel.open(many)
        assert found.info == expected, at
    assert b"yes" in good
    table.write_bytes(good.replace(b"yes", b"yet"))  # names and types have a checksum, too
    assert bushel.open(many).labels == {"label": ("no", "yes")}
    table.write_bytes(b"")
    assert bushel.open(many).info == expected


def test_a_file_that_changed_is_found_when_it_is_read(many: Path) -> None:
    bushel.open(many)
    path = many / "train-000100.tar"
    before, times = path.read_bytes(), path.stat()
    try:
        path.write_bytes(before + bytes(512))
        dataset = bushel.open(many)
        assert is_listed(dataset)
        assert dataset[0] == bushel.open(many)[0]
        with pytest.raises(FormatError, match="has changed"):
            dataset[250]
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_few_tables_stay_mapped(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bushel.open(many)
    monkeypatch.setattr(listed, "_HELD", 20)
    dataset = bushel.open(many)
    positions = np.random.default_rng(1).permutation(len(dataset))[:400]
    assert dataset.read(positions) == whole.read(positions)
    shards = dataset.shards
    assert isinstance(shards, listed.ListedShards)
    assert shards._shard.cache_info().currsize == 20
