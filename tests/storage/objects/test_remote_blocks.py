"""Block files behind an HTTP server, through the loader, which reads their blocks ahead."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pytest
from tests.storage.objects.range_server import Server

import bushel

COUNT = 600
FOREIGN = Path("tests/golden/foreign")


def values() -> list[tuple[str, bytes]]:
    rng = np.random.default_rng(11)
    return [(f"{number:04}", b"text " * 300 + rng.bytes(2500)) for number in range(COUNT)]


def tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for key, value in values():
            member = tarfile.TarInfo(f"{key}.bin")
            member.size = len(value)
            archive.addfile(member, io.BytesIO(value))
    return made.getvalue()


def write_zstd(folder: Path) -> None:
    content = tar()
    frames = [cramjam.zstd.compress(content[at : at + 100_000]) for at in range(0, len(content), 100_000)]
    (folder / "x.tar.zst").write_bytes(b"".join(map(bytes, frames)))


def write_gzip(folder: Path) -> None:
    (folder / "x.tar.gz").write_bytes(gzip.compress(tar(), 1))


def write_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in values():
            archive.writestr(f"{key}.bin", value)


def write_parquet(folder: Path) -> None:
    for path in (FOREIGN / "parquet-snappy-v1-dictionary").glob("*.parquet"):
        shutil.copy(path, folder)


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return (value.dtype.str, value.tolist()) if isinstance(value, np.ndarray) else value


def samples_of(loader: Any) -> list[list[tuple[str, Any]]]:
    return [[(name, comparable(value)) for name, value in sample.items()] for batch in loader for sample in batch]


@pytest.mark.parametrize("write", [write_zstd, write_gzip, write_zip, write_parquet])
@pytest.mark.parametrize("shuffle", [True, "blocks"])
def test_the_loader_reads_what_it_reads_from_a_local_file(
    server: Server, write: Callable[[Path], None], shuffle: Any
) -> None:
    folder = server.folder / "set"
    folder.mkdir()
    write(folder)
    bushel.index(folder, checksums=True).close()
    local, remote = bushel.open(folder), bushel.open(f"{server.url}/set/")
    assert remote.remote
    server.asked.clear()

    def loaded(dataset: bushel.Dataset) -> Any:
        return samples_of(bushel.Loader(dataset, 16, shuffle=shuffle, seed=2, collate=list, threads=2, prefetch=4))

    found = loaded(remote)
    assert len(found) == len(local)
    assert found == loaded(local)
    if len(local) < COUNT:
        return
    ranges = [ranged for name in ("x.tar.zst", "x.tar.gz", "x.zip") for ranged in server.gets(name)]
    steps = -(-COUNT // 16)
    assert 0 < len(ranges) < steps, "batches that are read ahead together share requests"
