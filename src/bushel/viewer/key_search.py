"""Finding keys that contain a text, without making strings of the others. Nothing here does I/O."""

from __future__ import annotations

import numpy as np

from bushel._index.table import Keys
from bushel._runtime.arrays import I64, U8

__all__ = ["keys_with"]


_CHUNK = 1 << 20
"""Bytes of keys that are searched at a time."""

_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += 32


def keys_with(keys: Keys, text: str, *, prefix: bool) -> I64:
    """Return the samples whose key contains a text, ascending. Upper and lower case of ASCII letters are the same.

    Args:
        keys: The keys of a shard.
        text: The text; all keys contain the empty one.
        prefix: Whether the key must begin with it.
    """
    wanted = _LOWER[np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)]
    samples = len(keys)
    if not len(wanted):
        return np.arange(samples, dtype=np.int64)
    found: list[I64] = []
    first = 0
    while first < samples:
        begin = int(keys.offsets[first])
        last = int(np.searchsorted(keys.offsets, begin + _CHUNK, "right")) - 1
        last = min(max(last, first + 1), samples)
        offsets = np.asarray(keys.offsets[first : last + 1], np.int64) - begin
        found.append(first + _search(_LOWER[keys.text[begin : begin + int(offsets[-1])]], offsets, wanted, prefix))
        first = last
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _search(text: U8, offsets: I64, wanted: U8, prefix: bool) -> I64:
    """Return the numbers of the keys in `text` that contain `wanted`."""
    if prefix:
        rows = np.flatnonzero(np.diff(offsets) >= len(wanted))
        for number, letter in enumerate(wanted):
            rows = rows[text[offsets[rows] + number] == letter]
        return rows
    places = np.flatnonzero(text[: max(len(text) - len(wanted) + 1, 0)] == wanted[0])
    for number, letter in enumerate(wanted[1:], 1):
        places = places[text[places + number] == letter]
    rows = np.searchsorted(offsets, places, "right") - 1
    return np.unique(rows[places + len(wanted) <= offsets[rows + 1]])
