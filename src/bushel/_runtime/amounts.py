"""Formatting of numbers for people: sizes in bytes, and numbers with nouns."""

from __future__ import annotations

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def size(number: float) -> str:
    """Return a number of bytes as text: `1 byte`, `999 bytes`, `12.3 MB`, `2 GB`."""
    if number == 1:
        return "1 byte"
    unit = 0
    # what would be rounded to 1000 has the next unit
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    if unit == 0 or number >= 999.5:
        return f"{number:.0f} {_UNITS[unit]}"
    return f"{number:.3g} {_UNITS[unit]}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 shard`, `2 shards`."""
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {noun}s"
