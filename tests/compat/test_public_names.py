"""The drop-ins go through public names only: what docs/compatibility.md promises to users and extensions."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import bushel

COMPAT = Path(bushel.__file__).parent / "compat"
PAGES = Path(__file__).resolve().parents[2] / "docs"
_PAGE = (PAGES / "compatibility.md").read_text("utf-8")
_PROMISE = _PAGE.partition("The public names are")[2].partition("; the modules")[0]
PUBLIC = frozenset(re.findall(r"`(bushel(?:\.\w+)*)`", _PROMISE))
"""The modules whose `__all__` is public, as docs/compatibility.md names them."""
SHARED = frozenset({"bushel.compat.batching", "bushel.compat.errors"})
"""Modules that several drop-ins share."""
DROP_INS = ("ffrecord", "granular", "gulpio2", "mxnet", "webdataset")


def imports_of(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, module and name of each import of Bushel's own modules, also within functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names if alias.name.startswith("bushel"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "bushel":
            yield from ((node.lineno, node.module or "", alias.name) for alias in node.names)


def is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC:
        return True
    return module in PUBLIC and (not name or name in importlib.import_module(module).__all__)


@pytest.mark.parametrize("drop_in", DROP_INS)
def test_a_drop_in_uses_public_names_only(drop_in: str) -> None:
    private = [
        f"{path.relative_to(COMPAT)}:{line}: {module}.{name}"
        for path in sorted((COMPAT / drop_in).rglob("*.py"))
        for line, module, name in imports_of(path)
        if not module.startswith(f"bushel.compat.{drop_in}")
        and f"{module}.{name}" != f"bushel.compat.{drop_in}"
        and module not in SHARED
        and not is_public(module, name)
    ]
    assert not private


@pytest.mark.parametrize("drop_in", DROP_INS)
def test_a_drop_in_touches_no_private_attributes_of_others(drop_in: str) -> None:
    """`shard._index` of an object that is not the drop-in's own; those that it defines itself are fine."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted((COMPAT / drop_in).rglob("*.py"))}
    attributes = [
        (path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    ]
    own = {node.attr for _, node in attributes if isinstance(node.ctx, ast.Store)} | {"_replace"}  # of a named tuple
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    foreign = [
        f"{path.relative_to(COMPAT)}:{node.lineno}: {node.attr}"
        for path, node in attributes
        if node.attr.startswith("_") and not node.attr.startswith("__") and node.attr not in own
    ]
    assert not foreign


def test_what_drop_ins_share_uses_public_names_only() -> None:
    private = [
        f"{path.name}:{line}: {module}.{name}"
        for path in sorted(COMPAT.glob("*.py"))
        for line, module, name in imports_of(path)
        if module not in SHARED and not is_public(module, name)
    ]
    assert not private


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_public_modules_export_what_they_list(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


def test_both_pages_name_the_same_modules() -> None:
    page = (PAGES / "extending.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(bushel(?:\.[a-z_0-9]+)+)`(?::| \|)", page, re.MULTILINE)) <= PUBLIC


def test_no_drop_in_hides_an_import_from_the_tests_of_rooms() -> None:
    """`import_module` of Bushel's own modules only gives packages their lazy names."""
    calls = [
        f"{path.relative_to(COMPAT)}:{node.lineno}"
        for path in sorted(COMPAT.rglob("*.py"))
        if path.name != "__init__.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("import_module")
        and "bushel" in ast.unparse(node)
    ]
    assert not calls
