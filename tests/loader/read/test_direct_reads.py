"""Loaders whose epochs are larger than the memory: the same batches, read past the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.paths import folder_in_memory, folder_on_disk

import bushel
from bushel.errors import CorruptError, FormatError
from bushel.kernels import MappedFile
from bushel.loader import Loader
from bushel.loader.read.costs import read_directly
from bushel.transforms import RandomResizedCrop

SAMPLES = 60


def written(folder: Path, container: str = "tar") -> bushel.Dataset:
    """Return a dataset of texts, numbers and bytes of some pages."""
    rng = np.random.default_rng(0)
    spec = {"data": "bytes"} if container == "recordio" else {"data": "bytes", "text": "utf8", "label": "int"}
    with bushel.Writer(folder, spec, container=container) as writer:
        for number in range(SAMPLES):
            sample = {"data": rng.bytes(5000 + 100 * number), "text": "ä" * number, "label": number}
            writer.append({name: sample[name] for name in spec})
    return bushel.open(folder)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_on_disk() as folder:
        yield folder


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let datasets of more than 300 kB be larger than the memory."""
    monkeypatch.setattr("bushel.loader.read.costs.memory_limit", lambda: 100_000)
    (tmp_path / "x").write_bytes(bytes(5000))
    if MappedFile(tmp_path / "x").direct() is None:
        pytest.skip("the file system of temporary files does not offer direct reads")


def is_direct(loader: Loader) -> bool:
    """Return whether a loader reads its files directly."""
    source: Any = loader._pipeline.source
    return bool(source.dataset.reader.pool.direct)


def batches(loader: Loader) -> list[Any]:
    """Return the batches of an epoch in a form that can be compared."""
    return [{name: np.asarray(value).tolist() for name, value in batch.items()} for batch in loader]


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "recordio"])
@pytest.mark.parametrize("shuffle", [True, "blocks", False])
def test_batches_are_the_same(small_memory: None, tmp_path: Path, container: str, shuffle: Any) -> None:
    ds = written(tmp_path / "data", container)
    for options in ({"threads": 2}, {"threads": 0}, {"fields": ["data"], "decode": False}, {"sample_transform": dict}):
        direct = Loader(ds, 8, shuffle=shuffle, **options)
        assert is_direct(direct)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("bushel.loader.read.costs.memory_limit", lambda: 1 << 40)
            usual = Loader(ds, 8, shuffle=shuffle, **options)
        assert not is_direct(usual)
        for _ in range(2):
            assert batches(direct) == batches(usual)


def test_worker_processes(small_memory: None, tmp_path: Path) -> None:
    ds = written(tmp_path / "data")
    loader = Loader(ds, 8, shuffle=True, processes=1)
    assert is_direct(loader)
    assert sorted(label for batch in loader for label in batch["label"].tolist()) == list(range(SAMPLES))


def test_images(small_memory: None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with bushel.Writer(tmp_path / "data", {"image": "jpg"}, container="tar") as writer:
        for _ in range(SAMPLES):
            writer.append({"image": rng.integers(0, 256, (96, 128, 3), np.uint8)})
    ds = bushel.open(tmp_path / "data")
    loader = Loader(ds, 8, shuffle=True, transforms=RandomResizedCrop(24))
    assert is_direct(loader)
    assert batches(loader) == batches(Loader(ds[:], 8, shuffle=True, transforms=RandomResizedCrop(24), threads=0))


def test_epochs_that_fit_are_read_through_the_page_cache(small_memory: None, tmp_path: Path) -> None:
    ds = written(tmp_path / "data")
    for fits in (Loader(ds[:20], 4), Loader(ds, 4, fields=["label"]), Loader(ds, 4, fields=["text"])):
        assert not is_direct(fits)
    assert is_direct(Loader(ds, 4))
    assert is_direct(Loader(ds, 4, fields=["data"]))
    ds.read([1])
    assert not ds.reader.pool.direct  # other reads of the dataset are as they were


def test_all_memory_of_the_machine_counts(tmp_path: Path) -> None:
    assert not is_direct(Loader(written(tmp_path / "data"), 4))


def test_what_is_no_dataset_of_files(small_memory: None) -> None:
    other = [1, 2, 3]
    assert read_directly(other, None, decode=True) is other


def test_file_systems_without_direct_reads(small_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with folder_in_memory() as folder:
        loader = Loader(written(folder), 8)
        assert not is_direct(loader)
        assert [label for batch in loader for label in batch["label"].tolist()] == list(range(SAMPLES))


def test_files_that_shrink(small_memory: None, tmp_path: Path) -> None:
    ds = written(tmp_path / "data")
    loader = Loader(ds, 8, fields=["data"], threads=2)
    assert is_direct(loader)
    list(loader)
    path, offset = ds.location(50, "data")
    os.truncate(str(path), int(offset or 0) + 10)
    with pytest.raises(FormatError, match="has shrunk from") as caught:
        list(loader)
    assert caught.value.file == path


def test_checksums_are_compared(small_memory: None, tmp_path: Path) -> None:
    written(tmp_path / "data")
    ds = bushel.open(tmp_path / "data", verify=True)
    loader = Loader(ds, 8, fields=["data"])
    assert is_direct(loader)
    list(loader)  # its files are open before one is damaged
    path, offset = ds.location(13, "data")
    with Path(str(path)).open("r+b") as file:
        file.seek(int(offset or 0) + 3000)
        file.write(b"damaged!")
    with pytest.raises(CorruptError) as caught:
        list(loader)
    assert caught.value.key == ds.keys[13]


def test_closing_the_dataset_closes_the_files(small_memory: None, tmp_path: Path) -> None:
    ds = written(tmp_path / "data")
    loader = Loader(ds, 8)
    list(loader)
    source: Any = loader._pipeline.source
    reader = source.dataset.reader
    assert reader.pool.files
    ds.close()
    assert not reader.pool.files
