"""Block files behind an HTTP server, through the loader, which reads their blocks ahead; gathering from objects."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import threading
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pytest
from tests.storage.objects.range_server import Server

import bushel
from bushel import storage
from bushel.storage.base import StoredObject
from bushel.storage.objects.ranges import Arriving

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


class Stored(StoredObject):
    """An object whose ranges are views of bytes in memory."""

    path, mtime_ns = "s3://bucket/object", 0  # without a stamp

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent."""
        return self.data[offset : offset + length]

    def fetch(self, start: int, stop: int, give_up: threading.Event | None = None) -> memoryview:
        """Return the bytes of a range."""
        assert stop - start < 1 << 20, "a long range is copied as it arrives"
        return memoryview(self.data)[start:stop]

    def receive(self, start: int, stop: int, values: Arriving, give_up: threading.Event | None = None) -> None:
        """Hand over a range in chunks, and some of them again, as after a request that failed."""
        for end in (start + (stop - start) // 2, stop):
            values.restart()
            for first in range(start, end, 70_000):
                values.put(memoryview(self.data)[first : min(first + 70_000, end)])


def test_gathered_values_are_in_memory_once() -> None:
    first, second = Stored(bytes(range(256)) * 80_000), Stored(b"0123456789" * 100)
    file = np.array([0, 1, 0, 1, 0, 0], np.int32)
    offset = np.array([0, 10, 17, 5, 3_000_000, 17])
    length = np.array([20_000_000, 7, 1_000_000, -1, 0, 1_000_000])
    storage.gather([first, second], storage.Extents(file, offset, length))  # imports
    tracemalloc.start()
    try:
        buffer, offsets = storage.gather([first, second], storage.Extents(file, offset, length))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.5 * buffer.nbytes
    values = [
        (first, second)[number].data[start : start + max(size, 0)]
        for number, start, size in zip(file, offset, length, strict=True)
    ]
    assert buffer.tobytes() == b"".join(values)
    assert np.diff(offsets).tolist() == [len(value) for value in values]
