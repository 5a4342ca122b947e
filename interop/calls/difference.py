"""An accepted difference between an original and its drop-in, with the words of the page that give the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alike import alike

__all__ = ["GIVES", "Documented"]

GIVES = r'^(?!.*"raises")'
"""Pattern of an outcome without an error."""


@dataclass(frozen=True, slots=True)
class Documented:
    """A difference that a page describes.

    Attributes:
        words: Words of the page.
        call: Pattern that is found in the call; any call if empty.
        original: Pattern that is found in the JSON of the original's outcome.
        dropin: Pattern that is found in the JSON of the drop-in's outcome.
        apart: Parts of the outcomes, such as "files", that may differ ("order": that of dicts' keys); all others
            must be alike.
    """

    words: str
    call: str = ""
    original: str = ""
    dropin: str = ""
    apart: tuple[str, ...] = ()

    def explains(self, call: str, original: Mapping[str, Any], dropin: Mapping[str, Any]) -> bool:
        """Return whether this is the difference between two outcomes."""
        pairs = ((self.call, call), (self.original, json.dumps(original)), (self.dropin, json.dumps(dropin)))
        if not all(re.search(pattern, text, re.DOTALL) for pattern, text in pairs):
            return False
        if "order" in self.apart:
            original, dropin = _in_order(original), _in_order(dropin)
        return not self.apart or alike(original, {**dropin, **{name: original.get(name) for name in self.apart}})


def _in_order(described: Any) -> Any:
    """Return a description with the keys of all dicts sorted."""
    if isinstance(described, Mapping):
        return {name: _in_order(value) for name, value in described.items()}
    if not isinstance(described, list):
        return described
    if described[:1] == ["map"]:
        return ["map", sorted(map(_in_order, described[1]), key=json.dumps)]
    return [_in_order(each) for each in described]
