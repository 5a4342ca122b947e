"""Files that are not files, links without an end, and names that no text has: each gets a clear error, and soon."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

import bushel
from bushel.errors import FormatError, SpecError, UnsupportedError

JPEG = b"\xff\xd8\xff\xd9"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes and names as Linux has them")


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.tar", "x.npy", "x.zip", "x.arrow", "index.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=rf"{name}.*not a file whose bytes can be read by position"):
        bushel.open(tmp_path if name == "index.json" else path, index="memory")
    if name != "index.json":
        assert not bushel.verify(path).ok


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_metadata_that_are_not_a_file(name: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    path = tmp_path / name
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with caplog.at_level("INFO", "bushel"):
        assert len(bushel.open(tmp_path, index="memory")) == 1
    assert "1 pipe or device" in caplog.text


def test_photos_that_are_not_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match="does not belong to any container"):
        bushel.open(tmp_path, index="memory")


def test_links_to_folders_over_other_links(tmp_path: Path) -> None:
    """Three links in each of 20 folders to the one before are 3²⁰ names of one file."""
    for number in range(20):
        (tmp_path / f"f{number}").mkdir()
        for link in range(3):
            if number:
                (tmp_path / f"f{number}" / f"l{link}").symlink_to(tmp_path / f"f{number - 1}")
    (tmp_path / "f0" / "a.jpg").write_bytes(JPEG)
    assert len(bushel.open(tmp_path / "f3", index="memory")) == 27
    with pytest.raises(FormatError, match=r"a symbolic link in a folder that 8 others lead to.*remove links"):
        bushel.open(tmp_path / "f19", index="memory")
    (tmp_path / "f0" / "back").symlink_to(tmp_path / "f1")
    with pytest.raises(FormatError, match="symbolic link"):
        bushel.open(tmp_path / "f1", index="memory")


def test_names_that_are_not_utf8(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "bushel")  # reports of pytest-xdist cannot have such a name
    folder = os.fsencode(tmp_path)
    with open(folder + b"/\xff.jsonl", "w") as file:
        file.write('{"a": 1}\n')
    assert bushel.open(tmp_path)[0]["a"] == 1  # the index is not stored
    with pytest.raises(UnsupportedError, match=r"'\\udcff\.jsonl' is not UTF-8.*rename the file"):
        bushel.index(tmp_path)


def test_many_splits_in_one_folder(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"s{number}-00000-of-00001.parquet").touch()
    with pytest.raises(SpecError, match=r"several splits: s0, .* and others") as caught:
        bushel.open(tmp_path)
    assert len(str(caught.value)) < 1000
