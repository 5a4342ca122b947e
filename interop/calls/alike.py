"""Whether a drop-in does what its original does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["alike"]


def alike(original: Mapping[str, Any], dropin: Mapping[str, Any]) -> bool:
    """Return whether two outcomes are the same, or the drop-in's error is of the original's class, too."""
    if any(original.get(name) != dropin.get(name) for name in ("hangs", "kills", "printed", "files", "removed")):
        return False
    if "no signature found" in str(original.get("message")):
        return "AttributeError" not in dropin.get("raises", ())
    if "raises" in original:
        return original["given"] == dropin["given"] and original["raises"][0] in dropin.get("raises", ())
    if "raises" in dropin:
        return False
    one, other = original["given"], dropin["given"]
    if len(one) == len(other) == 1 and isinstance(one[0], list) and one[0][:1] == ["signature"]:
        return _accepts(other[0], one[0][1])
    return bool(one == other)


def _flat(described: Any) -> str:
    return json.dumps(described).replace('"tuple"', '"list"')  # as defaults they mean the same


def _accepts(found: Any, wanted: Sequence[Any]) -> bool:
    """Return whether a function with the parameters `found` takes the arguments that `wanted` takes."""
    if not isinstance(found, list) or found[:1] != ["signature"]:
        return False
    given = {name: (kind, default) for name, kind, default in found[1]}
    if _flat(found) == _flat(["signature", wanted]):
        return True
    if [kind for _, kind, _ in wanted] == ["POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "VAR_KEYWORD"]:
        return True  # it hands all on to a function that is compared as well
    order = [name for name, kind, _ in found[1] if kind == "POSITIONAL_OR_KEYWORD"]
    expected = [name for name, kind, _ in wanted if kind == "POSITIONAL_OR_KEYWORD"]
    for name, kind, default in wanted:
        if kind in ("VAR_POSITIONAL", "VAR_KEYWORD"):
            if kind not in {each for each, _ in given.values()}:
                return False
        elif name == "self" or default == "needed" and name in given:
            continue
        elif name not in given or _flat(given[name][1]) != _flat(default):
            return False
    more = set(given) - {name for name, *_ in wanted}
    if expected[:1] == ["self"]:  # whatever the drop-in calls it
        more.discard(order[0] if order else "")
        order, expected = order[1:], expected[1:]
    return order[: len(expected)] == expected and all(
        given[name][1] != "needed" or given[name][0].startswith("VAR") for name in more
    )
