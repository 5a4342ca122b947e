"""WebDataset.jl's rules: which function takes which field of a sample, and what its result is called."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Continue", "Rename", "Rule", "Rules", "map_by_rules"]

Match: TypeAlias = str | re.Pattern[str] | type
"""The end of a field (`""` is that of every field), a regular expression, or the type of a value."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A rule whose result has another name.

    Attributes:
        rule: What is matched, in the field's name in lower case.
        new: What takes the place of the matching portion: `Rename(".jpg", ".img")` makes `.left.img` of `.left.jpg`.
    """

    rule: Match
    new: str


@dataclass(frozen=True, slots=True)
class Continue:
    """A rule after which the next ones are tried too, with the same value.

    Attributes:
        rule: What is matched.
        new: As in `Rename`; None: the name stays.
    """

    rule: Match
    new: str | None = None


Rule: TypeAlias = Match | Rename | Continue
Rules: TypeAlias = Iterable[tuple[Rule, Callable[[Any], Any]]] | Mapping[Any, Callable[[Any], Any]]
"""Pairs of a rule and a function, of which the first that matches counts."""


def _span(rule: Match, field: str, value: Any) -> tuple[int, int] | None:
    """Where a rule matches in a field's name."""
    name = field.lower()
    if isinstance(rule, type):
        return (0, len(name)) if isinstance(value, rule) else None
    if isinstance(rule, str):
        return (len(name) - len(rule), len(name)) if name.endswith(rule.lower()) else None
    found = rule.search(name)
    return None if found is None else found.span()


def map_by_rules(sample: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """Apply rules to the fields of a sample.

    Args:
        sample: The fields. Those that begin with `_` are taken as they are.
        rules: Searched in order for each field. A field that none matches is left out.

    Raises:
        ValueError: Two fields get the same name.
    """
    pairs = list(rules.items()) if isinstance(rules, Mapping) else list(rules)
    result: dict[str, Any] = {}
    for field, value in sample.items():
        if field.startswith("_"):
            result[field] = value
            continue
        for rule, function in pairs:
            match = rule.rule if isinstance(rule, Rename | Continue) else rule
            span = _span(match, field, value)
            if span is None:
                continue
            new = rule.new if isinstance(rule, Rename | Continue) else None
            name = field if new is None else field[: span[0]] + new + field[span[1] :]
            if name in result:
                raise ValueError(
                    f"two fields of sample {sample.get('__key__')!r} become {name!r}, {field!r} the second"
                )
            result[name] = function(value)
            if not isinstance(rule, Continue):
                break
    return result
