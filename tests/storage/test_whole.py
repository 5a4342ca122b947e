"""New folders are on disk before anything is created in them, also after a kill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bushel.storage import make_folder, whole
from bushel.storage.lock import Lock


class Killed(BaseException):
    """Ends a call as a kill would."""


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were put on disk, with the entries that they had then."""
    done: list[Path] = []

    def sync(folder: Path) -> None:
        done.extend(sorted(folder.iterdir()))

    monkeypatch.setattr(whole, "sync_folder", sync)
    monkeypatch.setattr("bushel.storage.lock.sync_folder", sync)
    return done


def test_each_folder_is_on_disk_before_the_next_one_is_created(tmp_path: Path, synced: list[Path]) -> None:
    make_folder(tmp_path / "a/b/c")
    assert [path for path in synced if path.parent != tmp_path.parent] == [
        tmp_path / "a",
        tmp_path / "a/b",
        tmp_path / "a/b/c",
    ]
    synced.clear()
    make_folder(tmp_path / "a/b/c")
    make_folder(tmp_path / "x/y", sync=False)
    assert synced == []


@pytest.mark.parametrize("sync", [True, False])
def test_the_folder_in_which_nothing_may_be_created_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        kind = PermissionError if Path(path).parent.exists() else FileNotFoundError
        raise kind(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    message = f"Permission denied to create '.bushel' in this folder: '{tmp_path}'"
    with pytest.raises(PermissionError, match=message):
        make_folder(tmp_path / ".bushel/writers", sync=sync)
    with pytest.raises(PermissionError, match=message):
        whole.write_whole(tmp_path / ".bushel/views/x", b"", sync=sync)


def test_a_folder_that_exists_and_cannot_be_put_on_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    (tmp_path / "wx").mkdir()
    monkeypatch.setattr(whole, "sync_folder", unreadable)
    with pytest.raises(PermissionError) as caught:
        make_folder(tmp_path / "wx/new")
    assert (caught.value.strerror, caught.value.filename) == ("Permission denied", f"{tmp_path}/wx")


@pytest.mark.parametrize("kill_at", [1, 2, 3])
def test_after_a_kill_the_last_folder_is_put_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[Path], kill_at: int
) -> None:
    recording, calls = whole.sync_folder, 0

    def dying(folder: Path) -> None:
        nonlocal calls
        calls += folder != tmp_path.parent
        if calls == kill_at:
            raise Killed
        recording(folder)

    with monkeypatch.context() as patch:
        patch.setattr(whole, "sync_folder", dying)
        with pytest.raises(Killed):
            make_folder(tmp_path / "a/b/c")
    with Lock([(tmp_path / "a/b/c/.bushel/writers/x.lock", False)], tmp_path, sync=True):
        wanted = {tmp_path / name for name in ("a", "a/b", "a/b/c", "a/b/c/.bushel")}
        assert wanted <= set(synced)


def test_a_lock_puts_a_folder_of_a_killed_process_on_disk(tmp_path: Path, synced: list[Path]) -> None:
    (tmp_path / "out/.bushel").mkdir(parents=True)
    with Lock([(tmp_path / "out/.bushel/writers/x.lock", False)], tmp_path, sync=True):
        assert tmp_path / "out/.bushel" in synced
