"""One process at a time writes a shard."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bushel
from bushel.storage import Staging
from bushel.storage.workplaces import Claim

WRITER = """
import sys, bushel
writer = bushel.Writer(sys.argv[1], {"data": "bytes"}, container="tar")
writer.append({"data": b"theirs"}, key="a")
if sys.argv[2] == "flush":
    writer.flush()
print("begun", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_writer(target: Path, then: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", WRITER, str(target), then]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"begun\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("then", ["flush", "nothing"])
def test_a_living_writer_keeps_its_shard_and_a_killed_one_does_not(tmp_path: Path, then: str) -> None:
    target = tmp_path / "set"
    with another_writer(target, then) as process:
        with pytest.raises(FileExistsError, match="another process is writing"):
            bushel.Writer(target, {"data": "bytes"}, container="tar", mode="resume")
        process.kill()
        process.wait()
        with bushel.Writer(target, {"data": "bytes"}, container="tar", mode="resume") as writer:
            assert len(writer) == (then == "flush")
            writer.append({"data": b"mine"}, key="b")
    dataset = bushel.open(target)
    assert list(dataset.keys) == ["a", "b"][then != "flush" :]
    assert bushel.verify(target).ok
    assert not (target / ".bushel" / "staging").exists()


def test_two_that_begin_at_once(tmp_path: Path) -> None:
    mine = bushel.Writer(tmp_path / "set", {"data": "bytes"}, container="tar")  # sees no other one
    with another_writer(tmp_path / "set", "flush"), pytest.raises(FileExistsError, match="another process"):
        mine.append({"data": b"mine"}, key="b")


def test_a_forked_process_does_not_keep_the_claim(tmp_path: Path) -> None:
    claim = Claim(tmp_path / "a")
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes its end
        os._exit(0)
    os.close(reading)
    claim.release()
    imports = "import sys; from pathlib import Path; from bushel.storage.workplaces import Claim"
    script = f"{imports}; Claim(Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], check=True)
    os.close(writing)
    os.waitpid(child, 0)


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    first = Claim(tmp_path / "a" / "b")
    shutil.rmtree(tmp_path / "a")
    Claim(tmp_path / "a" / "b").release()
    assert (tmp_path / "a" / "b").is_dir()
    first.release()


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/etc/x", "a//b", ""])
def test_names_that_lead_out_of_staging(tmp_path: Path, name: str) -> None:
    staging = Staging(tmp_path, "shard")
    with pytest.raises(bushel.FormatError, match="not a valid name of a file in a dataset"):
        staging.open(name)
    staging.discard()
    if name == "..":
        with pytest.raises(bushel.FormatError, match="not a valid name"):
            Staging(tmp_path, name)
    assert list(tmp_path.iterdir()) == []
