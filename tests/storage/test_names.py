"""A name that a file brings along never leads out of its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bushel.errors import FormatError
from bushel.storage import as_path, below, inside, make_folder, remove, remove_tree, write_whole

OUT = [
    "",
    ".",
    "..",
    "../a",
    "a/..",
    "a/../../b",
    "a/./b",
    "a//b",
    "/a",
    "//a",
    "a/",
    "http://host/a",
    "file:///etc/passwd",
    "a\0b",
    None,
    3,
    ["a"],
]


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("root", ["data", "s3://bucket/data"])
def test_names_that_lead_out(root: str, name: Any) -> None:
    for function in (below, inside):
        with pytest.raises(FormatError, match="not the name of a file"):
            function(as_path(root), name)
        with pytest.raises(FormatError):
            below(as_path(root), name, any_text=True)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2Ja", "a\x7f", "a\tb"])
def test_control_characters(name: str) -> None:
    with pytest.raises(FormatError, match="control character"):
        below(Path("data"), name)
    assert below(Path("data"), name, any_text=True) == Path("data", name)


@pytest.mark.parametrize("name", ["a", "a/b.tar", "...", "..a", "a..", ".hidden/x", "a b", "a\\b", "é", "\udcff"])
def test_names_in_the_folder(name: str) -> None:
    assert below(Path("data"), name) == inside(Path("data"), name) == Path("data", name)


def test_links_out_of_the_folder_are_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "other")
    assert below(tmp_path / "data", "link/x") == tmp_path / "data" / "link" / "x"
    with pytest.raises(FormatError, match="symbolic link to"):
        inside(tmp_path / "data", "link/x")
    (tmp_path / "data" / "real").mkdir()
    (tmp_path / "data" / "within").symlink_to("real")
    assert inside(tmp_path / "data", "within/x") == tmp_path / "data" / "within" / "x"


def test_nothing_is_written_through_a_linked_folder_of_sidecars(tmp_path: Path) -> None:
    victim, data = tmp_path / "victim", tmp_path / "data"
    victim.mkdir()
    (victim / "kept").write_text("kept")
    data.mkdir()
    (data / ".bushel").symlink_to(victim)
    for change in (
        lambda: write_whole(data / ".bushel" / "a.json", b"{}"),
        lambda: make_folder(data / ".bushel" / "run"),
        lambda: remove(data / ".bushel" / "kept"),
        lambda: remove_tree(data / ".bushel"),
        lambda: inside(data, ".bushel/kept"),
    ):
        with pytest.raises(OSError, match="symbolic link"):
            change()
    assert [each.name for each in victim.iterdir()] == ["kept"]


def test_a_temporary_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "a.json.partial").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        write_whole(tmp_path / "a.json", b"{}")
    assert (tmp_path / "victim").read_text() == "kept"
