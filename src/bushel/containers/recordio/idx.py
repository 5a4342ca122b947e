"""The `.idx` of a RecordIO file: text with a line `key TAB offset` per record, in the order of writing."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from bushel._index.shard import Keys
from bushel._runtime.arrays import I64, NO_NUMBERS, U8, Bools, offsets_of
from bushel.errors import FormatError

_TAB, _LF, _ZERO = b"\t\n0"
_DIGITS = 18


class Table(Struct, frozen=True):
    """The content of an `.idx`.

    Attributes:
        offset: int64[lines], offset of the record of each line.
        keys: The keys, or None if they are just the positions 0, 1, 2….
    """

    offset: I64
    keys: Keys | None


def parse_idx(text: bytes, file: str) -> Table:
    """Parse a whole `.idx`, all lines at once.

    Raises:
        FormatError: A line is not `key TAB offset`.
    """
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    text = text.rstrip(b"\n")
    if not text:
        return Table(NO_NUMBERS, None)
    data = np.frombuffer(text + b"\n", np.uint8)
    ends = np.flatnonzero(data == _LF)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    tabs = np.flatnonzero(data == _TAB)
    if len(tabs) != len(ends) or np.any(tabs < starts) or np.any(tabs > ends):
        first = np.searchsorted(tabs, starts)
        wrong = np.searchsorted(tabs, ends) - first != 1
        raise _malformed(file, starts, int(wrong.argmax()), text)
    offset, bad = _decimals(data, tabs + 1, ends)
    if bad.any():
        raise _malformed(file, starts, int(bad.argmax()), text)
    lengths = tabs - starts
    borders = offsets_of(lengths)
    is_key = np.zeros(len(data) + 1, np.int8)
    is_key[starts] = 1
    is_key[tabs] -= 1
    key_text = data[np.cumsum(is_key[:-1], dtype=np.int8) == 1]
    if _are_positions(key_text, borders):
        return Table(offset, None)
    return Table(offset, Keys.build(key_text, borders))


def format_idx(offset: I64) -> bytes:
    """Return the text of an `.idx` whose keys are the positions."""
    return b"".join(b"%d\t%d\n" % line for line in enumerate(offset.tolist()))


def _decimals(data: U8, starts: I64, ends: I64) -> tuple[I64, Bools]:
    """Return the decimal numbers in these ranges, and a mask of the invalid ones."""
    width = ends - starts
    bad = (width < 1) | (width > _DIGITS)
    value = np.zeros(len(starts), np.int64)
    for place in range(min(int(width.max()), _DIGITS)):
        has = place < width
        digit = data[np.where(has, starts + place, 0)].astype(np.int64) - _ZERO
        bad |= has & ((digit < 0) | (digit > 9))
        value = np.where(has, value * 10 + digit, value)
    return value, bad


def _are_positions(text: U8, borders: I64) -> bool:
    """Return whether the keys are 0, 1, 2…, spelled without leading zeros."""
    count = len(borders) - 1
    powers = 10 ** np.arange(1, _DIGITS)
    position = np.arange(count)
    if not np.array_equal(np.diff(borders), np.searchsorted(powers, position, side="right") + 1):
        return False
    value, bad = _decimals(text, borders[:-1], borders[1:])
    return not bad.any() and np.array_equal(value, position)


def _malformed(file: str, starts: I64, line: int, text: bytes) -> FormatError:
    start = int(starts[line])
    shown = text[start:].split(b"\n", 1)[0][:60].decode("utf-8", "replace")
    return FormatError(
        f"line {line + 1} should be `key TAB offset`, but is {shown!r}",
        file,
        start,
        "move the .idx away, so that the records are found by a scan of the .rec",
    )
