"""Imports point one way: a room of the house imports only from rooms below it, and no two files import each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.paths import ROOT

import bushel

HOUSE = Path(bushel.__file__).parent
PUBLIC_NAMES = "the public names"
FLOORS = (
    ("kernels", "errors", "core.lazy_names", "core.system"),
    ("core.order", "core.parallel", "core.processes", "core.progress", "core.tasks"),
    ("spec", "codecs", "storage"),
    ("core.index", "jpeg", "transforms"),
    ("containers", "core.pictures"),
    ("core.dataset",),
    ("core.writer", "loader", "sources"),
    ("ingest",),
    ("integrity",),
    ("engines", "integrations"),
    (PUBLIC_NAMES,),
    ("compat", "testing", "viewer"),
    ("cli",),
    ("__main__",),
)
"""From the ground up. Rooms of one floor do not import each other."""

FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ROOMS_IN_CORE = {room.removeprefix("core.") for room in FLOOR_OF if room.startswith("core.")}


def room_of(module: str) -> str:
    """Return the room that holds a module, given the module's dotted name."""
    parts = module.split(".")
    if len(parts) == 1:
        return PUBLIC_NAMES
    return ".".join(parts[1:3]) if parts[1] == "core" else parts[1]


def files_of(room: str) -> list[Path]:
    """Return the Python files of a room."""
    place = HOUSE.joinpath(*room.split("."))
    return sorted(place.rglob("*.py")) or [place.with_suffix(".py")]


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module, by its dotted name."""
    found = {}
    for path in sorted(HOUSE.rglob("*.py")):
        parts = path.relative_to(HOUSE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line of each import of Bushel's own modules, also within functions, and the module's dotted name."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports name the whole path"
            module = node.module or ""
            names = [
                f"{module}.{alias.name}" if f"{module}.{alias.name}" in modules() else module for alias in node.names
            ]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.partition(".")[0] == "bushel")


@pytest.mark.parametrize("room", sorted(FLOOR_OF.keys() - {PUBLIC_NAMES}))  # whose imports are lazy
def test_a_room_imports_from_rooms_below_it(room: str) -> None:
    for path in files_of(room):
        for line, module in imports_of(path):
            other = room_of(module)
            if other != room:
                assert other in FLOOR_OF, f"{path}:{line}: there is no room {other}"
                assert FLOOR_OF[other] < FLOOR_OF[room], f"{path}:{line}: {room} imports {other}, which is not below it"


def test_every_room_is_there() -> None:
    there = {path.stem for path in HOUSE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert there == {room.partition(".")[0] for room in FLOOR_OF.keys() - {PUBLIC_NAMES}} | {"__init__"}
    in_core = {path.stem for path in (HOUSE / "core").iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert in_core == ROOMS_IN_CORE | {"__init__"}


def test_no_files_import_each_other() -> None:
    graph = {name: {other for _, other in imports_of(path)} - {name} for name, path in modules().items()}
    graph["bushel"] = set()  # its names are imported when they are first used
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import each other: {' -> '.join(error.args[1])}")


def test_contributing_shows_the_same_order() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = page.partition("| rooms of `src/bushel/` |")[2].partition("\n\n")[0].splitlines()[2:]
    assert [tuple(cell.strip(" `") for cell in row.split("|")[1].split(",")) for row in table] == list(FLOORS)


def test_helpers_of_tests_are_in_helper_modules() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            assert not re.match(r"\s*(from|import) tests\.(\w+\.)*test_", line), f"{path}:{number}: {line}"


def test_folders_of_tests_mirror_the_rooms() -> None:
    others = {"cloud", "cluster", "docs", "examples", "faults", "fuzz", "golden", "interop"}
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("**/*.py"))} - others
    assert folders <= {path.name for path in HOUSE.iterdir() if path.is_dir()}


def test_few_modules_at_the_root() -> None:
    assert len([path for path in HOUSE.glob("*.py") if not path.stem.startswith("__")]) <= 8


@cache
def private_names_of(room: str) -> frozenset[str]:
    """Return the private names that the files of a room define: attributes, functions, classes and variables."""
    found = set()
    for path in files_of(room):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return frozenset(name for name in found if name.startswith("_") and not name.startswith("__"))


OF_OTHERS = {"_protected_args", "_fingerprint", "_replace"}
"""Names of click, Hugging Face datasets and named tuples that begin with an underscore."""


@pytest.mark.parametrize("room", sorted(FLOOR_OF.keys() - {PUBLIC_NAMES}))
def test_private_names_stay_in_their_room(room: str) -> None:
    own = private_names_of(room) | OF_OTHERS
    others = frozenset[str]().union(*map(private_names_of, FLOOR_OF.keys() - {PUBLIC_NAMES, room})) - own
    for path in files_of(room):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                assert node.attr not in others, f"{path}:{node.lineno}: {node.attr} is private in another room"
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bushel"):
                private = {
                    alias.name for alias in node.names if alias.name.startswith("_") and not alias.name.startswith("__")
                } - own
                assert not private, f"{path}:{node.lineno}: {private} is private in another room"
