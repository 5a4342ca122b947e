"""Keys, values and names that control a terminal are escaped on one, and unchanged in a pipe."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import bushel

EVIL = "\x1b[2J\x1b]0;title\x07\x9b31m"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evil") / "out"
    names = {"label": [f"cat{EVIL}"]}
    with bushel.Writer(path, {"text": "utf8", "label": "int"}, container="ffrecord", labels=names) as writer:
        writer.append({"text": f"a\tb\n{EVIL}", "label": 0}, key=f"k{EVIL}")
    return path


def shown(*words: str) -> bytes:
    """Return what a command prints on a terminal."""
    main, other = pty.openpty()
    with subprocess.Popen([sys.executable, "-m", "bushel", *words], stdout=other, stderr=other) as process:
        os.close(other)
        found = b""
        try:
            while part := os.read(main, 1 << 16):
                found += part
        except OSError:  # Linux reports the end so
            pass
        process.wait()
    os.close(main)
    return found


COMMANDS = (["info"], ["ls"], ["ls", "--fields"], ["cat"], ["get", "0", "text", "--position"], ["card"])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_controls_a_terminal_is_escaped_there(dataset: Path, words: list[str]) -> None:
    found = shown(words[0], str(dataset), *words[1:])
    assert found
    assert b"\x1b" not in found
    assert "\x9b" not in found.decode()


def test_a_pipe_gets_the_characters(dataset: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "bushel", "ls", str(dataset)], capture_output=True, check=True)
    assert done.stdout == f"k{EVIL}\n".encode()
