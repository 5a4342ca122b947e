"""Claims in a file system: one process has each, until it ends."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ends_of_threads import in_threads

import bushel
from bushel.storage.claims import LEASE_SECONDS, Claim, Holder, claims_in, this_process
from bushel.storage.claims.files import FileClaim, take_file

TAKE = """
import sys
from pathlib import Path
from bushel.storage.claims import Claim
claim = Claim(Path(sys.argv[1]), "target")
print("taken", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", TAKE, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"taken\n"
            yield process
        finally:
            process.kill()


def leave(path: Path, holder: Holder, seconds: float = 0) -> None:
    """Leave a claim as a holder whose process is gone, whose last sign of life was some time ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(holder.encode())
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_another_process_is_refused_until_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x.claim"
    with another_process(path) as process:
        with pytest.raises(bushel.InUseError, match=rf"process {process.pid} on .* since .* UTC \(`python -c"):
            Claim(path, "target")
        process.kill()
        process.wait()
        claim = Claim(path, "target")
    assert json.loads(path.read_bytes())["pid"] == os.getpid()
    claim.release()
    assert not path.parent.exists()


def test_two_threads_of_one_process(tmp_path: Path) -> None:
    claims, refused = [], []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        try:
            claims.append(Claim(tmp_path / "w" / "x.claim", "target"))
        except bushel.InUseError as error:
            refused.append(str(error))

    in_threads(8, take)
    assert len(claims) == 1
    assert len(refused) == 7
    assert all("in use by this process" in message and f"{__file__}:" in message for message in refused)
    claims[0].release()
    Claim(tmp_path / "w" / "x.claim", "target").release()


def test_a_claim_that_nobody_refers_to_ends(tmp_path: Path) -> None:
    Claim(tmp_path / "w" / "x.claim", "target")
    Claim(tmp_path / "w" / "x.claim", "target").release()
    assert list(tmp_path.iterdir()) == []


def test_a_fork_has_no_claim_and_does_not_keep_it(tmp_path: Path) -> None:
    claim = Claim(tmp_path / "w" / "x.claim", "target")
    reading, writing = os.pipe()
    said, says = os.pipe()
    if (child := os.fork()) == 0:
        os.close(writing)
        try:
            claim.check()
        except bushel.InUseError as error:
            os.write(says, str(error).encode())
        claim.release()
        os.write(says, b"\n")
        os.read(reading, 1)  # until the parent closes its end
        os._exit(0)
    os.close(reading)
    with os.fdopen(said, "rb") as file:
        assert f"process {os.getpid()}, and this process ({child}) is a fork of it".encode() in file.readline()
        claim.check()
        with another_process_refused(tmp_path / "w" / "x.claim"):
            pass
        os.unlink(tmp_path / "w" / "x.claim")  # as after a kill, only the lock is left
        leave(tmp_path / "w" / "x.claim", this_process())
        claim.release()
        with another_process(tmp_path / "w" / "x.claim"):
            pass
        os.close(writing)
        os.waitpid(child, 0)
    os.close(says)


@contextmanager
def another_process_refused(path: Path) -> Iterator[None]:
    done = subprocess.run([sys.executable, "-c", TAKE, str(path)], capture_output=True, check=False, input=b"")
    assert done.returncode
    assert b"InUseError" in done.stderr
    yield


def test_holders_on_other_machines_have_a_lease(tmp_path: Path) -> None:
    path = tmp_path / "w" / "x.claim"
    there = replace(this_process(), host="other", machine="1", boot="2")
    leave(path, there, LEASE_SECONDS / 2)
    with pytest.raises(bushel.InUseError, match="on other.* If that machine is gone, try again 60 seconds after"):
        Claim(path, "target")
    leave(path, there, LEASE_SECONDS * 2)
    Claim(path, "target").release()


def test_a_restarted_machine_has_no_claims(tmp_path: Path) -> None:
    own = this_process()
    if not (own.machine and own.boot):
        pytest.skip("this machine has no identity")
    leave(tmp_path / "w" / "x.claim", replace(own, boot="before"))
    Claim(tmp_path / "w" / "x.claim", "target").release()


def test_a_container_of_this_machine_has_the_lock_or_has_ended(tmp_path: Path) -> None:
    leave(tmp_path / "w" / "x.claim", replace(this_process(), host="container", namespace="pid:[1]"))
    Claim(tmp_path / "w" / "x.claim", "target").release()


@pytest.mark.parametrize("left", [b"", b"\0" * 300, b"{}", b'{"token": 1}', b"[1"])
def test_a_power_cut_leaves_no_claim(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "w" / "x.claim"
    path.parent.mkdir()
    path.write_bytes(left)
    Claim(path, "target").release()
    assert not path.exists()


def test_a_claim_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel.storage.claims.claim._RENEW_SECONDS", 0.01)
    with Claim(tmp_path / "w" / "x.claim", "target"):
        os.utime(tmp_path / "w" / "x.claim", (0, 0))
        give_up = time.monotonic() + 60
        while (tmp_path / "w" / "x.claim").stat().st_mtime < 1 and time.monotonic() < give_up:
            time.sleep(0.01)
        assert (tmp_path / "w" / "x.claim").stat().st_mtime > 1


@pytest.mark.parametrize("taken", [False, True])
def test_a_lost_claim_is_noticed(tmp_path: Path, taken: bool) -> None:
    path = tmp_path / "w" / "x.claim"
    claim = Claim(path, "target")
    claim.check()
    path.unlink()
    if taken:
        leave(path, replace(this_process(), host="other"))
    with pytest.raises(bushel.InUseError, match="has lost its claim"):
        claim.check()
    claim.release()
    assert path.exists() == taken


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("links", [True, False])
def test_file_systems_without_locks_or_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool, links: bool
) -> None:
    def refused(*args: object) -> None:
        raise OSError(95, "Operation not supported")

    if not locks:
        monkeypatch.setattr("fcntl.flock", refused)
    if not links:
        monkeypatch.setattr("os.link", refused)
    path = tmp_path / "w" / "x.claim"
    claim = Claim(path, "target")
    with pytest.raises(bushel.InUseError, match="in use by this process"):
        Claim(path, "target")
    claim.release()
    leave(path, replace(this_process(), pid=2**22 + 1))
    Claim(path, "target").release()


def test_many_processes_take_over_the_claim_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "w" / "x.claim"
    script = """
import sys, time, random
from pathlib import Path
from bushel import InUseError
from bushel.storage.claims import Claim
path, total = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(40):
    try:
        claim = Claim(path, "target")
    except InUseError:
        continue
    number = int(total.read_text())
    time.sleep(random.random() / 1000)
    total.write_text(str(number + 1))
    print(1)
    if random.random() < 0.5:
        claim.release()
    else:  # as if killed: the file stays, its lock ends
        claim._held.place.forget()
"""
    total = tmp_path / "total"
    total.write_text("0")
    command = [sys.executable, "-c", script, str(path), str(total)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    done = [process.communicate() for process in running]
    assert [errors for _, errors in done] == [b""] * 4
    assert int(total.read_text()) == sum(len(lines.split()) for lines, _ in done)


def test_claims_in_a_folder(tmp_path: Path) -> None:
    own = Claim(tmp_path / "w" / "x.claim", "target")
    leave(tmp_path / "w" / "gone.claim", replace(this_process(), pid=2**22 + 1))
    leave(tmp_path / "w" / "y.1.partial", this_process(), LEASE_SECONDS * 2)
    other = Claim(tmp_path / "w" / "z.claim", "target")
    assert list(claims_in(tmp_path / "w", own)) == ["z.claim"]
    assert sorted(path.name for path in (tmp_path / "w").iterdir()) == ["gone.claim", "x.claim", "z.claim"]
    own.release()
    other.release()


def test_a_folder_that_is_missing_is_the_caller_s_affair(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        take_file(tmp_path / "w" / "x.claim", this_process())


def test_an_error_of_the_claim_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(handle: int) -> os.stat_result:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    claim = take_file(tmp_path / "target", this_process("target"))
    assert isinstance(claim, FileClaim)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", stale)
        with pytest.raises(OSError, match="target") as caught:
            _ = claim.now
    assert caught.value.filename == str(tmp_path / "target")
    claim.release()
