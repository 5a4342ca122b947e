"""The forms in which a name of a file and the key of its sample are compared: as it is, and without its last suffix.

Nothing here does I/O.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from bushel._runtime.arrays import I64, U8, U64, Bools, joined
from bushel.codecs.extensions import FILE_SUFFIXES
from bushel.kernels import hash_keys

Form: TypeAlias = Literal["whole", "path", "stem"]
"""A name as it is; without a leading `./`; or without that and without the suffix of its file, such as `.jpg`."""

_AT_ONCE = 1 << 20  # names that are hashed together, so that many names take little memory
_DOT, _SLASH = ord("."), ord("/")
_LONGEST = 8  # bytes of a suffix without its dot, which are compared as one number


def in_form(name: str, form: Form) -> str:
    """Return a name in a form. What follows its last dot is its suffix only if files have such suffixes."""
    if form == "whole":
        return name
    name = name.removeprefix("./")
    before, dot, suffix = name.rpartition(".")
    is_file = bool(dot) and suffix.lower() in FILE_SUFFIXES and before.rpartition("/")[2] != ""
    return before if form == "stem" and is_file else name


def hashes_of(text: U8, offsets: I64, form: Form) -> U64:
    """Return uint64[names], the hashes of names in a form.

    Args:
        text: uint8[bytes], the names in UTF-8, one after another.
        offsets: int64[names + 1], where each of them begins.
        form: The form.
    """
    if form == "whole":
        return hash_keys(text, offsets)
    parts = [np.zeros(0, np.uint64)]
    for first in range(0, len(offsets) - 1, _AT_ONCE):
        chunk = offsets[first : first + _AT_ONCE + 1]
        low = int(chunk[0])
        parts.append(_hashes(text[low : int(chunk[-1])], chunk - low, form))
    return np.concatenate(parts)


def _hashes(text: U8, offsets: I64, form: Form) -> U64:
    start, end = offsets[:-1].copy(), offsets[1:].copy()
    long = np.flatnonzero(end - start >= 2)
    start[long[(text[start[long]] == _DOT) & (text[start[long] + 1] == _SLASH)]] += 2
    cut = np.empty(2 * len(start), np.int64)  # the names in this form, and the bytes between them
    cut[::2], cut[1::2] = start, end
    if form == "stem":
        dots = np.concatenate([[-1], np.flatnonzero(text == _DOT)])
        dot = dots[dots.searchsorted(end) - 1]
        cut[1::2] = np.where(_ends_in_suffix(text, start, dot, end), dot, end)
    return hash_keys(text, np.append(cut, offsets[-1:]))[::2]


def _ends_in_suffix(text: U8, start: I64, dot: I64, end: I64) -> Bools:
    """Return which names have a suffix of files after their last dot, and a name of at least one sign before it."""
    length = end - dot - 1
    rows = np.flatnonzero((dot > start) & (length > 0) & (length <= _LONGEST))
    rows = rows[text[dot[rows] - 1] != _SLASH]
    suffix = np.zeros((len(rows), _LONGEST), np.uint8)
    for place in range(_LONGEST):
        has_sign = length[rows] > place
        suffix[has_sign, place] = text[dot[rows[has_sign]] + 1 + place]
    suffix[(suffix >= ord("A")) & (suffix <= ord("Z"))] += 32
    suffixes = np.frombuffer(
        b"".join(
            known_suffix.encode().ljust(_LONGEST, b"\0") for known_suffix in sorted(FILE_SUFFIXES)
        ),
        np.uint64,
    )
    has_suffix = np.zeros(len(start), np.bool_)
    has_suffix[rows] = np.isin(suffix.view(np.uint64)[:, 0], suffixes)
    return has_suffix


def text_of(names: list[str]) -> tuple[U8, I64]:
    """Return names as text and offsets."""
    return joined([name.encode("utf-8", "surrogatepass") for name in names])
