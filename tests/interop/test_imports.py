"""What programs beside the package import of it is there, also where the packages that they need are not."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.paths import ROOT

from bushel.errors import MissingPackageError

PROGRAMS = [
    path
    for folder in ("interop", "benchmarks", "scripts", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def imports(path: Path) -> set[tuple[str, str]]:
    """Return the names of bushel that a program imports anywhere, each with its module."""
    return {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bushel"
        for alias in node.names
    }


def is_there(module: str, name: str) -> bool:
    try:
        loaded = importlib.import_module(module)
    except MissingPackageError:  # of an extra
        return True
    return hasattr(loaded, name) or find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_imported_names_exist(path: Path) -> None:
    assert [f"{module}.{name}" for module, name in sorted(imports(path)) if not is_there(module, name)] == []
