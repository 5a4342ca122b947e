"""Characters of texts in UTF-8. Pure: no I/O."""

from __future__ import annotations

import numpy as np

from bushel._runtime.arrays import I64, U8, offsets_of

DAMAGED = -1
"""The number of characters of bytes that are not UTF-8."""


def characters_of(data: bytes | bytearray | memoryview) -> int:
    """Return the number of characters of a text; `DAMAGED` if it is not UTF-8."""
    try:
        return len(str(data, "utf-8"))
    except UnicodeDecodeError:
        return DAMAGED


def lengths_of_texts(text: U8, offsets: I64) -> I64:
    """Return int64[texts], the number of characters of each text; `DAMAGED` for those that are not UTF-8.

    Args:
        text: uint8[bytes], the texts in UTF-8.
        offsets: int64[texts + 1] into `text`.
    """
    first, last = int(offsets[0]), int(offsets[-1])
    content, ends = text[first:last], offsets - first
    if len(content) == 0:
        return np.zeros(len(ends) - 1, np.int64)
    if int(content.max()) < 0x80:
        return np.diff(ends)
    begins = (content & 0xC0) != 0x80  # the first byte of a character
    whole = characters_of(content.data) != DAMAGED and bool(
        begins[ends[:-1][ends[:-1] < len(content)]].all()
    )
    if not whole:
        pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        return np.array([characters_of(content[a:b].data) for a, b in pairs], np.int64)
    before = offsets_of(begins)
    return before[ends[1:]] - before[ends[:-1]]
