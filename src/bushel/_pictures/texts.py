"""Texts that fit a line of a page or of a terminal, and names of classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel.codecs.base import describe


def plain_text(text: str) -> str:
    """Return a text that can be encoded as UTF-8: bytes of a key that are not are shown with a backslash."""
    return text.encode("utf-8", "backslashreplace").decode()


def shortened(text: str, most: int) -> str:
    """Return a text as one line of at most this many characters."""
    text = " ".join(plain_text(text[: 2 * most]).split())
    if len(text) <= most:
        return text
    return text[: most - 1] + "…"


def value_line(value: Any, most: int, names: Sequence[str] = ()) -> str:
    """Return a value as a line of at most this many characters; of a class, number and name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        return f"{text} {class_name(value, names)}".rstrip()
    if isinstance(value, str):
        text = value
    elif hasattr(value, "tolist") and getattr(value, "size", 99) <= 8:
        return value_line(value.tolist(), most, names)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=describe)
        except (TypeError, ValueError, RecursionError):
            text = describe(value)
    return shortened(text, most)


def class_name(value: Any, names: Sequence[str]) -> str:
    """Return the name of a class number; empty if the value is something else, or has no name."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.integer | np.floating)
        or not 0 <= value < len(names)
        or value != int(value)
    ):
        return ""
    return plain_text(names[int(value)])
