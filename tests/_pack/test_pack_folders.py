"""Folders that hold nothing, on their way into packed folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests._pack.pack_sources import files_of

import bushel
from bushel._pack.reshape import merge
from bushel.cli.app import app
from bushel.containers import Shard
from bushel.containers.ffrecord import CONTAINER as FFRECORD
from bushel.errors import SpecError
from bushel.sources import Files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    for number in range(9):
        (root / f"d{number // 3}").mkdir(parents=True, exist_ok=True)
        (root / f"d{number // 3}/{number}").write_bytes(b"x" * number)
    for empty in ("a", "d1/b/c", "z"):
        (root / empty).mkdir(parents=True)
    return root


def opened(path: Path) -> bushel.Dataset:
    return bushel.open(path)


def test_they_are_kept(folder: Path, tmp_path: Path) -> None:
    done = bushel.pack(Files(folder), tmp_path / "x.ffr")
    assert FFRECORD.empty_folders(Shard.of(tmp_path / "x.ffr")) == ["a", "d1/b/c", "z"]
    assert list(opened(tmp_path / "x.ffr").keys) == [f"d{number // 3}/{number}" for number in range(9)]
    assert not any("empty" in limit for limit in done.limits)


def test_by_the_command(folder: Path, tmp_path: Path) -> None:
    bushel.pack(Files(folder), tmp_path / "x.ffr")
    command = ["pack", str(folder), str(tmp_path / "y.ffr"), "--kind", "files", "--quiet"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (tmp_path / "y.ffr").read_bytes() == (tmp_path / "x.ffr").read_bytes()


def test_nothing_else_is_there(tmp_path: Path) -> None:
    (tmp_path / "folder/only").mkdir(parents=True)
    bushel.pack(Files(tmp_path / "folder"), tmp_path / "x.ffr")
    assert FFRECORD.empty_folders(Shard.of(tmp_path / "x.ffr")) == ["only"]
    assert len(opened(tmp_path / "x.ffr")) == 0


def test_the_first_shard_and_the_first_part_have_them(folder: Path, tmp_path: Path) -> None:
    bushel.pack(Files(folder), tmp_path / "shards", container="ffrecord", shard_samples=4)
    assert [FFRECORD.empty_folders(Shard.of(path)) for path in sorted((tmp_path / "shards").glob("*.ffr"))] == [
        ["a", "d1/b/c", "z"],
        [],
        [],
    ]
    for part in range(2):
        bushel.pack(Files(folder), tmp_path / "parts.ffr", parts=2, part=part)
    bushel.pack(Files(folder), tmp_path / "again.ffr", parts=2)
    found = [FFRECORD.empty_folders(Shard.of(tmp_path / f"parts-part-0000{part}.ffr")) for part in range(2)]
    assert found == [["a", "d1/b/c", "z"], []]
    for part in range(2):
        made = (tmp_path / f"parts-part-0000{part}.ffr").read_bytes()
        assert made == (tmp_path / f"again-part-0000{part}.ffr").read_bytes()


def test_an_append_keeps_those_that_were_there(folder: Path, tmp_path: Path) -> None:
    bushel.pack(Files(folder), tmp_path / "x.ffr")
    (tmp_path / "more/new").mkdir(parents=True)
    (tmp_path / "more/z").mkdir()
    (tmp_path / "more/z/file").write_bytes(b"1")
    bushel.pack(Files(tmp_path / "more"), tmp_path / "x.ffr", mode="append")
    assert FFRECORD.empty_folders(Shard.of(tmp_path / "x.ffr")) == ["a", "d1/b/c", "new"]
    bushel.pack([{"__key__": "a/file", "data": b"2"}], tmp_path / "x.ffr", mode="append")
    assert FFRECORD.empty_folders(Shard.of(tmp_path / "x.ffr")) == ["d1/b/c", "new"]
    assert list(opened(tmp_path / "x.ffr").keys)[-2:] == ["z/file", "a/file"]


@pytest.mark.parametrize("target", ["x.ffr", "shards"])
def test_they_survive_a_kill(folder: Path, tmp_path: Path, target: str) -> None:
    options: dict[str, Any] = {"container": "ffrecord", "shard_samples": None if target == "x.ffr" else 4}
    script = f"""
