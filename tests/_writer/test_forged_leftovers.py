"""What killed writers leave is not trusted: lists of moves and links make no writer touch files outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import bushel
from bushel._dataset.open.completeness import overwrite_folder
from bushel.errors import FormatError

SPEC = {"text": "utf8"}
OUT = ["../victim/kept", "../../../victim/kept", "{victim}/kept", "a/../../victim/kept", "", "\0"]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "kept").write_text("kept")
    return folder


def is_whole(victim: Path) -> bool:
    return [path.name for path in victim.iterdir()] == ["kept"] and (victim / "kept").read_text() == "kept"


def write(path: Path, mode: Any = "create") -> None:
    with bushel.Writer(path, SPEC, mode=mode, sync=False) as writer:
        writer.append({"text": "a"}, key="a")


def staging_of(path: Path, mode: str) -> Path:
    """Return the folder in which a writer of this mode stages."""
    return overwrite_folder(path) if mode == "overwrite" else path.parent / ".bushel" / "staging" / path.name


@pytest.mark.parametrize("mode", ["create", "append", "overwrite", "resume"])
def test_a_link_in_the_place_of_an_overwrite(mode: str, tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "data" / "x.tar"
    path.parent.mkdir()
    if mode in ("append", "overwrite"):
        write(path)
    link = overwrite_folder(path)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        write(path, mode)
    assert is_whole(victim)


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("member", ["clear", "moves", "drop"])
@pytest.mark.parametrize("mode", ["overwrite", "resume"])
def test_names_in_a_list_of_moves(mode: str, member: str, name: str, tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "data" / "x.tar"
    path.parent.mkdir()
    write(path)
    folder = staging_of(path, mode)
    folder.mkdir(parents=True)
    (folder / "x.tar").write_bytes(path.read_bytes())
    forged: Any = name.format(victim=victim)
    if member == "moves":
        forged = {"name": forged, "device": 0, "inode": 0}
    marker = {"clear": [], "moves": [], "drop": [], member: [forged]}
    (folder / "commit.json").write_text(json.dumps(marker))
    with pytest.raises(FormatError, match="not the name of a file in this folder|out of its folder"):
        write(path, mode)
    assert is_whole(victim)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"clear": [], "moves": [{"name": "x.tar"}], "drop": []}', "[" * 10_000]
)
@pytest.mark.parametrize("mode", ["overwrite", "resume"])
def test_malformed_lists_of_moves(mode: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    write(path)
    folder = staging_of(path, mode)
    folder.mkdir(parents=True)
    (folder / "commit.json").write_text(text)
    with pytest.raises(FormatError, match="not a list of moves"):
        write(path, mode)


def test_a_list_of_moves_removes_no_folder_of_others(tmp_path: Path) -> None:
    path, other = tmp_path / "x.tar", tmp_path / "other"
    write(path)
    other.mkdir()
    folder = overwrite_folder(path)
    folder.mkdir(parents=True)
    (folder / "x.tar").write_bytes(path.read_bytes())
    stat = path.stat()
    move = {"name": "x.tar", "device": stat.st_dev, "inode": stat.st_ino}
    marker = {"clear": ["other"], "moves": [move], "drop": ["other"]}
    (folder / "commit.json").write_text(json.dumps(marker))
    write(path, "overwrite")
    assert other.is_dir()


def test_a_link_in_the_place_of_a_staged_file(tmp_path: Path, victim: Path) -> None:
    folder = staging_of(tmp_path / "x.tar", "resume")
    folder.mkdir(parents=True)
    (folder / "x.tar").symlink_to(victim / "kept")
    moves = [{"name": "x.tar", "device": 0, "inode": 0}]
    (folder / "commit.json").write_text(json.dumps({"clear": [], "moves": moves, "drop": []}))
    with pytest.raises(FormatError, match="no writer leaves a symbolic link"):
        write(tmp_path / "x.tar", "resume")
    assert is_whole(victim)


@pytest.mark.parametrize("linked", [".bushel", ".bushel/staging"])
def test_a_linked_folder_of_sidecars(linked: str, tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "data" / "x.tar"
    (path.parent / linked).parent.mkdir(parents=True)
    (path.parent / linked).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        write(path)
    assert is_whole(victim)


def test_opening_writes_nothing_through_a_linked_folder_of_sidecars(tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "data" / "x.tar"
    path.parent.mkdir()
    write(path)
    for each in (path.parent / ".bushel").iterdir():
        each.unlink()
    (path.parent / ".bushel").rmdir()
    (path.parent / ".bushel").symlink_to(victim)
    assert len(bushel.open(path)) == 1
    assert bushel.open(path).info.samples == 1
    with pytest.raises(OSError, match="symbolic link"):
        bushel.index(path)
    assert is_whole(victim)
