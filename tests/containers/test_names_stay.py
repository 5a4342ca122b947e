"""The name and the suffixes of a container are known in its room only: everything else asks the container."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import bushel
from bushel.codecs import codec_names
from bushel.containers import container_names, get_container
from bushel.filters import filter_names

HOUSE = Path(bushel.__file__).parent
WORDS = frozenset({"folder", *codec_names(), *filter_names()})
"""Names that codecs and filters have, too, or ordinary words: only comparisons of containers are looked at."""
NAMES = frozenset(container_names())
SUFFIXES = frozenset(suffix for name in container_names(written=True) for suffix in get_container(name).suffixes)
READ_ONLY = frozenset(suffix for name in NAMES for suffix in get_container(name).suffixes) - SUFFIXES
FILES_OF_VALUES = ("codecs/", "sources/")
"""Rooms that know files as values and as sources: a `.npy` in a tar, or in a folder to be packed."""

SPARED = ("containers", "compat")
ALLOWED = {
    "cards/describing.py": {"tar", "parquet", "jsonl", "csv", "arrow", "zip"},  # formats that the Hub reads
    "_dataset/views/stream.py": {"tar"},  # the only format that is read as a stream
    "sources/base.py": {"folder"},  # a source of files asks which were removed from the folder
    "testing/readable.py": {"tar", "ffrecord"},  # any two containers that a dataset is converted to
    "testing/storage.py": {"bag", "tar"},  # a dataset with an index of its own, and one that is scanned
}
"""Files about the format of one tool, and the names that they may use. Drop-ins (`compat`) are not looked at."""


@cache
def words_of(path: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return the strings of a file, and those by which it decides. Trees are not kept: they are a million objects."""
    tree = ast.parse(path.read_text("utf-8"))
    return list(strings(tree)), list(decisions(tree))


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of a file that are values, with their lines: not docstrings, and not parts of longer text."""
    inside = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def decisions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings that something is compared with, looked up by or tested for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            parts = [*node.args] if called in ("endswith", "get_container", "get_writable", "removesuffix") else []
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        else:
            continue
        tests_container = isinstance(node, ast.Compare) and "container" in ast.unparse(node)
        for part in parts:
            for each in ast.walk(part):
                if isinstance(each, ast.Constant) and (each.value not in WORDS or tests_container):
                    yield each.lineno, str(each.value)


def test_no_file_decides_by_a_container_name() -> None:
    paths = [path for path in sorted(HOUSE.rglob("*.py")) if path.relative_to(HOUSE).parts[0] not in SPARED]
    assert len(paths) > 200
    for path in paths:
        check_names(path)


def check_names(path: Path) -> None:
    place = path.relative_to(HOUSE).as_posix()
    allowed = ALLOWED.get(place, set())
    texts, decided_by = words_of(path)
    for line, text in decided_by:
        assert text not in NAMES - allowed, f"{path}:{line}: ask the container instead of testing for {text!r}"
    suffixes = SUFFIXES if place.startswith(FILES_OF_VALUES) else SUFFIXES | READ_ONLY
    for line, text in texts:
        assert text not in NAMES - WORDS - allowed, f"{path}:{line}: ask the container instead of naming {text!r}"
        assert text not in suffixes - allowed, f"{path}:{line}: the suffix {text!r} is known in the container's room"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_container_has_no_names_of_others(name: str) -> None:
    own = name.partition("-")[0]  # lerobot-episodes lives in the room of lerobot
    room = HOUSE / "containers" / own
    for path in sorted(room.rglob("*.py")) or [room.with_suffix(".py")]:
        for line, text in words_of(path)[1]:
            assert text not in {each for each in NAMES if each.partition("-")[0] != own}, f"{path}:{line}: {text!r}"


def test_what_may_use_a_name_does() -> None:
    for place, names in ALLOWED.items():
        assert names <= {text for _, text in words_of(HOUSE / place)[0]}, place
