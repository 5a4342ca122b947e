"""What the commands import: as little as their work needs, so that they start fast."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bushel

UNUSED = {
    *("PIL", "av", "pydantic", "pyarrow", "obstore", "rich", "tarfile", "typer", "zipfile"),
    *("bushel._writer", "bushel._pack", "bushel.integrity", "bushel.loader", "bushel.storage.objects"),
    *("bushel._dataset.views.stream", "bushel._index.arrow", "bushel.codecs.video", "bushel.storage.staging"),
}
"""Modules that looking at a local dataset does not need."""


def modules_of(*arguments: object) -> set[str]:
    """Return the modules that a command imports."""
    program = (
        "import sys; from bushel.cli import main; sys.argv[0] = 'bushel'\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "bushel"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with bushel.Writer(tmp_path / "data", {"text": "utf8", "label": "int"}, container="tar") as writer:
        for number in range(3):
            writer.append({"text": "abc", "label": number}, key=f"k{number}")
    return tmp_path / "data"


def test_help_imports_neither_numpy_nor_the_commands() -> None:
    found = modules_of("--help")
    assert "numpy" not in found
    assert len(own(found)) <= 10, sorted(own(found))


@pytest.mark.parametrize("arguments", [("ls", "{}"), ("info", "{}"), ("get", "{}", "k1"), ("get", "{}", "k1", "text")])
def test_looking_at_a_dataset_imports_what_it_uses(data: Path, arguments: tuple[str, ...]) -> None:
    found = modules_of(*(argument.format(data) for argument in arguments))
    assert found & UNUSED == set()
    assert len(own(found)) <= 76, sorted(own(found))
    assert len(found) <= 420
