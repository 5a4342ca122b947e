"""Files that are read from front to back: the bytes of each step, plain and compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bushel.containers import read_forward
from bushel.containers.read_forward import forward_reader
from bushel.errors import FormatError
from bushel.storage import BlockFile, open_file
from bushel.storage.restart import compressed_blocks

DATA = bytes(range(251)) * 400


def test_a_local_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_forward, "_CHUNK", 1000)
    (tmp_path / "x").write_bytes(DATA)
    file = open_file(tmp_path / "x")
    read, chunk = forward_reader(file, file)
    assert chunk == 1000
    assert b"".join(bytes(read(at, min(chunk, len(DATA) - at))) for at in range(0, len(DATA), chunk)) == DATA
    assert bytes(read(7, 20)) == DATA[7:27]


@pytest.mark.parametrize("step", [1000, 99_000])
def test_a_compressed_file_in_steps_that_overlap(step: int, tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(DATA))
    real = open_file(tmp_path / "x.gz")
    read, _ = forward_reader(BlockFile.over(real, compressed_blocks(real, spacing=5000)), real)
    for at in range(0, len(DATA), step // 2):
        assert read(at, min(step, len(DATA) - at)) == DATA[at : at + step]


def test_a_block_that_changes_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(DATA))
    real = open_file(tmp_path / "x.gz")
    blocks = compressed_blocks(real)
    (tmp_path / "y.gz").write_bytes(bytes(real.size))
    other = open_file(tmp_path / "y.gz")
    read, _ = forward_reader(BlockFile.over(other, blocks), other)
    with pytest.raises(FormatError, match=r"y\.gz"):
        read(0, 10)
