"""Imports point one way: a room of the house imports only from rooms below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bushel

HOUSE = Path(bushel.__file__).parent
FACE = "the public names"
FLOORS = (
    ("errors", "bytesize", "ahead", "kernels"),
    ("spec", "codecs", "storage", "helpers"),
    ("jpeg", "transforms", "shardindex"),
    ("containers", "sidecar", "journal", "readplan"),
    ("shards", "finding", "segmentscan", "targets"),
    ("indexing", "keytable", "arrow", "reader", "shardwrite", "stream"),
    ("dataset", "shardupload"),
    ("access", "concatenation", "writer"),
    ("loader", "sources"),
    ("ingest",),
    ("integrity",),
    (FACE,),
    ("compat", "testing"),
    ("cli",),
    ("__main__",),
)
"""From the ground up. Rooms of one floor do not import each other."""

FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room_of(module: str) -> str:
    """The room in which a module is, by its dotted name."""
    parts = module.split(".")
    return FACE if len(parts) == 1 else parts[1]


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """The line of each import of Bushel's own in a file, also of one within a function, and the room it leads to."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports name the whole path"
            module = node.module or ""
            names = [f"{module}.{alias.name}" if _is_room(module, alias.name) else module for alias in node.names]
        else:
            continue
        yield from ((node.lineno, room_of(name)) for name in names if name.partition(".")[0] == "bushel")


def _is_room(module: str, name: str) -> bool:
    return module == "bushel" and name in FLOOR_OF


@pytest.mark.parametrize("room", sorted(FLOOR_OF.keys() - {FACE}))  # which are imported when they are asked for
def test_a_room_imports_from_rooms_below_it(room: str) -> None:
    files = sorted((HOUSE / room).rglob("*.py")) or [HOUSE / f"{room}.py"]
    for path in files:
        for line, other in imports_of(path):
            if other != room:
                assert other in FLOOR_OF, f"{path}:{line}: there is no room {other}"
                assert FLOOR_OF[other] < FLOOR_OF[room], f"{path}:{line}: {room} imports {other}, which is not below it"


def test_every_room_is_there() -> None:
    there = {path.stem for path in HOUSE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert there == FLOOR_OF.keys() - {FACE} | {"__init__"}
