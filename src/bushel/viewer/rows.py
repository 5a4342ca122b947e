"""Rows of the grid: for each sample its key, its pictures and its short values, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._dataset.views.dataset import Dataset
from bushel._pictures.texts import plain_text, value_line
from bushel._runtime.messages import count
from bushel.codecs.base import describe
from bushel.spec import KEY

from .kinds import ShownField
from .quality import read_each
from .shelf import Shown
from .stored import elements_of

_NODES, _DEPTH = 2000, 12
_TURNS, _ROWS = 200, 200  # turns of a chat and rows of a table on the page
_TURN = 20_000  # number of characters of a turn on the page

_TURN_KEYS = (("role", "content"), ("from", "value"))
"""The keys of a turn of a chat."""

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The names of the columns, and the cells of each row."""


class Leaf(Struct, frozen=True):
    """A value in a tree, as text."""

    name: str
    text: str


class Branch(Struct, frozen=True):
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
            return Branch(name, count(len(value), unit), tuple(children))
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


MOST_ROWS = 500
"""Largest number of rows of one request."""

_SHORT = 4096  # size in bytes up to which values are read for the grid
PLAYERS: Mapping[str, str] = {"clip": "video", "audio": "audio"}
"""The elements of a page that play a value while the pointer is over it, by kind."""

LINE = 240  # number of characters of a value in the grid


def line_of(shown: Shown, name: str, value: Any) -> str:
    """Return a value as a line of text: of a class, number and name; of a chat, its turns."""
    if turns := chat_of(value):
        value = " ".join(f"{role}: {said}" for role, said in turns if role != "system")
    return value_line(value, LINE, shown.labels.get(name, ()))


def rows_of(
    shown: Shown, positions: Sequence[int], fields: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return rows of the grid.

    Only the short values are read. If one cannot be read, its row has an `error`, and the others
    are as usual. By default, the main field is shown as a picture.

    Returns:
        For each sample: `position`, `key`, `cells` (field, kind and whether there is something to
        show), `values` (name and line of text), and `error` if something cannot be read.
    """
    dataset = shown.dataset
    if not positions:
        return []
    chosen = [shown.field(name) for name in fields or ()]
    if not fields and shown.main:
        chosen = [shown.main]
    lengths = {
        field.name: dataset.lengths(positions, field.name).tolist() for field in shown.fields
    }
    rows: list[dict[str, Any]] = [
        {
            "position": position,
            "key": plain_text(key),
            "cells": [
                {
                    "field": field.name,
                    "kind": _seen_as(field),
                    "plays": None if field.sequence else PLAYERS.get(field.kind),
                    "there": lengths[field.name][number] >= field.sequence,
                }
                for field in chosen
            ],
            "values": [],
            "error": None,
        }
        for number, (position, key) in enumerate(
            zip(positions, keys_of(dataset, positions), strict=True)
        )
    ]
    if dataset.reader.windows is not None:
        for row in rows:
            row["values"] = [["window", window_text(dataset, row["position"])]]
    short = [field.name for field in shown.fields if field.short]
    by_fields: dict[tuple[str, ...], list[int]] = {}
    for number in range(len(positions)):
        names_read = tuple(name for name in short if 0 <= lengths[name][number] <= _SHORT)
        by_fields.setdefault(names_read, []).append(number)
    for names, numbers in by_fields.items():
        if not names:
            continue
        samples = read_each(shown.dataset, [positions[number] for number in numbers], names)
        for number, sample in zip(numbers, samples, strict=True):
            if isinstance(sample, Exception):
                rows[number]["error"] = plain_text(str(sample))
                continue
            rows[number]["values"] += [
                [name, line_of(shown, name, value)] for name, value in sample.items() if name != KEY
            ]
    return rows


def add_columns(shown: Shown, rows: Sequence[dict[str, Any]], positions: Sequence[int]) -> None:
    """Add `columns` to rows: a line of text for each column of the index that the sample has a value of."""
    view = shown.dataset[list(positions)]
    for row in rows:
        row["columns"] = {}
    for name in shown.columns if positions else ():
        values = view.column(name)
        lost = np.ma.getmaskarray(values)
        for row, value, absent in zip(
            rows, np.ma.getdata(values).tolist(), lost.tolist(), strict=True
        ):
            if not absent:
                row["columns"][name] = line_of(shown, name, value)


def keys_of(dataset: Dataset, positions: Sequence[int]) -> list[str]:
    """Return the keys of samples, or their positions as text if they have none."""
    return dataset.reader.keys(dataset.selection.all_of(positions))


def window_text(dataset: Dataset, position: int) -> str:
    """Return which elements of its sample a window has, such as `frames 12 to 19 (8)`; empty if it is not a window."""
    return ", ".join(
        f"{name} {elements[0]} to {elements[-1]} ({len(elements)})"
        if len(elements)
        else f"{name}: none"
        for name, elements in elements_of(dataset, position).items()
    )


def _seen_as(field: ShownField) -> str:
    if field.visual or field.kind == "bytes":
        return "picture"
    return field.kind
