"""Small files that several processes change, and staged files that get their names together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.ends_of_threads import in_threads
from tests.storage.objects.conditional_store import keeping

from bushel.storage import publish
from bushel.storage.objects.location import ObjectPath
from bushel.storage.publish import Publication, recover, update

OBJECT = ObjectPath.parse("s3://bucket/out/names")
ADD = """
import sys
from pathlib import Path
from bushel.storage.publish import update
for number in range(25):
    line = f"{sys.argv[2]}.{number}\\n".encode()
    update(Path(sys.argv[1]), lambda data: (data or b"") + line)
"""


PUBLISH = """
import sys
from pathlib import Path
from bushel.storage.publish import Publication
root, name = Path(sys.argv[1]), sys.argv[2]
for number in range(200):
    publication = Publication(root, root / ".bushel/overwrite" / name)
    publication.path_of(name).write_text(f"{number}")
    publication.commit([name])
"""


def test_processes_that_publish_beside_each_other(tmp_path: Path) -> None:
    """One removed the folder of all staged files, which was empty, when another had seen it and put it on disk."""
    running = [subprocess.Popen([sys.executable, "-c", PUBLISH, str(tmp_path), each]) for each in "abcd"]
    assert [process.wait() for process in running] == [0] * 4
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys("abcd", "199")


def test_processes_that_change_a_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "names"
    running = [subprocess.Popen([sys.executable, "-c", ADD, str(path), str(each)]) for each in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len(set(path.read_text().splitlines())) == 100
    assert list(tmp_path.iterdir()) == [path]


def with_line(line: bytes, data: bytes | None) -> bytes:
    """Return lines with another one, once: an answer of the store may be lost."""
    return data if data and line in data else (data or b"") + line


def test_threads_that_change_an_object_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter("abcdef")

    def add() -> None:
        name = next(names).encode()
        for number in range(5):
            line = name + b"%d " % number
            update(OBJECT, partial(with_line, line))

    with keeping(monkeypatch) as store:
        in_threads(6, add)
        assert len(store.objects["bucket/out/names"][0].split()) == 30


@pytest.mark.parametrize("before", [None, b"before"])
def test_an_error_leaves_a_file_as_it_is(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "names"
    if before is not None:
        path.write_bytes(before)

    def refuse(data: bytes | None) -> bytes:
        assert data == before
        raise KeyError("no")

    with pytest.raises(KeyError):
        update(path, refuse)
    assert (path.read_bytes() if path.exists() else None) == before
    assert [each.name for each in tmp_path.iterdir()] == ([] if before is None else ["names"])


def staged(root: Path) -> Publication:
    """Return a publication of a file, a folder and a file in a folder; the root has older ones."""
    for folder, text in ((root, "old"), (root / ".bushel/staging/x", "new")):
        for name in ("a.rec", "d/x", "sub/b"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    (root / "a.idx").write_text("old")
    (root / "side").write_text("old")
    return Publication(root, root / ".bushel/staging/x")


MOVES = ["a.rec", "d", "sub/b"]


def contents(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_text() for path in files}


NEW = {"a.rec": "new", "d/x": "new", "sub/b": "new"}
OLD = {name: "old" for name in (*NEW, "a.idx", "side")}


def test_staged_files_get_their_names(tmp_path: Path) -> None:
    staged(tmp_path).commit(MOVES, clear=["a.idx"], drop=["side", "nothing"])
    assert contents(tmp_path) == NEW
    assert not (tmp_path / ".bushel").exists()


def test_a_power_cut_keeps_no_data_without_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between two syncs left a shard whose table was lost: it was read without its types."""
    names = [".bushel/a.table", "a.rec", ".bushel/manifest"]
    staging = tmp_path / ".bushel/staging/x"
    (staging / ".bushel").mkdir(parents=True)
    for name in names:
        (staging / name).write_text("new")
    synced: list[tuple[str, list[str]]] = []

    def sync(folder: Path) -> None:
        there = [name for name in names if (tmp_path / name).exists()]
        synced.append((folder.relative_to(tmp_path).as_posix(), there))

    monkeypatch.setattr(publish, "sync_folder", sync)
    monkeypatch.setattr(publish, "sync_nearest", sync)
    Publication(tmp_path, staging).commit(names)
    after_the_list = [(folder, there) for folder, there in synced if there]
    assert after_the_list[:2] == [(".bushel", names[:2]), (".", names[:2])]
    assert (".bushel", names) in after_the_list


