"""Imports point one way: a room of the house imports only from rooms below it, and no two files import each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from tests.paths import ROOT

import bushel

HOUSE = Path(bushel.__file__).parent
PUBLIC_NAMES = "the public names"
FLOORS = (
    ("kernels", "errors"),
    ("_runtime",),
    ("filters", "engines", "_kinds"),
    ("spec", "codecs", "storage"),
    ("_index", "jpeg", "transforms", "_recognise"),
    ("containers", "_pictures"),
    ("_dataset",),
    ("_writer", "loader", "sources"),
    ("_pack",),
    ("integrity",),
    ("integrations", "cards"),
    ("datasets", "runs"),
    (PUBLIC_NAMES,),
    ("audit", "compat", "testing", "viewer"),
    ("cli",),
    ("__main__",),
)
"""From the ground up. Rooms of one floor do not import each other."""

FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room_of(module: str) -> str:
    """Return the room that holds a module, given the module's dotted name."""
    parts = module.split(".")
    if len(parts) == 1:
        return PUBLIC_NAMES
    return parts[1]


def files_of(room: str) -> list[Path]:
    """Return the Python files of a room."""
    place = HOUSE / room
    return sorted(place.rglob("*.py")) or [place.with_suffix(".py")]


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module, by its dotted name."""
    found = {}
    for path in sorted(HOUSE.rglob("*.py")):
        parts = path.relative_to(HOUSE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Return the line of each import of Bushel's own modules in a file, and the module's dotted name."""
    return tuple(_imports_in(path))


def _imports_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line of each import of Bushel's own modules, and the module's dotted name.

    Imports within functions count, and so do those that are made at run time: by `import_module`, `__import__`, and
    tables of lazy names.
    """
    tree = ast.parse(path.read_text("utf-8"))
    taken = {each.value: each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call):  # `import_module(…).command` imports a module with this attribute
            names = list(at_run_time(node, taken.get(node), path))
        elif isinstance(node, ast.ImportFrom):
            assert node.level < 2, f"{path}:{node.lineno}: imports of another folder name the whole path"
            module = ".".join(filter(None, [folder_of(path) if node.level else "", node.module or ""]))
            names = [
                f"{module}.{alias.name}" if f"{module}.{alias.name}" in modules() else module for alias in node.names
            ]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.partition(".")[0] == "bushel")


def at_run_time(call: ast.Call, attribute: str | None, path: Path) -> Iterator[str]:
    """Yield the modules that a call may import, if it is one of those that import modules."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    if function == "names_of_stub":
        yield from re.findall(r"^from (\S+) import", path.with_suffix(".pyi").read_text("utf-8"), re.MULTILINE)
    elif function in ("import_module", "__import__") and call.args:
        name = call.args[0]
        if isinstance(name, ast.Constant):
            yield str(name.value)
        elif isinstance(name, ast.JoinedStr) and name_of(path) not in LAZY:
            pattern = "".join(part_of(each, path) for each in name.values)
            found = [module for module in modules() if re.fullmatch(pattern, module)]
            if attribute is not None:
                found = [module for module in found if defines(modules()[module], attribute)]
            yield from found


def part_of(part: ast.expr, path: Path) -> str:
    """Return a pattern of the text that a part of an f-string may be."""
    if isinstance(part, ast.Constant):
        return re.escape(str(part.value))
    assert isinstance(part, ast.FormattedValue)
    value = part.value
    if isinstance(value, ast.Name) and value.id == "__name__":
        return re.escape(name_of(path))
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
        table = getattr(import_module(name_of(path)), value.value.id)
        return "(?:" + "|".join(re.escape(str(each)) for each in table.values()) + ")"
    return r"\w+"


def name_of(path: Path) -> str:
    """Return the dotted name of a file's module; empty for a file elsewhere."""
    return next((name for name, place in modules().items() if place == path), "")


def folder_of(path: Path) -> str:
    """Return the dotted name of the folder that a file lies in."""
    return ".".join(path.relative_to(HOUSE.parent).parent.parts)


@cache
def defines(path: Path, name: str) -> bool:
    """Return whether a module binds a name at its top."""
    stub = path.with_suffix(".pyi")
    for node in ast.parse((stub if stub.exists() else path).read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets) or getattr(node, "name", "") == name:
            return True
        if not isinstance(node, ast.ImportFrom):
            continue
        if name in {alias.asname or alias.name for alias in node.names}:
            return True
        if node.names[0].name == "*" and defines(path.with_name(f"{node.module}.py"), name):
            return True
    return False


