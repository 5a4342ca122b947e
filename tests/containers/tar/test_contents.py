import bz2
import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import cramjam
import numpy as np
import pytest
from tests.compat.webdataset.shards import File, archive

import bushel
from bushel.containers.tar.members import ForwardReader, Keep, file_contents, stream_contents
from bushel.errors import FormatError
from bushel.kernels import MappedFile

FILES: list[File] = [
    ("a.txt", b""),
    ("b" * 150 + ".bin", b"x" * 513),
    ("dir/é.cls", b"1"),
    ("big", bytes(range(256)) * 40_000),  # more than is read at once
    *((f"{i:05d}.n", b"%d" % i) for i in range(3000)),
]


def everything(name: str) -> str:
    return name


def both(path: Path, keep: Keep = everything) -> list[list[File]]:
    """Read as a file, and as a stream."""
    with open(path, "rb") as stream:
        return [
            list(file_contents(MappedFile(path), keep)),
            list(stream_contents(ForwardReader(stream, str(path)), keep)),
        ]


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_file_comes_in_its_order(tmp_path: Path, format: int) -> None:
    path = tmp_path / "a.tar"
    files = FILES if format != tarfile.USTAR_FORMAT else [("b", b"y" * 513), *FILES[2:]]
    path.write_bytes(archive(files, format))
    assert both(path) == [files, files]


def test_files_are_left_out_and_renamed(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive(FILES, tarfile.PAX_FORMAT))
    asked = []

    def keep(name: str) -> str | None:
        asked.append(name)
        return name.replace(".n", ".m") if name.endswith("7.n") else None

    wanted = [(f"{i:05d}.m", b"%d" % i) for i in range(7, 3000, 10)]
    assert both(path, keep) == [wanted, wanted]
    assert asked == [name for name, _ in FILES] * 2


def test_an_empty_archive_has_no_files(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive([]))
    assert both(path) == [[], []]


@pytest.mark.parametrize(
    ("cut", "whole", "message"),
    [
        (512 * 5, 2, "ends without its"),  # behind the second of three files
        (512 * 5 + 100, 2, "header|size of the file|cut"),  # in a header
        (512 * 3 + 100, 1, "end of the file|ends inside|beyond"),  # in data
    ],
)
def test_whole_samples_come_before_the_error(tmp_path: Path, cut: int, whole: int, message: str) -> None:
    files = [("a.x", b"1"), ("a.y", b"2" * 600), ("a.z", b"3")]
    path = tmp_path / "cut.tar"
    path.write_bytes(archive(files)[:cut])
    with open(path, "rb") as stream:
        forward = stream_contents(ForwardReader(stream, "s"), everything)
        for contents in (file_contents(MappedFile(path), everything), forward):
            found: list[File] = []
            with pytest.raises(FormatError) as caught:
                found.extend(contents)
            assert caught.value.offset is not None
            assert found == files[: len(found)]
            assert len(found) in (whole, 0)


@pytest.mark.parametrize("content", [b"", b"no archive" * 100])
def test_no_archive_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not a tar archive"):
        list(file_contents(MappedFile(path), everything))
    with pytest.raises(FormatError):
        list(stream_contents(ForwardReader(io.BytesIO(content), "s"), everything))


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive([("a", bytes(9 << 20)), ("b", bytes(9 << 20))]))
    contents = file_contents(MappedFile(path), everything)
    next(contents)
    os.truncate(path, 9 << 20)
    with pytest.raises(FormatError, match="shrank while it was read"):
        next(contents)


def test_what_comes_before_a_refusal_is_given(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive(FILES[4:]))

    def refuse(name: str) -> str:
        if name == "00007.n":
            raise ZeroDivisionError
        return name

    with open(path, "rb") as stream:
        forward = stream_contents(ForwardReader(stream, "s"), refuse)
        for contents in (file_contents(MappedFile(path), refuse), forward):
            found: list[File] = []
            with pytest.raises(ZeroDivisionError):
                found.extend(contents)
            assert found == FILES[4:11]


@pytest.mark.parametrize(
    ("pack", "said"),
    [
        (gzip.compress, r"compressed with gzip \(rename it, so that its name ends in \.tar\.gz\)"),
        (bz2.compress, r"compressed with bzip2 \(expand it"),
        (lzma.compress, r"compressed with xz \(expand it"),
        (lambda data: bytes(cramjam.zstd.compress(data)), r"compressed with zstd \(rename it, .*\.tar\.zst\)"),
    ],
)
@pytest.mark.parametrize("size", [10, 100_000])
def test_a_compressed_archive_with_the_name_of_another(
    tmp_path: Path, pack: Callable[[bytes], bytes], said: str, size: int
) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(pack(archive([("x.bin", np.random.default_rng(0).bytes(size))])))
    with pytest.raises(FormatError, match=f"not a tar archive: it is {said}"):
        bushel.open(path)
