"""Archives that other programs write: Info-ZIP, 7-Zip, `jar`, and streams as macOS writes them, beside `zipfile`."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.containers.zip_archives import check

SAMPLES = 40


def program(*names: str) -> str:
    """Return the path of the first of these programs that is installed; else skip the test."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of samples in two folders, with others among them."""
    path = tmp_path / "files"
    for number in range(SAMPLES):
        own = path / f"class {number % 2}" / "Größe 日本"
        own.mkdir(parents=True, exist_ok=True)
        (own / f"{number:03d}.txt").write_text(f"text {number} " * (number % 7 * 100))
        (own / f"{number:03d}.cls").write_text(str(number))
    (path / ".hidden.txt").write_text("no")
    (path / "README").write_text("no")
    return path


@pytest.mark.parametrize("options", [["-0"], ["-9"], ["-0", "-fz"], ["-D"], ["-UN=UTF8"], ["-UN=escape"]], ids=" ".join)
def test_info_zip(folder: Path, options: list[str]) -> None:
    subprocess.run([program("zip"), "-q", "-r", *options, "../x.zip", "."], cwd=folder, check=True)
    assert check(folder.parent / "x.zip") == SAMPLES


def test_info_zip_that_writes_to_a_pipe_and_changes_an_archive(folder: Path) -> None:
    with (folder.parent / "x.zip").open("wb") as out:
        piped = subprocess.run([program("zip"), "-q", "-r", "-", "."], cwd=folder, check=True, stdout=subprocess.PIPE)
        out.write(piped.stdout)
    assert check(folder.parent / "x.zip") == SAMPLES
    commands = (["-d", "../x.zip", "*/003.txt"], ["-0", "../x.zip", "class 1/Größe 日本/003.txt"])
    for command in commands:
        subprocess.run([program("zip"), "-q", *command], cwd=folder, check=True)
        assert check(folder.parent / "x.zip") == SAMPLES
    subprocess.run([program("zip"), "-q", "-z", "../x.zip"], cwd=folder, check=True, input=b"a comment\n.\n")
    assert check(folder.parent / "x.zip") == SAMPLES


@pytest.mark.parametrize("options", [["-mx=0"], ["-mx=5"], ["-mcu=on"]], ids=" ".join)
def test_7_zip(folder: Path, options: list[str]) -> None:
    seven = program("7z", "7zz", "7za")
    subprocess.run([seven, "a", "-tzip", "-bd", *options, "../x.zip", "."], cwd=folder, check=True, capture_output=True)
    assert check(folder.parent / "x.zip") == SAMPLES


@pytest.mark.parametrize("options", ["cMf", "c0Mf"])
def test_jar_of_java(folder: Path, options: str) -> None:
    names = sorted(each.name for each in folder.iterdir() if each.is_dir())
    subprocess.run([program("jar"), options, "../x.zip", *names], cwd=folder, check=True)
    assert check(folder.parent / "x.zip") == SAMPLES


class _Pipe(io.RawIOBase):
    """A stream that cannot seek, so that sizes follow the data."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()
        super().close()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_stream_with_the_files_of_macos(folder: Path, compression: int) -> None:
    with _Pipe(folder.parent / "x.zip") as pipe, zipfile.ZipFile(pipe, "w", compression) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            archive.write(path, name)
            if path.is_file():
                archive.writestr(f"__MACOSX/{Path(name).parent.as_posix()}/._{path.name}", b"\0\5\x16\7")
    assert check(folder.parent / "x.zip") == SAMPLES
