"""`progress=True`: a bar in terminals and notebooks, and nothing elsewhere; callbacks as before."""

from __future__ import annotations

import inspect
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sources.folders import image_folder

import bushel
from bushel._pack import merge, split
from bushel._runtime import progress
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
    nbclient.NotebookClient(notebook, timeout=400, kernel_name="python3").execute()
    shown, result = notebook.cells[0].outputs
    assert shown["data"]["text/html"].startswith("verifying <progress max=")
    assert result["data"]["text/plain"] == "True"


def test_no_notebook_and_no_terminal_here() -> None:
    with progress_bar("testing") as report:
        assert report is None


@pytest.mark.parametrize("slow", [True, False])
def test_opening_shows_a_bar_if_it_takes_a_second(slow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a folder that is listed and of a tar without an index, which are read; not of what has an index."""
    shown: list[str] = []

    @contextmanager
    def bar(task: str) -> Iterator[Callable[[Progress], None]]:
        shown.append(task)
        yield lambda now: None

    class Timer:
        """One whose time comes at once, or never."""

        def __init__(self, seconds: float, begin: Callable[[], None]) -> None:
            self.seconds, self.begin = seconds, begin

        def start(self) -> None:
            assert self.seconds == 1
            if slow:
                self.begin()

        def cancel(self) -> None: ...

    monkeypatch.setattr(progress, "progress_bar", bar)
    monkeypatch.setattr("threading.Timer", Timer)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    folder = image_folder(tmp_path / "photos", 3)
    bushel.open(folder)
    with bushel.Writer(tmp_path / "x.tar", {"bin": "bytes"}, container="tar") as writer:
        writer.append({"bin": bytes(9 << 20)}, key="a")
    shutil.rmtree(tmp_path / ".bushel")
    bushel.open(tmp_path / "x.tar")
    bushel.open(tmp_path / "x.tar")  # it has an index now
    assert shown == (["listing", "opening"] if slow else [])


def test_a_terminal_shows_one_bar_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    for _ in range(2):
        with progress_bar("one") as first, progress_bar("two") as second:
            assert (first is None, second is None) == (False, True)
