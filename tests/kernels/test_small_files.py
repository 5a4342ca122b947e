"""read_small_files and read_files: files that are opened, read and closed."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest

from bushel.kernels import file_stamps, read_files, read_small_files


def arrays(*rows: tuple[int, ...]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def written(folder: Path, *contents: bytes) -> list[Path]:
    paths = [folder / f"{number} ü.bin" for number in range(len(contents))]
    for path, data in zip(paths, contents, strict=True):
        path.write_bytes(data)
    return paths


def test_extents_of_files(tmp_path: Path) -> None:
    paths = written(tmp_path, b"abcdef", b"", b"x" * 100_000)
    times = [path.stat().st_mtime_ns for path in paths]
    columns = arrays(
        (6, times[0], 0, 6),
        (6, times[0], 2, 3),
        (0, times[1], 0, 0),
        (100_000, times[2], 1, 99_999),
        (6, times[0], 6, 0),
    )
    names = [str(paths[number]) for number in (0, 0, 1, 2, 0)]
    assert read_small_files(names, *columns) == [b"abcdef", b"cde", b"", b"x" * 99_999, b""]
    assert read_small_files([], *(np.empty(0, np.int64) for _ in range(4))) == []


def test_files_that_differ_are_none(tmp_path: Path) -> None:
    paths = written(tmp_path, b"abcdef", b"abcdef")
    time = paths[0].stat().st_mtime_ns
    os.mkfifo(tmp_path / "pipe")
    names = [str(each) for each in (paths[0], paths[0], tmp_path / "gone", tmp_path, tmp_path / "pipe", paths[0])]
    columns = arrays(
        (7, time, 0, 7), (6, time + 1, 0, 6), (6, time, 0, 6), (6, time, 0, 6), (0, time, 0, 0), (6, time, 0, 6)
    )
    before = set(os.listdir("/proc/self/fd"))
    assert read_small_files(names, *columns) == [None, None, None, None, None, b"abcdef"]
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("extent", [(0, 7), (7, 0), (-1, 1), (0, -1), (2**62, 2**62), (1, 2**63 - 1)])
def test_extents_that_are_not_inside_are_refused(tmp_path: Path, extent: tuple[int, int]) -> None:
    [path] = written(tmp_path, b"abcdef")
    with pytest.raises(ValueError, match="extent 0 is not inside its file"):
        read_small_files([str(path)], *arrays((6, path.stat().st_mtime_ns, *extent)))
    with pytest.raises(ValueError, match="extent 0 is not inside its file"):
        read_small_files([str(path)], *arrays((-(2**63), 0, 0, 1)))


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    [path] = written(tmp_path, b"abcdef")
    size, time, offset, length = arrays((6, path.stat().st_mtime_ns, 0, 6))
    with pytest.raises(ValueError, match="must have the same size"):
        read_small_files([str(path)] * 2, size, time, offset, length)
    with pytest.raises(TypeError):
        read_small_files([7], size, time, offset, length)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        read_small_files([str(path)], size.astype(np.int32), time, offset, length)
    with pytest.raises(ValueError, match="null"):
        read_small_files(["a\0b"], size, time, offset, length)


def test_paths_in_a_folder_do_not_lead_out_of_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    (inner / "a").mkdir(parents=True)
    paths = [inner / "a" / "..c", inner / ".d", tmp_path / "secret"]
    for path in paths:
        path.write_bytes(b"abcdef")
        os.utime(path, ns=(0, 5))
    names = ["a/..c", ".d", "../secret", str(paths[2]), "a/../../secret", "a//..c", "./.d", ".d/", "", ".."]
    columns = arrays(*[(6, 5, 0, 6)] * len(names))
    assert read_small_files(names, *columns, folder=str(inner)) == [b"abcdef"] * 2 + [None] * 8
    assert read_small_files(["secret"], *arrays((6, 5, 0, 6)), folder=str(tmp_path / "gone")) == [None]


def test_whole_files_lie_one_after_another(tmp_path: Path) -> None:
    contents = [b"abcdef", b"", b"x" * 100_000, b"end"]
    names = [path.name for path in written(tmp_path, *contents)]
    room = np.full(100_020, 7, np.uint8)
    offsets, sums = read_files(names, room, folder=str(tmp_path))
    assert offsets.tolist() == [0, 6, 6, 100_006, 100_009]
    assert room[:100_009].tobytes() == b"".join(contents)
    assert (room[100_009:] == 7).all()
    assert sums.tolist() == [zlib.crc32(content) for content in contents]
    assert [array.tolist() for array in read_files([], room)] == [[0], []]


def test_whole_files_end_before_one_that_cannot_be_read(tmp_path: Path) -> None:
    first, large = written(tmp_path, b"abcdef", b"x" * 100)
    os.mkfifo(tmp_path / "pipe")
    inner = tmp_path / "inner"
    inner.mkdir()
    room = np.zeros(64, np.uint8)
    others = [str(large), str(tmp_path / "gone"), str(tmp_path / "pipe"), str(inner), "/proc/self/status"]
    for other in others:  # of a file in /proc, the size is not known
        assert read_files([str(first), other, str(first)], room)[0].tolist() == [0, 6]
    for name in ("../" + first.name, str(first), "./x", ""):
        assert read_files([name], room, folder=str(inner))[0].tolist() == [0]
    assert read_files([str(first)] * 2, room[:12])[0].tolist() == [0, 6], "the last byte shows that a file has grown"
    assert read_files([str(first)] * 2, room[:13])[0].tolist() == [0, 6, 12]
    assert read_files([str(first)], room[:0])[0].tolist() == [0]


def test_arguments_of_whole_files(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        read_files(["a"], np.zeros(4, np.int8))
    with pytest.raises(TypeError):
        read_files([7], np.zeros(4, np.uint8))  # type: ignore[list-item]
    with pytest.raises(ValueError, match="null"):
        read_files(["a\0b"], np.zeros(4, np.uint8))


def test_stamps_of_files(tmp_path: Path) -> None:
    paths = written(tmp_path / ".", b"abcdef", b"")
    os.symlink(paths[0], tmp_path / "link")
    names = [*(path.name for path in paths), "link", "gone", "../" + tmp_path.name, str(paths[0])]
    sizes, times = file_stamps(names, folder=str(tmp_path))
    assert sizes.tolist() == [6, 0, 6, -1, -1, -1]
    assert times[:3].tolist() == [paths[number].stat().st_mtime_ns for number in (0, 1, 0)]
    assert file_stamps([str(paths[0])])[0].tolist() == [6]
    assert file_stamps(["a"], folder=str(tmp_path / "gone"))[0].tolist() == [-1]
