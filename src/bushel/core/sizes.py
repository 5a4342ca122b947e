"""Sizes as people write them."""

from __future__ import annotations

import re

__all__ = ["parse_bytes"]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?\s*", re.IGNORECASE)


def parse_bytes(size: int | str) -> int:
    """A number of bytes written as a person would: `1GB` is 10**9, `1GiB` is 2**30.

    Raises:
        ValueError: It is no size.
    """
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"{size!r} is no size: write 500MB, 1GiB or a number of bytes")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " kMGT".upper().index(match[2].upper() or " "))
