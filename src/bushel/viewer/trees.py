"""Nested lists and mappings as trees, chats and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bushel.codecs.base import describe

from .shelf import plain_text

_NODES, _DEPTH = 2000, 12
_TURNS, _ROWS = 200, 200  # turns of a chat and rows of a table on the page
_TURN = 20_000  # number of characters of a turn on the page

_TURN_KEYS = (("role", "content"), ("from", "value"))
"""The keys of a turn of a chat."""

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The names of the columns, and the cells of each row."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in a tree, as text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A list or a mapping in a tree."""

    name: str
    summary: str
    children: tuple[Leaf | Branch, ...]


def tree_of(value: Any) -> Leaf | Branch:
    """Return nested lists and mappings as a tree. It is cut at a number of nodes and at a depth."""
    left = [_NODES]

    def node(name: str, value: Any, depth: int) -> Leaf | Branch:
        left[0] -= 1
        if isinstance(value, Mapping | list | tuple) and depth < _DEPTH:
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            unit = "key" if isinstance(value, Mapping) else "element"
            children: list[Leaf | Branch] = []
            for key, child in pairs:
                if left[0] <= 0:
                    children.append(Leaf("…", "not shown"))
                    break
                children.append(node(plain_text(str(key)), child, depth + 1))
            return Branch(
                name, f"{len(value):,} {unit}{'' if len(value) == 1 else 's'}", tuple(children)
            )
        return Leaf(name, _leaf_text(value))

    return node("", value, 0)


def _leaf_text(value: Any) -> str:
    if isinstance(value, str):
        return plain_text(value[:1000]) + ("…" if len(value) > 1000 else "")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return str(value)
    return describe(value)


def chat_of(value: Any) -> list[tuple[str, str]]:
    """Return the turns of a chat as roles and texts; an empty list if the value is not a chat.

    A chat is a list of mappings with `role` and `content`, or with `from` and `value`. A content of
    several parts is their texts, with the type of each other part in brackets.
    """
    turns: list[tuple[str, str]] = []
    if not isinstance(value, list | tuple):
        return turns
    for turn in value[:_TURNS]:
        if not isinstance(turn, Mapping):
            return []
        names = next((names for names in _TURN_KEYS if turn.keys() >= {*names}), None)
        if names is None:
            return []
        role, content = (turn[name] for name in names)
        parts = content if isinstance(content, list | tuple) else [content or ""]
        text = "\n".join(map(_part_text, parts))
        turns.append((plain_text(str(role)), plain_text(text[:_TURN])))
    return turns


def _part_text(part: Any) -> str:
    if isinstance(part, Mapping):
        return str(part.get("text", f"[{part.get('type', 'part')}]"))
    if isinstance(part, str):
        return part
    return describe(part)


def table_of(value: Any) -> Table | None:
    """Return a list of mappings that have the same keys and no nested values as a table, else None."""
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], Mapping):
        return None
    names = list(value[0])
    for row in value:
        if not isinstance(row, Mapping) or list(row) != names:
            return None
        if any(isinstance(cell, Mapping | list | tuple) for cell in row.values()):
            return None
    rows = [[_leaf_text(cell) for cell in row.values()] for row in value[:_ROWS]]
    return [plain_text(str(name)) for name in names], rows
