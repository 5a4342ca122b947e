"""Stems of names: the part up to the first dot of the last component, which a path and the key of its file share.

Nothing here does I/O.
"""

from __future__ import annotations

import numpy as np

from bushel._runtime.arrays import I64, U8, U64, joined
from bushel.kernels import hash_keys

_AT_ONCE = 1 << 20  # names that are hashed together, so that many names take little memory
_DOT, _SLASH = ord("."), ord("/")


def stem(name: str) -> str:
    """Return a name without a leading `./`, and without what follows the first dot of its last part.

    That is how a tar, a zip or a folder makes a key of the path of a file.
    """
    folder, slash, last = name.removeprefix("./").rpartition("/")
    return f"{folder}{slash}{last.partition('.')[0]}"


def hashes_of_stems(text: U8, offsets: I64) -> U64:
    """Return uint64[names], the hashes of the stems of names.

    Args:
        text: uint8[bytes], the names in UTF-8, one after another.
        offsets: int64[names + 1], where each of them begins.
    """
    parts = [np.zeros(0, np.uint64)]
    for first in range(0, len(offsets) - 1, _AT_ONCE):
        own = offsets[first : first + _AT_ONCE + 1]
        low = int(own[0])
        parts.append(_hashes(text[low : int(own[-1])], own - low))
    return np.concatenate(parts)


def _hashes(text: U8, offsets: I64) -> U64:
    start, end = offsets[:-1].copy(), offsets[1:].copy()
    long = np.flatnonzero(end - start >= 2)
    start[long[(text[start[long]] == _DOT) & (text[start[long] + 1] == _SLASH)]] += 2
    slashes, dots = np.flatnonzero(text == _SLASH), np.flatnonzero(text == _DOT)
    last = np.concatenate([[-1], slashes])[slashes.searchsorted(end)]
    dot = np.concatenate([dots, [len(text)]])[dots.searchsorted(np.maximum(start, last + 1))]
    cut = np.empty(2 * len(start), np.int64)  # the stems, and what lies between them
    cut[::2], cut[1::2] = start, np.minimum(end, dot)
    return hash_keys(text, np.append(cut, end[-1:]))[::2]


def text_of(names: list[str]) -> tuple[U8, I64]:
    """Return names as text and offsets."""
    return joined([name.encode("utf-8", "surrogatepass") for name in names])
