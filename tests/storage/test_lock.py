"""Locks in a file system: one process has each, or those of one run, until it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.ends_of_threads import in_threads

import bushel
from bushel.storage.holder import LEASE_SECONDS, Holder, this_process
from bushel.storage.lock import Lock

TAKE = """
import sys
from pathlib import Path
from bushel.storage.lock import Lock
lock = Lock([(Path(sys.argv[1]), bool(sys.argv[2]))], "target", run=sys.argv[2])
print("taken", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(path: Path, run: str = "") -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", TAKE, str(path), run]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"taken\n"
            yield process
        finally:
            process.kill()


def leave(path: Path, holder: Holder, seconds: float = 0) -> None:
    """Leave a lock as a holder whose process is gone, whose last sign of life was some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(holder.encode())
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_another_process_is_refused_until_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x.lock"
    with another_process(path) as process:
        with pytest.raises(bushel.errors.InUseError, match=rf"process {process.pid} on .* since .* UTC \(`python -c"):
            Lock([(path, False)], "target")
        process.kill()
        process.wait()
        lock = Lock([(path, False)], "target")
    assert json.loads(path.read_bytes())["pid"] == os.getpid()
    lock.release()
    assert not path.parent.exists()


def test_two_threads_of_one_process(tmp_path: Path) -> None:
    locks, refused = [], []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        try:
            locks.append(Lock([(tmp_path / "w" / "x.lock", False)], "target"))
        except bushel.errors.InUseError as error:
            refused.append(str(error))

    in_threads(8, take)
    assert len(locks) == 1
    assert len(refused) == 7
    assert all("in use by this process" in message and f"{__file__}:" in message for message in refused)
    locks[0].release()
    Lock([(tmp_path / "w" / "x.lock", False)], "target").release()


def test_a_lock_that_nobody_refers_to_ends(tmp_path: Path) -> None:
    Lock([(tmp_path / "w" / "x.lock", False)], "target")
    Lock([(tmp_path / "w" / "x.lock", False)], "target").release()
    assert list(tmp_path.iterdir()) == []


def test_a_fork_has_no_claim_and_does_not_keep_it(tmp_path: Path) -> None:
    lock = Lock([(tmp_path / "w" / "x.lock", False)], "target")
    reading, writing = os.pipe()
    said, says = os.pipe()
    if (child := os.fork()) == 0:
        os.close(writing)
        try:
            lock.check()
        except bushel.errors.InUseError as error:
            os.write(says, str(error).encode())
        lock.release()
        os.write(says, b"\n")
        os.read(reading, 1)  # until the parent closes its end
        os._exit(0)
    os.close(reading)
    with os.fdopen(said, "rb") as file:
        assert f"process {os.getpid()}, and this process ({child}) is a fork of it".encode() in file.readline()
        lock.check()
        with another_process_refused(tmp_path / "w" / "x.lock"):
            pass
        os.unlink(tmp_path / "w" / "x.lock")  # as after a kill, only the lock is left
        leave(tmp_path / "w" / "x.lock", this_process())
        lock.release()
        with another_process(tmp_path / "w" / "x.lock"):
            pass
        os.close(writing)
        os.waitpid(child, 0)
    os.close(says)


@contextmanager
def another_process_refused(path: Path) -> Iterator[None]:
    done = subprocess.run([sys.executable, "-c", TAKE, str(path), ""], capture_output=True, check=False, input=b"")
    assert done.returncode
    assert b"InUseError" in done.stderr
    yield


def test_holders_on_other_machines_have_a_lease(tmp_path: Path) -> None:
    path = tmp_path / "w" / "x.lock"
    there = replace(this_process(), host="other", machine="1", boot="2")
    leave(path, there, LEASE_SECONDS / 2)
    with pytest.raises(
        bushel.errors.InUseError, match="on other.* If that machine is gone, try again 60 seconds after"
    ):
        Lock([(path, False)], "target")
    leave(path, there, LEASE_SECONDS * 2)
    Lock([(path, False)], "target").release()


def test_a_restarted_machine_has_no_locks(tmp_path: Path) -> None:
    own = this_process()
    if not (own.machine and own.boot):
        pytest.skip("this machine has no identity")
    leave(tmp_path / "w" / "x.lock", replace(own, boot="before"))
    Lock([(tmp_path / "w" / "x.lock", False)], "target").release()


def test_a_container_of_this_machine_has_the_lock_or_has_ended(tmp_path: Path) -> None:
    leave(tmp_path / "w" / "x.lock", replace(this_process(), host="container", namespace="pid:[1]"))
    Lock([(tmp_path / "w" / "x.lock", False)], "target").release()


@pytest.mark.parametrize("left", [b"", b"\0" * 300, b"{}", b'{"token": 1}', b"[1"])
def test_a_power_cut_leaves_no_lock(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "w" / "x.lock"
    path.parent.mkdir()
    path.write_bytes(left)
    Lock([(path, False)], "target").release()
    assert not path.exists()


def test_a_lock_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel.storage.lock._RENEW_SECONDS", 0.01)
    with Lock([(tmp_path / "w" / "x.lock", False)], "target"):
        os.utime(tmp_path / "w" / "x.lock", (0, 0))
        give_up = time.monotonic() + 60
        while (tmp_path / "w" / "x.lock").stat().st_mtime < 1 and time.monotonic() < give_up:
            time.sleep(0.01)
        assert (tmp_path / "w" / "x.lock").stat().st_mtime > 1


@pytest.mark.parametrize("taken", [False, True])
def test_a_lost_lock_is_noticed(tmp_path: Path, taken: bool) -> None:
    path = tmp_path / "w" / "x.lock"
    lock = Lock([(path, False)], "target")
    lock.check()
    path.unlink()
    if taken:
        leave(path, replace(this_process(), host="other"))
    with pytest.raises(bushel.errors.InUseError, match="has lost its lock"):
        lock.check()
    lock.release()
    assert path.exists() == taken


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("links", [True, False])
def test_file_systems_without_locks_or_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool, links: bool
) -> None:
    if not locks:
        monkeypatch.setattr("fcntl.flock", _refused)
    if not links:
        monkeypatch.setattr("os.link", _refused)
    path = tmp_path / "w" / "x.lock"
    lock = Lock([(path, False)], "target")
    with pytest.raises(bushel.errors.InUseError, match="in use by this process"):
        Lock([(path, False)], "target")
    lock.release()
    leave(path, replace(this_process(), pid=2**22 + 1))
    Lock([(path, False)], "target").release()


def test_many_processes_take_over_the_lock_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "w" / "x.lock"
    script = """
import sys, time, random
from pathlib import Path
from bushel.errors import InUseError
from bushel.storage.lock import Lock
path, total = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(40):
    try:
        lock = Lock([(path, False)], "target")
    except InUseError:
        continue
    number = int(total.read_text())
    time.sleep(random.random() / 1000)
    total.write_text(str(number + 1))
    print(1)
    if random.random() < 0.5:
        lock.release()
    else:  # as if killed: the file stays, its lock ends
        lock._held[0].forget()
"""
    total = tmp_path / "total"
    total.write_text("0")
    command = [sys.executable, "-c", script, str(path), str(total)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    done = [process.communicate() for process in running]
    assert [errors for _, errors in done] == [b""] * 4
    assert int(total.read_text()) == sum(len(lines.split()) for lines, _ in done)


@pytest.mark.parametrize("locks", [True, False])
def test_processes_of_one_run_share_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool) -> None:
    if not locks:
        monkeypatch.setattr("fcntl.flock", _refused)
    path = tmp_path / "w" / "x.lock"
    first, second = (Lock([(path, True)], "target", run="a") for _ in range(2))
    for other in ({"run": "b"}, {}):
        with pytest.raises(bushel.errors.InUseError, match="in use by this process"):
            Lock([(path, bool(other))], "target", **other)  # type: ignore[arg-type]
    first.release()
    second.check()
    if locks:  # without them, the first one ends the lock for those who come later
        with pytest.raises(bushel.errors.InUseError):
            Lock([(path, False)], "target")
        with another_process(path, "a"):
            second.release()
            with pytest.raises(bushel.errors.InUseError):
                Lock([(path, True)], "target", run="b")
    second.release()
    Lock([(path, True)], "target", run="b").release()
    assert not path.exists()


def test_a_lock_that_is_not_shared_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w" / "x.lock"
    with Lock([(path, False)], "target"):
        monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail(f"it waits for {seconds} s"))
        with pytest.raises(bushel.errors.InUseError):
            Lock([(path, True), (tmp_path / "w" / "y.lock", False)], "target")


def test_many_threads_share_and_exclude_each_other(tmp_path: Path) -> None:
    path, inside, mixed = tmp_path / "w" / "x.lock", list[str](), list[object]()
    runs = iter("ababcabab")

    def take() -> None:
        run = next(runs)
        for _ in range(60):
            try:
                lock = Lock([(path, run != "c")], "target", run=run)
            except bushel.errors.InUseError:
                continue
            inside.append(run)
            others = list(inside)
            if set(others) != {run} or (run == "c" and len(others) > 1):
                mixed.append(others)
            time.sleep(0.0005)
            inside.remove(run)
            lock.release()

    in_threads(9, take)
    assert mixed == []
    assert not path.exists()


def _refused(*args: object) -> None:
    raise OSError(95, "Operation not supported")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_a_folder_in_which_nothing_can_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel.storage.lock._PATIENCE", 0.05)
    with pytest.raises(FileNotFoundError, match="/proc/bushel"):
        Lock([(Path("/proc/bushel/.bushel/writers/dataset.lock"), False)], "/proc/bushel")