import os, bushel
from bushel.sources import Files
class Dying(Files):
    def __getitem__(self, position):
        if position == 6:
            os._exit(9)
        return super().__getitem__(position)
bushel.pack(Dying({str(folder)!r}), {str(tmp_path / target)!r}, threads=1, **{options})
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    bushel.pack(Files(folder), tmp_path / target, mode="resume", **options)
    bushel.pack(Files(folder), tmp_path / f"whole-{target}", **options)
    if target == "x.ffr":
        assert (tmp_path / target).read_bytes() == (tmp_path / f"whole-{target}").read_bytes()
    else:
        assert files_of(tmp_path / target) == files_of(tmp_path / f"whole-{target}")


def test_a_packed_folder_written_again_keeps_them(folder: Path, tmp_path: Path) -> None:
    bushel.pack(Files(folder), tmp_path / "x.ffr")
    whole = (tmp_path / "x.ffr").read_bytes()
    bushel.convert(tmp_path / "x.ffr", tmp_path / "converted.ffr")
    bushel.pack(opened(tmp_path / "x.ffr"), tmp_path / "packed.ffr")
    assert (tmp_path / "converted.ffr").read_bytes() == (tmp_path / "packed.ffr").read_bytes() == whole
    (tmp_path / "more/new").mkdir(parents=True)
    (tmp_path / "more/file").write_bytes(b"1")
    bushel.pack(Files(tmp_path / "more"), tmp_path / "y.ffr")
    merge([tmp_path / "x.ffr", tmp_path / "y.ffr"], tmp_path / "both.ffr")
    assert FFRECORD.empty_folders(Shard.of(tmp_path / "both.ffr")) == ["a", "d1/b/c", "new", "z"]
    bushel.convert(opened(tmp_path / "x.ffr")[:4], tmp_path / "view.ffr")
    assert FFRECORD.empty_folders(Shard.of(tmp_path / "view.ffr")) == []


def test_who_cannot_keep_them_says_so(folder: Path, tmp_path: Path) -> None:
    done = bushel.pack(Files(folder), tmp_path / "x.rec")
    assert done.limits[-1] == "empty folders left out: a, d1/b/c, z"
    (folder / "q").mkdir()
    done = bushel.pack(Files(folder), tmp_path / "x.ffr", keys=False)
    assert done.limits[-1] == "empty folders left out: a, d1/b/c, q and 1 more"
    bushel.pack(Files(folder), tmp_path / "keyed.ffr")
    assert (
        bushel.convert(tmp_path / "keyed.ffr", tmp_path / "y.rec").limits[-1]
        == "empty folders left out: a, d1/b/c, q and 1 more"
    )
    with pytest.raises(SpecError, match="tar cannot store empty folders"):
        bushel.Writer(tmp_path / "x.tar", {"data": "bytes"}, folders=["a"])
    with (
        pytest.raises(SpecError, match="one field with keys"),
        bushel.Writer(tmp_path / "y.ffr", {"data": "bytes", "label": "int"}, folders=["a"]) as writer,
    ):
        writer.append({"data": b"", "label": 1}, key="k")


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    def write(name: str, folder: str, key: str) -> None:
        with bushel.Writer(tmp_path / name, {"data": "bytes"}, folders=[folder]) as writer:
            writer.append({"data": b""}, key=key)

    with pytest.raises(SpecError, match="is already the folder of other keys"):
        write("a.ffr", "a/b", "a")
    for number, odd in enumerate(("", "../b", "/a", "a//b")):
        with pytest.raises(SpecError, match="is not a path in a folder"):
            write(f"{number}.ffr", odd, "k")
    with (
        pytest.raises(ValueError, match="lacks its own"),
        bushel.Writer(tmp_path / "c.ffr", {"data": "bytes"}, folders=[]) as writer,
    ):
        writer.append({"data": b""})
