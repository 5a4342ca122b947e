"""The ways for systems without memfd, renameat2 and affinities, forced on this one."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel._runtime import system
from bushel._runtime.system import anonymous_file, exchange_names, memory_limit


@pytest.fixture(params=[False, True], ids=["as it is", "portable"])
def portable(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the portable ways are forced; temporary files are in `tmp_path/tmp`."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    forced = bool(request.param)
    monkeypatch.setenv("BUSHEL_PORTABLE", "1" if forced else "0")
    return forced


def test_an_anonymous_file_has_no_name_and_grows(portable: bool, tmp_path: Path) -> None:
    descriptor = anonymous_file()
    try:
        assert list((tmp_path / "tmp").iterdir()) == []
        for size in (1000, 2_000_000):
            os.ftruncate(descriptor, size)
            with mmap.mmap(descriptor, size) as memory:
                memory[size - 1] = 7
        copy = os.dup(descriptor)  # as another process gets it
        with mmap.mmap(copy, 2_000_000) as memory:
            assert (memory[999], memory[1_999_999]) == (7, 7)
        os.close(copy)
        assert not os.get_inheritable(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="file systems of other systems may not exchange names")
def test_names_are_exchanged_or_it_is_said_that_they_are_not(portable: bool, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    (first / "a").write_text("a")
    second.write_text("b")
    done = exchange_names(first, second)
    assert not (portable and done)
    if done:
        assert (first.read_text(), (second / "a").read_text()) == ("b", "a")
        with pytest.raises(FileNotFoundError) as caught:
            exchange_names(first, tmp_path / "missing")
        assert caught.value.errno == errno.ENOENT
    else:
        assert (second.read_text(), (first / "a").read_text()) == ("b", "a")


@pytest.mark.usefixtures("portable")
def test_worker_processes_and_overwriting(tmp_path: Path) -> None:
    for value in (1, 2):
        with bushel.Writer(tmp_path / "train", {"x": "array"}, container="bag", mode="overwrite") as writer:
            for number in range(20):
                writer.append({"x": np.full(5000, value * number)})
    ds = bushel.open(tmp_path / "train")
    loader = bushel.Loader(ds, 4, processes=2, threads=1)
    batches = [batch["x"][:, 0].tolist() for batch in loader]
    assert sum(batches, []) == [2 * number for number in range(20)]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_memory_of_a_process(portable: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory_limit() <= machine
    groups, own = tmp_path / "groups", tmp_path / "own"
    (groups / "a" / "b").mkdir(parents=True)
    (groups / "memory" / "c").mkdir(parents=True)
    (groups / "a" / "memory.max").write_text("2000000\n")
    (groups / "a" / "b" / "memory.max").write_text("max\n")
    (groups / "memory" / "memory.limit_in_bytes").write_text("1000000\n")
    monkeypatch.setattr(system, "_CONTROL_GROUPS", groups)
    monkeypatch.setattr(system, "_OWN_GROUPS", own)
    asked = memory_limit.__wrapped__  # it is kept for the process
    assert asked() == machine  # a system without groups
    for text, limit in (
        ("0::/a/b\n", 2_000_000),  # of the group above
        ("4:memory:/outside/of/the/container\n1:cpu:/a\n0::/\n", 1_000_000),
        ("1:name=systemd:/a\n0::/a/b\n7:cpu,memory:/c\n", 1_000_000),
        ("0::/\n", machine),
    ):
        own.write_text(text)
        assert asked() == (machine if portable else limit)
