"""One writer at a time owns a target, whatever its mode, thread, process or way of writing."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests._writer.other_writer import SPEC, add, another_writer

import bushel
from bushel._dataset.open.locking import lock_run
from bushel._pack import merge
from bushel._pack.run_folder import find_run
from bushel._writer.target import Mode

FILES = {"tar": "x.tar", "recordio": "x.rec", "ffrecord": "x.ffr"}
MODES: tuple[Mode, ...] = ("create", "append", "resume", "overwrite")


def dataset(path: Path, container: str, **options: Any) -> None:
    """Write a dataset of four samples."""
    with bushel.Writer(path, SPEC, container=container, **options) as writer:
        add(writer, "old", 4)


def keys(path: Path) -> list[str]:
    """Keys of a dataset that is whole."""
    assert bushel.verify(path).ok
    return list(bushel.open(path).keys)


def refused_in_every_mode(path: Path, container: str, process: int, **options: Any) -> None:
    """Check that no writer can be opened while another process writes."""
    for mode in MODES:
        with pytest.raises(bushel.errors.InUseError, match=rf"process {process} on .* since .*other_writer"):
            bushel.Writer(path, SPEC, container=container, mode=mode, **options)


@pytest.mark.parametrize("container", FILES)
def test_two_processes_and_one_file(tmp_path: Path, container: str) -> None:
    path = tmp_path / FILES[container]
    dataset(path, container)
    with another_writer(path, container, "append") as process:
        refused_in_every_mode(path, container, process.pid)
    assert keys(path) == ["old0", "old1", "old2", "old3", "theirs0", "theirs1", "theirs2"]


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_two_processes_and_one_folder(tmp_path: Path, container: str) -> None:
    path = tmp_path / "ds"
    dataset(path, container, shard_samples=2)
    with another_writer(path, container, "append") as process:
        refused_in_every_mode(path, container, process.pid, shard_samples=2)
    assert keys(path) == ["old0", "old1", "old2", "old3", "theirs0", "theirs1", "theirs2"]


def test_an_overwriter_excludes_others(tmp_path: Path) -> None:
    path = tmp_path / "ds"
    dataset(path, "tar", shard_samples=2)
    with another_writer(path, "tar", "overwrite") as process:
        refused_in_every_mode(path, "tar", process.pid)
        assert keys(path) == ["old0", "old1", "old2", "old3"]
    assert keys(path) == ["theirs0", "theirs1", "theirs2"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["ds", "x.tar"])
def test_one_process_that_opens_a_writer_twice(tmp_path: Path, name: str, mode: Mode) -> None:
    path = tmp_path / name
    dataset(path, "tar")
    first = bushel.Writer(path, SPEC, container="tar", mode="append")
    add(first, "new", 2)
    with pytest.raises(
        bushel.errors.InUseError, match=rf"in use by this process: .* opened at {__file__}:\d+, .* close\(\)"
    ):
        bushel.Writer(path, SPEC, container="tar", mode=mode)
    first.close()
    bushel.Writer(path, SPEC, container="tar", mode="append").close()
    assert keys(path) == ["old0", "old1", "old2", "old3", "new0", "new1"]


def test_threads_that_append(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    dataset(path, "tar")
    start, done, refused = threading.Barrier(6), [], []

    def work(number: int) -> None:
        start.wait()
        try:
            with bushel.Writer(path, SPEC, mode="append") as writer:
                add(writer, f"thread{number}-", 3)
            done.append(number)
        except bushel.errors.InUseError:
            refused.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) + len(refused) == 6
    found = keys(path)
    assert len(found) == 4 + 3 * len(done)
    assert sorted(found[4:]) == sorted(f"thread{number}-{each}" for number in done for each in range(3))


def test_a_link_and_the_folder_it_leads_to(tmp_path: Path) -> None:
    dataset(tmp_path / "ds", "tar")
    (tmp_path / "link").symlink_to("ds")
    with bushel.Writer(tmp_path / "link", SPEC, container="tar", mode="append", shard_samples=2):
        for path in (tmp_path / "ds", tmp_path / "ds" / ".." / "ds"):
            with pytest.raises(bushel.errors.InUseError):
                bushel.Writer(path, SPEC, container="tar", mode="append")


def test_a_link_to_a_file_and_the_file(tmp_path: Path) -> None:
    """What changes lists and tables through a link has the lock of the file."""
    (tmp_path / "data").mkdir()
    (tmp_path / "links").mkdir()
    file, link = tmp_path / "data/a.tar", tmp_path / "links/a.tar"
    with bushel.Writer(file, {"label": "int"}) as writer:
        writer.append({"label": 1}, key="k")
    link.symlink_to(file)
    with bushel.Writer(file, {"label": "int"}, mode="append"):
        for write in (lambda: bushel.remove(link, keys=["k"], reason="no"), lambda: bushel.index(link, force=True)):
            with pytest.raises(bushel.errors.InUseError, match="a.tar"):
                write()
    assert bushel.remove(link, keys=["k"], reason="no").samples == 1
    assert (len(bushel.open(file)), len(bushel.open(link))) == (0, 0)
    shutil.rmtree(tmp_path / "data/.bushel")
    bushel.index(link)  # as the file has nothing of Bushel's beside it, what the link gets is beside the link
    assert {path.name for path in (tmp_path / "data").iterdir()} == {"a.tar"}


def test_a_folder_and_one_of_its_shards(tmp_path: Path) -> None:
    dataset(tmp_path / "ds", "tar", shard_samples=2)
    shard = tmp_path / "ds" / "shard-000001.tar"
    with bushel.Writer(tmp_path / "ds", SPEC, container="tar", mode="append"), pytest.raises(bushel.errors.InUseError):
        bushel.Writer(shard, SPEC, mode="append")
    with bushel.Writer(shard, SPEC, mode="append"), pytest.raises(bushel.errors.InUseError):
        bushel.Writer(tmp_path / "ds", SPEC, container="tar", mode="append")


def test_files_in_one_folder_are_targets_of_their_own(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tar", SPEC) as first, bushel.Writer(tmp_path / "b.tar", SPEC) as second:
        add(first, "a", 1)
        add(second, "b", 1)
    assert keys(tmp_path / "a.tar") + keys(tmp_path / "b.tar") == ["a0", "b0"]


def test_a_killed_writer_owns_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    dataset(path, "tar")
    with another_writer(path, "tar", "append") as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with bushel.Writer(path, SPEC, mode="resume") as writer:
            add(writer, "mine", 1)
    assert keys(path)[-1] == "mine0"
    assert not (tmp_path / ".bushel" / "writers").exists()


def _index(path: Path, source: Path) -> object:
    return bushel.index(path)


def _pack(path: Path, source: Path) -> object:
    return bushel.pack([{"data": b"x", "label": 1}], path, container="tar", mode="overwrite")


def _pack_parts(path: Path, source: Path) -> object:
    samples = [{"data": b"x", "label": 1}] * 4
    return bushel.pack(samples, path, container="tar", mode="overwrite", parts=2)


def _convert(path: Path, source: Path) -> object:
    return bushel.convert(source, path, container="tar", mode="append")


def _repair(path: Path, source: Path) -> object:
    return bushel.repair(source, path, mode="resume")


def _merge(path: Path, source: Path) -> object:
    return merge([source, source], path, container="tar", keys=lambda key: f"{key}x", mode="append")


WAYS = (_index, _pack, _pack_parts, _convert, _repair, _merge)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["ds", "x.tar"])
def test_every_way_of_writing(tmp_path: Path, way: Callable[[Path, Path], object], name: str) -> None:
    path, source = tmp_path / name, tmp_path / "in"
    dataset(path, "tar")
    dataset(source, "tar")
    with bushel.Writer(path, SPEC, container="tar", mode="append") as writer:
        add(writer, "new", 1)
        with pytest.raises(bushel.errors.InUseError, match="in use by this process"):
            way(path, source)
    assert keys(path) == ["old0", "old1", "old2", "old3", "new0"]


def test_a_fork_cannot_use_the_writer(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", SPEC, container="tar") as writer:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                add(writer, "child", 1)
            except bushel.errors.InUseError as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as said:
            assert b"is a fork of it: open the writer in the process that writes" in said.read()
        os.waitpid(child, 0)
        add(writer, "parent", 1)
    assert keys(tmp_path / "ds") == ["parent0"]


def test_a_writer_that_cannot_be_opened_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bushel.Writer(tmp_path / "new" / "ds", container="tar", mode="append")
    with pytest.raises(ValueError, match="a new dataset needs a spec"):
        bushel.Writer(tmp_path / "new" / "ds", container="tar", mode="resume")
    assert list(tmp_path.iterdir()) == []


def test_a_writer_of_a_part_and_the_run_exclude_each_other(tmp_path: Path) -> None:
    samples = [{"__key__": f"k{number}", "n": number} for number in range(6)]
    options: dict[str, Any] = {"container": "tar", "spec": {"n": "int"}, "parts": 2}
    bushel.pack(samples, tmp_path / "ds", part=0, **options)
    part = tmp_path / "ds" / "part-00000"
    with bushel.Writer(part, {"n": "int"}, mode="append", sync=False) as writer:
        writer.append({"n": 9}, key="x")
        with pytest.raises(bushel.errors.InUseError, match="part-00000|ds"):
            bushel.pack(samples, tmp_path / "ds", **options)
        with pytest.raises(bushel.errors.InUseError):
            bushel.Writer(part, {"n": "int"}, mode="append", sync=False)
        writer.suspend()
    assert bushel.pack(samples, tmp_path / "ds", **options).samples == 3
    run = find_run(tmp_path / "ds")
    with (
        lock_run(tmp_path / "ds", single=False, run=run[1].fingerprint, join=lambda: None),
        pytest.raises(bushel.errors.InUseError),
    ):
        bushel.Writer(part, {"n": "int"}, mode="append", sync=False)
    assert len(bushel.open(tmp_path / "ds")) == 6
    assert not (tmp_path / "ds" / ".bushel" / "writers").exists()
