"""The page on the architecture: its drawing is up to date, and the files and functions that it names are there."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache

from tests.paths import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
SOURCE = ROOT / "src/bushel"


def test_the_drawing_is_up_to_date() -> None:
    draw = runpy.run_path(str(ROOT / "scripts/draw_rooms.py"))["draw"]
    expected = draw((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert (ROOT / "docs/rooms.svg").read_text("utf-8") == expected, "run python scripts/draw_rooms.py"


@cache
def functions_of(path: str) -> set[str]:
    """Return the qualified names of the functions of a file."""
    found = set()
    for node in ast.parse((SOURCE / path).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def test_the_walks_name_functions_that_exist() -> None:
    rows = re.findall(r"^\| *\d* *\| `([\w/]+\.py)` \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert len(rows) >= 12 + 18
    for path, names in rows:
        for name in re.findall(r"`([^`]+)`", names):
            assert name in functions_of(path), f"{path} has no function {name}"


def test_files_that_the_page_names_exist() -> None:
    for path in re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE):
        places = (ROOT / path, SOURCE / path, SOURCE / "storage/objects" / path)
        assert any(place.is_file() for place in places), path
