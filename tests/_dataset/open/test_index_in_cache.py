"""Where opening stores the index of a local dataset: beside the data, or in the cache of the user."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import bushel


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSHEL_TABLES_DIR", str(tmp_path / "cache"))
    with bushel.Writer(tmp_path / "data" / "a.tar", {"label": "int"}) as writer:
        for number in range(9):
            writer.append({"label": number}, key=f"k{number}")
    for file in (tmp_path / "data" / ".bushel").iterdir():
        file.unlink()
    (tmp_path / "data" / ".bushel").rmdir()
    return tmp_path / "data" / "a.tar"


def test_a_cached_index_is_used_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_INDEX", "cache")
    fingerprint = bushel.open(path).fingerprint
    [cached] = [file for file in (path.parents[1] / "cache").rglob("*") if file.is_file() and file.name != "lock"]
    before = cached.stat().st_mtime_ns
    monkeypatch.setattr("bushel._dataset.open.tables.build_table", None)
    assert bushel.open(path).fingerprint == fingerprint
    assert cached.stat().st_mtime_ns >= before
    assert sorted(each.name for each in path.parent.iterdir()) == ["a.tar"]


def test_a_changed_file_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_INDEX", "cache")
    assert len(bushel.open(path)) == 9
    with bushel.Writer(path.parent / "b.tar", {"label": "int"}) as writer:
        writer.append({"label": 3}, key="other")
    (path.parent / "b.tar").replace(path)
    assert list(bushel.open(path).keys) == ["other"]


def test_a_relative_path_has_the_same_index(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_INDEX", "cache")
    monkeypatch.chdir(path.parent)
    bushel.index("a.tar")
    assert bushel.open("a.tar").info.checksums


def test_other_values_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_INDEX", "memory")
    with pytest.raises(ValueError, match="BUSHEL_INDEX is 'memory': expected 'cache' or 'beside'"):
        bushel.open(path)


def test_a_terminal_is_told_once(path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for _ in range(2):
        bushel.open(path)
    [text] = caplog.messages
    assert text == f"the index is stored in {path.parent / '.bushel'}; BUSHEL_INDEX=cache stores it in your cache"


def test_index_follows_it(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BUSHEL_INDEX", "cache")
    path.parent.chmod(0o555)
    for source in (path, path.parent):
        indexed = bushel.index(source, columns="label")
        assert indexed.info.checksums
        opened = bushel.open(source)
        assert (opened.fingerprint, opened.info.checksums) == (indexed.fingerprint, True)
    assert sorted(each.name for each in path.parent.iterdir()) == ["a.tar"]
    with pytest.raises(bushel.errors.UnsupportedError, match="name a folder for both with index="):
        bushel.index(path, keys=True)
    bushel.index(path, keys=True, index=tmp_path / "place")
    assert list((tmp_path / "place").rglob("a.tar*.safetensors"))
    path.parent.chmod(0o755)
    monkeypatch.delenv("BUSHEL_INDEX")
    bushel.index(path)
    monkeypatch.setenv("BUSHEL_INDEX", "cache")
    bushel.index(path, seek=True)  # the one beside the data is that which opening uses
    assert len([each for each in (path.parent / ".bushel").iterdir() if each.suffix == ".safetensors"]) == 1
