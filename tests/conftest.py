"""Fixtures of all tests: the golden datasets, and the photos and videos where they are there."""

from __future__ import annotations

import compileall
import gc
import marshal
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.paths import GOLDEN, SAMPLE_DATA

import bushel

PACKAGE = Path(bushel.__file__).parent
MEMORY = Path("/dev/shm")  # of Linux: files in memory
_LEAST_MEMORY = 8 << 30  # bytes that must be free there

# Tests make 100,000 small files and folders: a file system in memory takes a third of the system's time for them.
# Tests that need a disk use `folder_on_disk`.
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= _LEAST_MEMORY:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# The same examples every time, so that a change is judged by what it changes; new ones are for the night. How long they
# take to make says what else the machine is doing.
settings.register_profile(
    "default", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Shells have what they run in the background ignore interrupts, and it would pass that on to the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more process than processors: tests wait for programs that they start, for locks and for retries."""
    return (os.cpu_count() or 1) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the package once: tests start a thousand processes. And look for no garbage while tests are collected."""
    gc.disable()
    if not hasattr(session.config, "workerinput"):
        _remove_damaged(PACKAGE)
        compileall.compile_dir(PACKAGE, quiet=2)
    sys.dont_write_bytecode = False  # pytest keeps the tests that it has rewritten


def _remove_damaged(folder: Path) -> None:
    for path in folder.rglob("*.pyc"):
        try:
            marshal.loads(path.read_bytes()[16:])
        except (EOFError, ValueError, TypeError):
            path.unlink()


def pytest_collection_finish() -> None:
    """From now on nothing is compiled: on a full disk, Python leaves half of a compiled module."""
    gc.freeze()
    gc.enable()
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def _folder(name: str) -> Path:
    folder = SAMPLE_DATA / name
    if not folder.is_dir():
        pytest.skip(f"the sample data is not here ({name})")
    return folder


@pytest.fixture(scope="session")
def _golden_copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[int, int]]]:
    copy = tmp_path_factory.mktemp("data") / "golden"
    shutil.copytree(GOLDEN, copy)
    return copy, _files_of(copy)


def _files_of(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for parent, folders, names in os.walk(folder):
        if ".bushel" in folders:  # an index that reading has left: the next test starts without it
            shutil.rmtree(Path(parent, ".bushel"))
            folders.remove(".bushel")
        for name in names:
            stat = os.stat(os.path.join(parent, name))
            found[os.path.join(parent, name)] = (stat.st_size, stat.st_mtime_ns)
    return found


@pytest.fixture
def golden(_golden_copy: tuple[Path, dict[str, tuple[int, int]]]) -> Iterator[Path]:
    """The datasets written by the original packages, to be read only: a test that changes one copies it.

    All tests of a process read the same copy, because opening a dataset leaves an index beside it.
    """
    copy, files = _golden_copy
    yield copy
    assert _files_of(copy) == files, "the test changed the golden datasets: it must copy what it changes"


@pytest.fixture(scope="session")
def photos() -> Path:
    """Real photos in folders, one per class."""
    return _folder("photos")


@pytest.fixture(scope="session")
def videos() -> Path:
    """Real video clips."""
    return _folder("videos")


@pytest.fixture(scope="session", autouse=True)
def _no_waits_for_the_disk() -> Iterator[None]:
    """What a test writes is read by this system: tests/faults, in processes of their own, lose what is not on disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_in_tmp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Killed processes and libraries leave folders where the system keeps temporary files."""
    folder = str(tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":  # elsewhere its name is too long for the sockets of multiprocessing
            patch.setenv("TMPDIR", folder)
            patch.setattr("tempfile.tempdir", folder)
        yield


@pytest.fixture(autouse=True)
def _own_cache_of_tables(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tables of remote files that a test learns from its user, and from other tests."""
    monkeypatch.setenv("BUSHEL_TABLES_DIR", str(tmp_path_factory.getbasetemp() / f"tables-{os.urandom(8).hex()}"))
