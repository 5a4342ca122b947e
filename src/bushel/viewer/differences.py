"""Differences of two decoded values: words of texts, elements of pictures and arrays. Nothing here does I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from bushel._pictures.pixels import array_pixels, colours, is_picture
from bushel._pictures.thumbnail import shrunk
from bushel._runtime.arrays import F64, U8
from bushel.codecs.base import describe
from bushel.errors import CodecError

from .shelf import plain_text

_TEXT = 4000  # number of characters of a text that are compared
_CONTEXT = 40  # number of characters that are shown on each side of a change
Run = tuple[bool, str]
"""A piece of a text, and whether it is only on this side."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two values."""

    note: str = ""  # a few words; may be empty
    # for texts and trees, the pieces of the left and of the right one; None for others
    runs: tuple[Sequence[Run], Sequence[Run]] | None = None
    drawn: bool = False  # whether `difference_pixels` draws the difference


def difference_of(left: Any, right: Any) -> Difference:
    """Describe the difference of two decoded values."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return _of_arrays(left, right)
    texts = _as_text(left), _as_text(right)
    if texts[0] is None or texts[1] is None or not isinstance(left, str | dict | list | tuple):
        return Difference()
    cut = ""
    if max(map(len, (texts[0], texts[1]))) > _TEXT:
        cut = " (of the first 4,000 characters)"
    runs = _runs(texts[0][:_TEXT], texts[1][:_TEXT])
    changed = sum(len(text) for side in runs for only, text in side if only)
    return Difference(f"{changed:,} characters differ{cut}", runs)


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return plain_text(value)
    if not isinstance(value, dict | list | tuple):
        return None
    try:
        return plain_text(json.dumps(value, ensure_ascii=False, indent=1, default=describe))
    except (TypeError, ValueError, RecursionError):
        return None


def _of_arrays(left: np.ndarray, right: np.ndarray) -> Difference:
    shapes = [" × ".join(map(str, array.shape)) or "scalar" for array in (left, right)]
    if left.shape != right.shape:
        return Difference(f"{shapes[0]} and {shapes[1]}")
    if left.dtype != right.dtype and left.dtype.kind != right.dtype.kind:
        return Difference(f"{left.dtype} and {right.dtype}")
    if left.dtype.kind not in "biuf" or not left.size:
        return Difference()
    apart = _apart(left, right)
    share = 100 * np.count_nonzero(apart) / apart.size
    note = (
        f"{share:.3g} % of elements differ, by {np.nanmax(apart):.4g} at most and"
        f" {np.nanmean(apart):.4g} on average"
    )
    return Difference(note, drawn=apart.size > 1)


def _apart(left: np.ndarray, right: np.ndarray) -> F64:
    with np.errstate(all="ignore"):
        apart = np.abs(left.astype(np.float64) - right.astype(np.float64))
    return np.where(
        left == right, 0.0, np.nan_to_num(apart, nan=np.inf, posinf=np.finfo(np.float64).max)
    )


def difference_pixels(left: Any, right: Any, side: int) -> U8:
    """Draw the absolute difference of two arrays of one shape: dark where they are equal.

    `side` is the largest width and height in pixels.

    Returns:
        HxWx3, uint8.

    Raises:
        CodecError: They are not arrays of one shape, or there is nothing to draw.
    """
    if (
        not isinstance(left, np.ndarray)
        or not isinstance(right, np.ndarray)
        or left.shape != right.shape
    ):
        raise CodecError("only arrays and images of one shape have a picture of their difference")
    if left.dtype.kind not in "biuf" or right.dtype.kind not in "biuf":
        raise CodecError("only arrays of numbers have a picture of their difference")
    apart = _apart(left, right)
    if is_picture(left) and apart.ndim == 3:
        return shrunk(colours(apart.max(axis=2)), side)
    drawn = array_pixels(apart, side)
    if drawn is None:
        raise CodecError("there is nothing to draw")
    return shrunk(drawn[0], side)


def _runs(left: str, right: str) -> tuple[list[Run], list[Run]]:
    words = re.findall(r"\w+|\s+|[^\w\s]", left), re.findall(r"\w+|\s+|[^\w\s]", right)
    runs: tuple[list[Run], list[Run]] = ([], [])
    for kind, a, b, c, d in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        for side, changed in ((0, words[0][a:b]), (1, words[1][c:d])):
            if changed:
                runs[side].append((kind != "equal", "".join(changed)))
    return _shortened(runs[0]), _shortened(runs[1])


def _shortened(runs: list[Run]) -> list[Run]:
    """Cut long equal pieces to the characters beside the changes."""
    short = []
    for number, (only, text) in enumerate(runs):
        if not only and len(text) > 2 * _CONTEXT + 3:
            head = text[:_CONTEXT] if number else ""
            tail = text[-_CONTEXT:] if number < len(runs) - 1 else ""
            text = f"{head} … {tail}"
        short.append((only, text))
    return short
