"""Application of transforms, one after another, with a check of what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel.loader.values.bad_samples import named, note_once
from bushel.transforms.values import Call


def apply_calls(calls: Sequence[Call], value: Any, rng: np.random.Generator | None, field: str) -> Any:
    """Apply transforms to the value of a field, and return the result.

    Raises:
        Exception: A transform fails; the error has a note that names the transform and the field.
    """
    for call in calls:
        try:
            value = checked(call.function(value, rng=rng) if call.random else call.function(value), object)
        except Exception as error:
            note_once(error, f"in the transform {named(call.function)} of field {field!r}")
            raise
    return value


def checked(made: Any, kind: type) -> Any:
    """Return the result of a transform if it is valid.

    Raises:
        TypeError: It is None, or of another type.
    """
    if made is None or not isinstance(made, kind):
        found = "None" if made is None else f"a {type(made).__name__}"
        raise TypeError(f"it returned {found}: return the value, changed or not")
    return made
