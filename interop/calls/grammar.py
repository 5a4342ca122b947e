"""Random statements from templates.

`<name>` stands for a random choice of a table, `<name*>` for up to three of them, and `<name#>` for a choice that is the
same in all places of the template.
"""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["PLACE", "extended", "statements"]

PLACE = re.compile(r"<([a-z_0-9]+)([*#]?)>")

Tables = Mapping[str, Sequence[str]]


def extended(*tables: Tables) -> dict[str, Sequence[str]]:
    """Return tables with the choices of all of `tables`, one after the other."""
    names = dict.fromkeys(name for each in tables for name in each)
    return {name: [choice for each in tables for choice in each.get(name, ())] for name in names}


def statements(rng: random.Random, templates: Mapping[str, int], tables: Tables) -> Iterator[str]:
    """Yield statements without end.

    Args:
        rng: Source of the choices.
        templates: Templates and their weights. Choices may have places themselves.
        tables: The choices of each name. One that stands in a table several times is chosen more often.
    """
    names, weights = list(templates), list(templates.values())
    seen: set[str] = set()
    while True:
        made = _filled(rng, rng.choices(names, weights)[0], tables)
        if made not in seen:
            seen.add(made)
            yield made


def _filled(rng: random.Random, template: str, tables: Tables) -> str:
    same: dict[str, str] = {}

    def choose(place: re.Match[str]) -> str:
        name, many = place[1], place[2]
        if many == "#":
            return same.setdefault(name, _filled(rng, rng.choice(tables[name]), tables))
        return ", ".join(rng.choice(tables[name]) for _ in range(rng.randrange(4) if many == "*" else 1))

    while PLACE.search(template):
        template = PLACE.sub(choose, template)
    return template