LAZY = frozenset({"bushel", "bushel._runtime.public", "bushel.compat.webdataset"})
"""Modules whose imports at run time are not looked at. Names of the two packages are imported when they are first used,
and nothing within a package imports the package itself; `names_of_stub` imports what its caller's stub names."""


def test_nothing_imports_a_lazy_package_from_within() -> None:
    for package in LAZY & {"bushel.compat.webdataset"}:
        for name, path in modules().items():
            if name.startswith(f"{package}."):
                for line, other in imports_of(path):
                    assert other != package, (
                        f"{path}:{line}: {package} imports this module when one of its names is used"
                    )


def test_imports_at_run_time_are_seen(tmp_path: Path) -> None:
    seen = {
        'import_module("bushel.codecs.image")': {"bushel.codecs.image"},
        '__import__("bushel.spec")': {"bushel.spec"},
        "names_of_stub(__name__, __file__)": {"bushel.codecs.image"},
        'import_module(f"bushel.containers.{name}").CONTAINER': {"bushel.containers.tar", "bushel.containers.bag"},
    }
    for source, expected in seen.items():
        (tmp_path / "module.py").write_text(source)
        (tmp_path / "module.pyi").write_text("from bushel.codecs.image import x as x\n")
        found = {name for _, name in _imports_in(tmp_path / "module.py")}
        assert expected <= found
        assert all(name in modules() for name in found)


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
    assert there == (FLOOR_OF.keys() - {PUBLIC_NAMES}) | {"__init__"}


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


OTHER_TESTS = {
    *("cloud", "cluster", "conformance", "docs", "examples", "extension_package"),
    *("faults", "fuzz", "golden", "interop"),
}
"""Folders of tests that are about the whole, and of no room."""


def folders_of(root: Path, files: str) -> set[str]:
    """Return the folders that hold files, with their parents, as paths below a root."""
    found = {path.relative_to(root).parent for path in root.rglob(files) if "__pycache__" not in path.parts}
    return {str(each) for path in found for each in (path, *path.parents) if each != Path()}


def test_folders_of_tests_mirror_the_source() -> None:
    there, tests = folders_of(HOUSE, "*.py"), folders_of(ROOT / "tests", "*.py")
    assert {path for path in tests if path.split("/")[0] not in OTHER_TESTS} <= there
    tested = folders_of(ROOT / "tests", "test_*.py")
    rooms = {path for path in there if path.count("/") < 2}
    assert rooms <= tested, "each room, and each folder in it, has tests of its own"


def test_few_modules_at_the_root() -> None:
    assert len([path for path in HOUSE.glob("*.py") if not path.stem.startswith("__")]) <= 8


@cache
def names_in(path: Path) -> tuple[frozenset[str], tuple[tuple[int, str], ...], tuple[tuple[int, str], ...]]:
    """Return the private names that a file defines, those that it takes of other values, and those that it imports.

    Defined are attributes, functions, classes and variables. The others come with their lines.
    """
    defined, taken, imported = set[str](), list[tuple[int, str]](), list[tuple[int, str]]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bushel"):
            imported += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                taken.append((node.lineno, node.attr))
    private = [tuple((line, name) for line, name in found if is_private(name)) for found in (taken, imported)]
    return frozenset(filter(is_private, defined)), private[0], private[1]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names_of(room: str) -> frozenset[str]:
    """Return the private names that the files of a room define."""
    return frozenset[str]().union(*(names_in(path)[0] for path in files_of(room)))


OF_OTHERS = {"_protected_args", "_fingerprint", "_replace"}
"""Names of click, Hugging Face datasets and named tuples that begin with an underscore."""


@pytest.mark.parametrize("room", sorted(FLOOR_OF.keys() - {PUBLIC_NAMES}))
def test_private_names_stay_in_their_room(room: str) -> None:
    own = private_names_of(room) | OF_OTHERS
    others = frozenset[str]().union(*map(private_names_of, FLOOR_OF.keys() - {PUBLIC_NAMES, room})) - own
    for path in files_of(room):
        _, taken, imported = names_in(path)
        for line, name in taken:
            assert name not in others, f"{path}:{line}: {name} is private in another room"
        for line, name in imported:
            assert name in own, f"{path}:{line}: {name} is private in another room"