def test_what_was_not_committed_is_removed(tmp_path: Path) -> None:
    publication = staged(tmp_path)
    undone: list[int] = []
    assert recover(tmp_path, publication.folder, undo=lambda: undone.append(1))
    assert contents(tmp_path) == OLD
    assert undone == [1]
    assert not recover(tmp_path, publication.folder)


@pytest.mark.parametrize("named", [False, True], ids=["before its name", "after"])
def test_a_list_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    """Without the list, nothing is committed and nothing stays; with it, `recover` completes it."""
    from bushel.storage import publish
    from bushel.storage.whole import write_whole as write

    def fails(path: Path, data: bytes, *, sync: bool) -> None:
        if named:
            write(path, data, sync=sync)
        raise OSError(28, "No space left on device", str(path))

    publication = staged(tmp_path)
    monkeypatch.setattr(publish, "write_whole", fails)
    with pytest.raises(OSError, match="No space"):
        publication.commit(MOVES, clear=["a.idx"], drop=["side"])
    publication.discard()
    assert contents(tmp_path).keys() >= OLD.keys()
    assert publication.folder.exists() == named
    assert recover(tmp_path, publication.folder) == named
    assert contents(tmp_path) == (NEW if named else OLD)


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "no exchange"])
@pytest.mark.parametrize("again", [0, 2], ids=["", "killed again"])
def test_a_kill_at_each_call_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool, again: int
) -> None:
    from bushel.storage import publish

    if not exchange:
        monkeypatch.setattr(publish, "exchange_names", lambda *names: False)
    seen = set[str]()
    for stop in range(100):
        root = tmp_path / str(stop)
        publication = staged(root)
        if not dies(stop, partial(publication.commit, MOVES, clear=["a.idx"], drop=["side"])):
            break
        committed = (publication.folder / "commit.json").exists()
        for later in range(again):
            dies(later, partial(recover, root, publication.folder))
        recover(root, publication.folder)
        result = contents(root)
        assert result in (OLD, NEW), stop
        assert (result == NEW) or not committed, stop
        seen.add(result["a.rec"])
    assert seen == {"old", "new"}
    assert stop > 10


def dies(after: int, call: Callable[[], object]) -> bool:
    """Return whether a call, which dies before a change of the file system, needs more changes than this."""
    changes = ("rename", "replace", "unlink", "rmdir", "mkdir")
    count = 0

    class Killed(BaseException):
        pass

    with pytest.MonkeyPatch.context() as patch:
        for name in changes:
            real = getattr(os, name)

            def counted(*args: object, real: object = real, **options: object) -> object:
                nonlocal count
                count += 1
                if count > after:
                    raise Killed
                return real(*args, **options)  # type: ignore[operator]

            patch.setattr(os, name, counted)
        try:
            call()
        except Killed:
            return True
    return False


def test_a_move_that_was_made_is_not_repeated_when_its_target_was_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("data", "table"):
        (tmp_path / name).write_text("old")
    publication = Publication(tmp_path, tmp_path / ".bushel" / "staging" / "x")
    for name in ("data", "table"):
        publication.path_of(name).write_text("new")
    swap = publish._swap

    def fail_at_table(staged: Path, target: Path, old: Path) -> None:
        if target.name == "table":
            raise OSError(122, "quota")
        swap(staged, target, old)

    monkeypatch.setattr(publish, "_swap", fail_at_table)
    with pytest.raises(OSError, match="quota"):
        publication.commit(["data", "table"])
    monkeypatch.undo()
    (tmp_path / "again").write_text("new, with other times")
    (tmp_path / "again").replace(tmp_path / "data")  # as a reader that notes the times of files does
    assert recover(tmp_path, publication.folder)
    assert [(tmp_path / name).read_text() for name in ("data", "table")] == ["new, with other times", "new"]
