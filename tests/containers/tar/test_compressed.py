"""Compressed archives: with an index they are read at random, and give what the plain archive gives."""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pytest

import bushel
from bushel._index.sidecar import load_index
from bushel.errors import CorruptError, UnsupportedError

COUNT = 300


def archive() -> bytes:
    """An archive of 4 MB, with values that compress and others that do not."""
    rng = np.random.default_rng(4)
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for number in range(COUNT):
            for name, data in (("txt", f"text {number} ".encode() * 50), ("bin", rng.bytes(12_000))):
                member = tarfile.TarInfo(f"k{number:03}.{name}")
                member.size = len(data)
                tar.addfile(member, BytesIO(data))
    return made.getvalue()


PLAIN = archive()
HALF = len(PLAIN) // 3
PACKED: dict[str, Callable[[], bytes]] = {
    "x.tar.gz": lambda: gzip.compress(PLAIN, 1),
    "x.tgz": lambda: gzip.compress(PLAIN[:HALF], 9) + gzip.compress(PLAIN[HALF:], 1),
    "x.tar.zst": lambda: b"".join(
        bytes(cramjam.zstd.compress(PLAIN[at : at + (1 << 20)])) for at in range(0, len(PLAIN), 1 << 20)
    ),
}


def plain(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: bytes(value) if name == "bin" else value for name, value in each.items()} for each in samples]


@pytest.fixture(params=PACKED)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    path.write_bytes(PACKED[path.name]())
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/x.tar").write_bytes(PLAIN)
    return path


def test_with_an_index_it_is_the_plain_archive(packed: Path) -> None:
    expected = bushel.open(packed.parent / "plain/x.tar")
    with bushel.index(packed) as dataset:
        assert len(dataset) == COUNT
    with bushel.open(packed, verify=True) as dataset:
        assert dataset.info.checksums
        assert dataset.keys[:] == expected.keys[:]
        order = np.random.default_rng(0).permutation(COUNT).tolist()
        assert plain(dataset.read(order)) == plain(expected.read(order))
        assert plain([dataset[at] for at in order[:9]]) == plain([expected[at] for at in order[:9]])
        assert dataset.gather(order, "bin")[0].tobytes() == expected.gather(order, "bin")[0].tobytes()
        assert plain(list(dataset[7:20])) == plain(list(expected[7:20]))
        file, offset = dataset.location(250, "txt")
        assert (file, 0 < offset < packed.stat().st_size) == (str(packed), True)
    assert load_index(packed.parent / f".bushel/{packed.name}.safetensors").blocks
    assert bushel.verify(packed).ok


def test_without_an_index_opening_says_how_to_get_it(packed: Path) -> None:
    for source in (packed, str(packed), [str(packed)], str(packed.parent / "x.*")):
        with pytest.raises(UnsupportedError, match="bushel index"):
            bushel.open(source)
    if packed.suffix != ".zst":  # a stream of zstd needs the command
        assert len(list(bushel.open_stream(packed))) == COUNT
    assert not (packed.parent / ".bushel").exists()
    with bushel.open(packed, index="memory") as dataset:
        assert len(dataset) == COUNT
    assert not (packed.parent / ".bushel").exists()


def test_a_folder_of_compressed_archives(packed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}-{packed.name}").write_bytes(packed.read_bytes())
    bushel.index(folder).close()
    with bushel.open(folder) as dataset:
        assert len(dataset) == 2 * COUNT
        assert dataset[COUNT]["__key__"] == "k000"


def test_converting_and_damage(packed: Path, tmp_path: Path) -> None:
    bushel.index(packed).close()
    bushel.convert(packed, tmp_path / "out", container="bag")
    with bushel.open(tmp_path / "out") as dataset, bushel.open(packed) as source:
        assert plain(dataset.read(range(5))) == plain(source.read(range(5)))
    stat = packed.stat()
    data = bytearray(packed.read_bytes())
    data[len(data) // 2] ^= 0x10
    packed.write_bytes(data)
    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert not bushel.verify(packed).ok
    with bushel.open(packed, verify=True) as dataset, pytest.raises(CorruptError, match="expand|CRC"):
        dataset.read(range(COUNT))


@pytest.mark.parametrize("mode", ["append", "resume"])
def test_nothing_is_added_to_compressed_archives(packed: Path, tmp_path: Path, mode: Any) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / packed.name).write_bytes(packed.read_bytes())
    bushel.index(folder).close()
    before = sorted(each.name for each in folder.rglob("*"))
    with pytest.raises(UnsupportedError, match=f"{packed.name} can be read only, so nothing can be added to {folder}"):
        bushel.Writer(folder, {"txt": "utf8"}, container="tar", mode=mode)
    assert sorted(each.name for each in folder.rglob("*")) == before
    with bushel.open(folder) as dataset:
        assert len(dataset) == COUNT


@pytest.mark.parametrize("mode", ["create", "append", "resume", "overwrite"])
def test_a_compressed_archive_is_not_written(packed: Path, tmp_path: Path, mode: Any) -> None:
    ending = packed.name[1:]
    for path in (packed, tmp_path / f"new{ending}"):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(UnsupportedError, match=f"in a {ending} file can be read only. Write to a .tar file"):
            bushel.Writer(path, {"txt": "utf8"}, container="tar", mode=mode)
        assert (path.read_bytes() if path.exists() else None) == before
