"""The stubs of the kernels document the module that was compiled: its names, parameters and which have defaults."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from tests.paths import ROOT

from bushel.kernels import _kernels

FOLDER = ROOT / "src/bushel/kernels"
STUB = [
    node
    for path in sorted(FOLDER.glob("_*.pyi"))
    if path.stem != "_kernels"
    for node in ast.parse(path.read_text("utf-8")).body
]
"""What the stubs of all subjects define."""
Parameters = list[tuple[str, bool]]


def parameters(function: ast.FunctionDef) -> Parameters:
    """Return the names of a function's parameters, without `self`, each with whether it has a default."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [False] * (len(plain) - len(given.defaults)) + [True] * len(given.defaults)
    named = [(each.arg, default) for each, default in zip(plain, defaults, strict=True)]
    named += [
        (each.arg, default is not None) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return [(name, default) for name, default in named if name != "self"]


def compiled(function: Any) -> list[Parameters]:
    """Return the parameters of each overload of a compiled function."""
    found = []
    for signature, *_ in function.__nb_signature__:
        source = re.sub(r"\\=?\d+", "...", signature)  # nanobind numbers the defaults
        [parsed] = ast.parse(f"{source}: ...").body
        assert isinstance(parsed, ast.FunctionDef)
        found.append(parameters(parsed))
    return found


def of_stub(kind: type[ast.stmt], body: list[ast.stmt]) -> dict[str, Any]:
    return {node.name: node for node in body if isinstance(node, kind)}  # type: ignore[attr-defined]


FUNCTIONS = sorted(name for name in dir(_kernels) if hasattr(getattr(_kernels, name), "__nb_signature__"))
CLASSES = sorted(name for name in dir(_kernels) if isinstance(getattr(_kernels, name), type))


def test_the_same_names() -> None:
    assert set(FUNCTIONS) == of_stub(ast.FunctionDef, STUB).keys()
    assert set(CLASSES) == of_stub(ast.ClassDef, STUB).keys()


def test_the_stub_of_the_module_has_the_names_of_all_subjects() -> None:
    imports = ast.parse((FOLDER / "_kernels.pyi").read_text("utf-8")).body[1:]
    subjects = [path.stem for path in sorted(FOLDER.glob("_*.pyi")) if path.stem != "_kernels"]
    assert [ast.unparse(line) for line in imports] == [f"from .{subject} import *" for subject in subjects]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_same_parameters(name: str) -> None:
    function = of_stub(ast.FunctionDef, STUB)[name]
    assert ast.get_docstring(function)
    assert parameters(function) in compiled(getattr(_kernels, name))


@pytest.mark.parametrize("name", CLASSES)
def test_methods_have_the_same_parameters(name: str) -> None:
    stub = of_stub(ast.ClassDef, STUB)[name]
    assert ast.get_docstring(stub)
    methods = {each: value for each, value in of_stub(ast.FunctionDef, stub.body).items() if not each.startswith("__")}
    members = {each for each in vars(getattr(_kernels, name)) if not each.startswith(("_", "n_"))}
    documented = {
        node.target.id for node in stub.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert members <= methods.keys() | documented
    for each, value in methods.items():
        function = getattr(getattr(_kernels, name), each)
        if hasattr(function, "__nb_signature__"):
            assert parameters(value) in compiled(function)
