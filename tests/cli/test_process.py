"""The command as a process: signals, pipes, and how fast it starts to be of use."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.running import SLOW, bushel_command
from tests.integrity.small import key, reading, write
from tests.interrupts import interruptible

import bushel


def test_the_module_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(bushel_command("--version"), capture_output=True, text=True, check=True)
    assert done.stdout == f"{bushel.__version__}\n"
    done = subprocess.run(bushel_command("info", tmp_path / "nowhere"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"bushel: no such file or folder: {tmp_path / 'nowhere'}\n"


def test_the_command_line_alone_imports_nothing_heavy() -> None:
    code = "import bushel.cli.app, sys; print(*{'numpy', 'rich', 'PIL', 'safetensors', 'msgspec'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_no_progress_where_nobody_looks_on(tmp_path: Path) -> None:
    write(tmp_path / "in", "tar")
    command = bushel_command("convert", tmp_path / "in", tmp_path / "out", "-c", "bag")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("command", ["ls", "cat"])
def test_output_that_nobody_reads_to_its_end(tmp_path: Path, command: str) -> None:
    write(tmp_path / "in", "ffrecord", count=4000, shard_samples=None)
    with subprocess.Popen(
        bushel_command(command, tmp_path / "in", "--fields", *(["label"] if command == "cat" else [])),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert key(0).encode() in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize("arguments", [["info"], ["cat"], ["get", "0"]])
def test_output_that_is_closed_from_the_beginning(tmp_path: Path, arguments: list[str]) -> None:
    write(tmp_path / "in", "tar")
    name, *more = arguments
    command = bushel_command(name, tmp_path / "in", *more)
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_bytes_go_through_standard_output_as_they_are(tmp_path: Path) -> None:
    write(tmp_path / "in", "recordio")
    command = bushel_command("get", tmp_path / "in", 2, "image")
    stored = reading(tmp_path / "in").read([2], decode=False)[0]["image"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == stored


def test_keys_that_are_no_text(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in.ffr", {"x": "utf8"}, sync=False) as writer:
        writer.append({"x": "1"}, key=b"\xff\xfe/a".decode("utf-8", "surrogateescape"))
    done = subprocess.run(bushel_command("ls", tmp_path / "in.ffr"), capture_output=True, check=True)
    assert done.stdout == b"\xff\xfe/a\n"
    done = subprocess.run(bushel_command("ls", tmp_path / "in.ffr", "--json"), capture_output=True, check=True)
    assert b'"key": "\\udcff\\udcfe/a"' in done.stdout


WHOLE = {"", ".bag", ".tar", ".ffr", ".gulp", ".rec"}
"""The ends of names that a shard has when it is whole; a bag of several fields is a folder."""


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "gulp", "recordio"])
def test_ctrl_c_leaves_nothing_broken_and_resume_completes_it(tmp_path: Path, container: str) -> None:
    write(tmp_path / "in", "tar", count=300, shard_samples=None)
    command = [sys.executable, "-c", SLOW, "convert", str(tmp_path / "in"), str(tmp_path / "out")]
    command += ["-c", container, "--shard-samples", "40"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=interruptible(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )
    deadline = time.monotonic() + 60
    while not _finished_shards(tmp_path / "out") and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, ""), error
    assert f"--resume continues {tmp_path / 'out'}" in error
    assert "Traceback" not in error
    report = bushel.verify(tmp_path / "out")
    assert [problem.kind for problem in report.problems] in (["incomplete"], ["incomplete", "unfinished"])
    kept = len(reading(tmp_path / "out", allow_incomplete=True))
    assert 0 < kept < 300
    again = bushel_command(
        *("convert", tmp_path / "in", tmp_path / "out", "-c", container, "--shard-samples", 40, "--resume")
    )
    assert " from before " in subprocess.run(again, capture_output=True, text=True, check=True).stdout
    whole, original = reading(tmp_path / "out"), reading(tmp_path / "in")
    assert list(whole.keys) == list(original.keys)
    fields = ["image"]
    assert whole.read(range(300), fields, decode=False) == original.read(range(300), fields, decode=False)
    assert bushel.verify(tmp_path / "out").problems == ()


INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "bushel.cli.check":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
signal.signal(signal.SIGINT, signal.default_int_handler)
from bushel.cli import main
main()
"""


def test_ctrl_c_before_a_command_runs_ends_as_later(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, "verify", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=interruptible())
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "bushel: stopped\n")


def _finished_shards(folder: Path) -> bool:
    """Return whether a file is there that gets its name when its shard is whole: the table of a pair comes before."""
    return folder.is_dir() and any(path.suffix in WHOLE for path in folder.iterdir() if path.name[0] != ".")
