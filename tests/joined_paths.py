"""The places in the source that join a path with a name which is not written there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

__all__ = ["joined"]

_PATH = re.compile(
    r"(?:^|[._(])_?(?:root|folder|path|place|target|parent|final|attempts|base|above|staged|sidecars|staging|directory"
    r"|self)$|Path\([^()]*\)$|as_path\(.*\)$|FOLDER$"
)
"""Expressions that are paths by their end: `run.folder`, `self._root`, `Path(text)`."""


def joined(source: str) -> Iterator[tuple[str, str]]:
    """Yield the function and the text of each place where a path is joined with a name that is not a constant.

    That is `folder / name`, `os.path.join(folder, name)`, `folder.joinpath(name)` and `path.with_name(name)`. `.name`
    of another path is a single component; a number in a format such as `{number:05d}` leads nowhere.
    """
    for scope, node in _scoped("", ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            if not _is_constant(node.right) and _is_path(node.left):
                yield scope, ast.unparse(node)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            names = node.args[1:] if called.endswith("path.join") else node.args
            joins = called.endswith(("path.join", ".joinpath", ".with_name"))
            if joins and not all(map(_is_constant, names)):
                yield scope, ast.unparse(node)


def _scoped(scope: str, tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        inner = f"{scope}.{node.name}".lstrip(".") if isinstance(node, ast.FunctionDef | ast.ClassDef) else scope
        yield inner, node
        yield from _scoped(inner, node)


def _is_path(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _is_path(node.left)
    return _PATH.search(ast.unparse(node)) is not None


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id.lstrip("_").isupper()
    if isinstance(node, ast.Attribute):
        return (
            node.attr == "name" and ast.unparse(node.value) != "shard"
        )  # the name of a shard may come from a manifest
    if isinstance(node, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) or _is_safe(part) for part in node.values)
    if isinstance(node, ast.IfExp):
        return _is_constant(node.body) and _is_constant(node.orelse)
    return isinstance(node, ast.Constant)


def _is_safe(part: ast.expr) -> bool:
    if not isinstance(part, ast.FormattedValue):
        return False
    number = part.format_spec is not None and re.search(r"[dx]'?\)?$", ast.unparse(part.format_spec)) is not None
    return number or _is_constant(part.value)
