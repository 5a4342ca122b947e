"""Every public name has an example, and every example in a docstring runs and gives what it shows."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.docs.example_data import make
from tests.paths import ROOT

import bushel
from bushel.codecs import registry

SOURCE = ROOT / "src" / "bushel"
TITLE = "Examples:"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

USED = (
    bushel.Dataset,
    bushel.Loader,
    bushel.datasets.StreamDataset,
    bushel.StreamLoader,
    bushel.Writer,
)
"""Classes whose methods need an example each; of others, one of the class is enough."""

PLAIN = {
    "Dataset.close": "its first line says all",
    "Dataset.fingerprint": "the value says nothing",
    "Dataset.decode_sample": "for loaders of others",
    "Dataset.decode_samples": "for loaders of others",
    "Dataset.prefetch": "for loaders of others",
    "Dataset.remote": "its first line says all",
    "Dataset.shard_of": "its first line says all",
    "Loader.errors": "BadSample has the example",
    "StreamDataset.decode_sample": "for loaders of others",
    "StreamDataset.read": "UnsupportedError has the example",
    "StreamDataset.sources": "StreamDataset.part has the example",
    "StreamDataset.spec": "its first line says all",
    "StreamLoader.errors": "BadSample has the example",
    "Writer.close": "Writer.flush has the example",
    "Writer.published": "its first line says all",
    "Writer.was_unfinished": "its first line says all",
    "Writer.limits": "PackResult has the example",
    "Writer.spec": "its first line says all",
    "Writer.write_columns": "Writer.extend has the example",
}
"""Methods and properties without an example, and why."""

PACKAGES = {
    r"\bclips/": "av",
    r"\bdatasets\b|_hf\b": "datasets",
    r"\bduckdb\b": "duckdb",
    r"\bpyarrow\b|to_arrow|\barrow\b": "pyarrow",
    r"\btorch\b": "torch",
    r"\btorchdata\b": "torchdata",
    r"bushel\.view\(": "uvicorn",
}
"""What examples need that a checkout may lack, by the text that shows it."""


def documented(tree: ast.AST, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the dotted names and docstrings of a file's classes and functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield ".".join((*names, node.name)), ast.get_docstring(node) or ""
            yield from documented(node, (*names, node.name))


def examples() -> list[Any]:
    """Return path, name and docstring of everything with an example."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for name, text in documented(ast.parse(path.read_text("utf-8"))):
            if ">>>" in text:
                place = path.relative_to(SOURCE).as_posix()
                found.append(pytest.param(place, text, id=f"{place}:{name}"))
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("examples")
    make(root / "data")
    return root / "data"


@pytest.fixture
def names(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that examples use, in a folder of its own with their data."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    shutil.copytree(data, tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    monkeypatch.setattr(registry, "registered", {})  # without codecs of other tests
    return {"bushel": bushel, "np": np, "Path": Path, "ds": bushel.open("train/")}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")  # of the packages of others
@pytest.mark.parametrize(("place", "text"), examples())
def test_an_example_gives_what_it_shows(place: str, text: str, names: dict[str, Any]) -> None:
    shown = text.partition(TITLE)[2]
    for pattern, package in PACKAGES.items():
        if re.search(pattern, shown):
            pytest.importorskip(package)
    test = doctest.DocTestParser().get_doctest(shown, names, place, place, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.append)
    registry.get_codec.cache_clear()
    assert runner.failures == 0, "".join(report)
    assert 1 <= len(test.examples) <= 12, "an example is short"


def test_every_public_name_has_an_example(site: Any) -> None:
    without = []
    for module, public in site.public_modules().items():
        if module.startswith("bushel.integrations."):  # whose packages need not be installed
            path = ROOT / "src" / Path(*module.split(".")).with_suffix(".py")
            texts = dict(documented(ast.parse(path.read_text("utf-8"))))
        else:
            here = importlib.import_module(module)
            texts = {name: inspect.getdoc(getattr(here, name)) or "" for name in here.__all__}
        for title, listed in public.groups.items():
            if title != site.VALUES:
                without += [f"{module}.{name}" for name in listed if TITLE not in texts[name]]
    assert without == []


def test_methods_that_users_call_have_an_example() -> None:
    without = {
        f"{owner.__name__}.{name}"
        for owner in USED
        for name, member in inspect.getmembers(owner)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
        if TITLE not in (inspect.getdoc(member) or "")
    }
    assert without == PLAIN.keys()
