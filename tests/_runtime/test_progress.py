"""`progress=True`: a bar in terminals and notebooks, and nothing elsewhere; callbacks as before."""

from __future__ import annotations

import inspect
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bushel
from bushel._pack import merge, split
from bushel._runtime.progress import Progress, progress_bar

LONG = [bushel.pack, bushel.convert, bushel.index, bushel.verify, bushel.repair, split, merge]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with bushel.Writer(tmp_path / "data", {"label": "int"}, container="tar", shard_samples=20) as writer:
        for number in range(60):
            writer.append({"label": number}, key=f"k{number}")
    return tmp_path / "data"


@pytest.mark.parametrize("function", LONG, ids=lambda function: str(function.__name__))
def test_every_long_call_has_it(function: Callable[..., Any]) -> None:
    parameter = inspect.signature(function).parameters["progress"]
    assert parameter.default is None
    assert "ShowProgress" in str(parameter.annotation)
    assert function.__doc__
    assert "progress: True for a bar" in function.__doc__


def test_nothing_is_shown_without_a_terminal(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert bushel.verify(data, progress=True).ok
    bushel.convert(data, data.parent / "bag", container="bag", progress=True)
    parts = split(data, data.parent / "parts", {"a": 0.5, "b": 0.5}, progress=True)
    merge([data.parent / "parts" / name for name in parts], data.parent / "merged", progress=True)
    assert len(bushel.open(data.parent / "merged")) == 60
    bushel.index(data, force=True, progress=True)
    assert capfd.readouterr() == ("", "")


def test_false_is_as_none_and_callbacks_are_called(data: Path) -> None:
    seen: list[Progress] = []
    assert bushel.verify(data, progress=False).ok
    assert bushel.verify(data, progress=seen.append).ok
    assert seen[-1].done == seen[-1].total


def test_a_bar_in_a_terminal(data: Path) -> None:
    code = (
        "import sys, bushel\n"
        "from bushel._runtime.progress import Progress, progress_bar\n"
        "with progress_bar('testing') as report:\n"
        "    report(Progress(30, 60, 'samples', errors=1, parts=(1, 2), retries=2))\n"
        "assert bushel.verify(sys.argv[1], progress=True).ok"
    )
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb") as terminal:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
        subprocess.run([sys.executable, "-c", code, str(data)], stderr=terminal, env=environment, check=True)
    found = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        found += piece
    os.close(ours)
    text = found.decode()
    assert "testing" in text
    assert "30/60 samples  1/2 parts" in text
    assert "2 retries" in text
    assert "verifying" in text


def test_a_bar_in_a_notebook(data: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cell = nbformat.v4.new_code_cell(f"import bushel\nbushel.verify({str(data)!r}, progress=True).ok")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    shown, result = notebook.cells[0].outputs
    assert shown["data"]["text/html"].startswith("verifying <progress max=")
    assert result["data"]["text/plain"] == "True"


def test_no_notebook_and_no_terminal_here() -> None:
    with progress_bar("testing") as report:
        assert report is None
