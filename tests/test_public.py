"""The public names, and what importing them costs."""

from __future__ import annotations

import inspect
import json
import pickle
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType
from typing import Any

import pytest
from tests.paths import ROOT

import bushel

NAMES = [
    "BushelError",
    "CorruptError",
    "Dataset",
    "FormatError",
    "InUseError",
    "Loader",
    "SpecError",
    "StateError",
    "StreamLoader",
    "TooManyErrors",
    "Writer",
    "__version__",
    "card",
    "concat",
    "convert",
    "diff",
    "erase",
    "index",
    "join",
    "jpeg",
    "list_views",
    "merge",
    "mix",
    "open",
    "open_stream",
    "pack",
    "register_codec",
    "register_container",
    "removals",
    "remove",
    "repair",
    "restore",
    "show",
    "split",
    "to_hf",
    "transforms",
    "verify",
    "view",
]

HEAVY = {"PIL", "av", "click", "rich", "msgpack", "msgspec", "safetensors", "numpy", "bushel.kernels"}
"""What `import bushel` must not import: together these take several times as long as is left for it."""


def modules_after(statement: str) -> set[str]:
    """The modules that a new interpreter has imported by then."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_public_names_are_these() -> None:
    assert bushel.__all__ == NAMES
    assert set(dir(bushel)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(bushel, name)
    assert name == "__version__" or value.__doc__


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'$"):
        bushel.opne  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"'CodecError'; it is bushel\.errors\.CodecError$"):
        bushel.CodecError  # type: ignore[attr-defined]  # noqa: B018


def test_no_name_of_a_package_is_a_module_in_it() -> None:
    """Importing the module would take the place of the name."""
    for stub in Path(bushel.__file__).parent.rglob("__init__.pyi"):
        lines = [line.split() for line in stub.read_text().splitlines() if line.startswith("from bushel.")]
        modules = {path.stem for path in stub.parent.iterdir()}
        assert modules.isdisjoint(name for _, _, _, name, *_ in lines), stub


def test_every_error_is_a_bushel_error() -> None:
    names = [name for name in bushel.errors.__all__ if name.endswith("Error") or name == "TooManyErrors"]
    assert len(names) == 10
    assert all(issubclass(getattr(bushel.errors, name), bushel.BushelError) for name in names)


def test_import_alone_imports_nothing_heavy() -> None:
    imported = modules_after("import bushel")
    assert imported & HEAVY == set()
    assert len({name for name in imported if name.startswith("bushel")}) == 1


def test_modules_are_reached_without_being_imported() -> None:
    imported = modules_after("import bushel; assert bushel.jpeg.tile and bushel.transforms.Resize")
    assert {"bushel.jpeg", "bushel.transforms"} <= imported


def test_open_imports_no_decoder_and_no_command_line() -> None:
    imported = modules_after("import bushel; bushel.open")
    assert imported & {"PIL", "av", "click", "rich"} == set()


def public_modules() -> list[str]:
    """The modules whose names docs/compatibility.md promises."""
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    promise = page.partition("The public names are")[2].partition("Modules whose")[0]
    named = re.findall(r"`(bushel(?:\.\w+)*)`", promise)
    return [name for name in named if name not in ("bushel.integrations", "bushel.compat")]


def test_names_on_pages_are_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    named = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"""(?<![\w./'"-])bushel(?:\.\w+)+""", page.read_text("utf-8"))
        if not name.startswith("bushel.integrations") and not name.endswith(".X")
    }
    missing = []
    for page, name in sorted(named):
        try:
            if find_spec(name) is None:  # a module may need a package that is not installed
                resolve_name(name)
        except ModuleNotFoundError:
            resolve_name(name)
        except AttributeError:
            missing.append(f"{page}: {name}")
    assert len(named) > 300
    assert missing == []


def public_things() -> list[tuple[str, str, Any]]:
    """The public classes and functions of Bushel itself, with the module that has them."""
    return [
        (module, name, thing)
        for module in public_modules()
        for name in import_module(module).__all__
        if isinstance(thing := getattr(import_module(module), name), type | FunctionType)
        and thing.__module__.partition(".")[0] == "bushel"
    ]


def test_public_names_are_known_by_public_modules() -> None:
    things = public_things()
    assert len(things) > 200
    for module, name, thing in things:
        assert "._" not in thing.__module__, f"{module}.{name} is known as {thing.__module__}.{thing.__qualname__}"
    for name in NAMES:
        thing = getattr(bushel, name)
        if isinstance(thing, type | FunctionType):
            assert thing.__module__ in ("bushel", "bushel.errors"), name


def test_a_public_name_is_where_it_says_and_a_function_leads_to_its_file() -> None:
    for module, name, thing in public_things():
        if "kernels" not in thing.__module__:
            found = getattr(import_module(thing.__module__), thing.__name__)
            assert found is thing, f"{module}.{name}"
            if isinstance(thing, FunctionType):
                source = inspect.getsource(thing)
                assert re.search(rf"^def {thing.__name__}\b", source, re.MULTILINE), f"{module}.{name}"


def test_signatures_are_those_of_the_classes() -> None:
    for _, _, thing in public_things():
        if isinstance(thing, type):
            if hasattr(thing, "__struct_fields__"):  # help() shows it
                assert list(inspect.signature(thing).parameters) == list(thing.__struct_fields__), thing
            init = next(vars(each)["__init__"] for each in thing.__mro__ if "__init__" in vars(each))
            if not isinstance(init, FunctionType):
                continue
            own = list(inspect.signature(init).parameters)[1:]
            assert list(inspect.signature(thing).parameters) == own, thing
    assert "total: int | None, unit:" in str(inspect.signature(bushel.runs.Progress))


def test_pickles_name_public_modules(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tar", {"x": "int"}) as writer:
        writer.append({"x": 1})
    with bushel.open(tmp_path / "a.tar") as ds:
        for thing in (bushel.Dataset, bushel.open, bushel.containers.ShardIndex, bushel.loader.Exact, ds.info):
            stored = pickle.dumps(thing)
            assert b"._" not in stored, stored
            assert pickle.loads(stored) == thing
