"""Rules of WebDataset.jl: which function is applied to which field of a sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Match: TypeAlias = str | re.Pattern[str] | type
"""The end of a field's name (`""` matches every field), a regular expression, or the type of a value."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A rule whose result is renamed: `new` replaces the matching portion of the field's name in lower case.

    `Rename(".jpg", ".img")` makes `.left.img` of `.left.jpg`.
    """

    rule: Match
    new: str


@dataclass(frozen=True, slots=True)
class Continue:
    """A rule after which the next rules are tried too, with the same value; `new=None` keeps the field's name."""

    rule: Match
    new: str | None = None


Rule: TypeAlias = Match | Rename | Continue
Rules: TypeAlias = Iterable[tuple[Rule, Callable[[Any], Any]]] | Mapping[Any, Callable[[Any], Any]]
"""Pairs of a rule and a function; the first rule that matches counts."""


def _span(rule: Match, field: str, value: Any) -> tuple[int, int] | None:
    """Return start and end of the match in a field's name, or None."""
    name = field.lower()
    if isinstance(rule, type):
        return (0, len(name)) if isinstance(value, rule) else None
    if isinstance(rule, str):
        return (len(name) - len(rule), len(name)) if name.endswith(rule.lower()) else None
    match = rule.search(name)
    return None if match is None else match.span()


def map_by_rules(sample: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """Apply the first rule that matches to each field; fields without one are left out, and names with `_` copied.

    Two fields that get the same name are a ValueError.
    """
    pairs = list(rules.items()) if isinstance(rules, Mapping) else list(rules)
    result: dict[str, Any] = {}
    for name, value in sample.items():
        if name.startswith("_"):
            result[name] = value
            continue
        for rule, function in pairs:
            match = rule.rule if isinstance(rule, Rename | Continue) else rule
            span = _span(match, name, value)
            if span is None:
                continue
            new = rule.new if isinstance(rule, Rename | Continue) else None
            renamed = name if new is None else name[: span[0]] + new + name[span[1] :]
            if renamed in result:
                raise ValueError(
                    f"two fields of sample {sample.get('__key__')!r} become {renamed!r}:"
                    f" {name!r}"
                    " is the second"
                )
            result[renamed] = function(value)
            if not isinstance(rule, Continue):
                break
    return result
