"""The first hour of CONTRIBUTING.md: each command of its block runs, in the environment of these tests."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import shown
from tests.paths import ROOT

LINES = next(text for _, text in shown("CONTRIBUTING.md") if text.startswith("make demo")).splitlines()


def words_of(line: str) -> list[str]:
    """The command of a line, which uses this environment instead of `.venv`."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":  # what it does after it has made the environment
        printed = subprocess.run(
            [*words, "--dry-run", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        words = shlex.split(printed.stdout.splitlines()[-1])
    assert words[0].startswith(".venv/bin/"), line
    program = words[0].removeprefix(".venv/bin/")
    return [sys.executable, *([] if program == "python" else ["-m", program]), *words[1:]]


@pytest.mark.parametrize("line", LINES)
def test_the_commands_of_the_first_hour(line: str, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        words_of(line),
        cwd=ROOT,
        env={**kept, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_the_block_is_that_of_the_first_hour() -> None:
    assert [line.split()[0] for line in LINES] == ["make", ".venv/bin/pytest", ".venv/bin/bushel"]
    assert (ROOT / LINES[1].split()[1]).is_dir()
