"""The bytes that replace an erased value of a gulp item: zeros for a frame, empty JSON of its length for metadata."""

from __future__ import annotations

from bushel._index.table import ShardIndex
from bushel.containers.erasing import Eraser
from bushel.containers.gulp.gmeta import spans
from bushel.containers.gulp.reading import DATA, META


def _erased(index: ShardIndex, field: str, stored: bytes) -> bytes:
    """Do what `Eraser.erased` says. A whole meta dict keeps its names, so that it is as if each value was erased."""
    own = index.fields[field]
    if own.file == DATA:
        return bytes(len(stored))
    whole = own.field == META and stored[:1] == b"{"
    return _each_empty(stored) if whole else _empty(stored)


def _each_empty(text: bytes) -> bytes:
    found = bytearray(text)
    for first, last in spans(text):
        found[first:last] = _empty(text[first:last])
    return bytes(found)


def _empty(text: bytes) -> bytes:
    """Return JSON of the length of a value: `{   }`, `"   "`, `1000` or `0.00`, `null`; of a list, each value so.

    A number keeps its number of digits, as the offsets of all values after it are in tables.
    """
    size = len(text)
    if size < 2:
        return b"0"
    first = text[:1]
    if first == b"[":
        return _each_empty(text)
    if first in b'{"':
        return first + b" " * (size - 2) + text[-1:]
    if first.isdigit() or first == b"-":
        if size > 2 and not text.lstrip(b"-").isdigit():
            return b"0." + b"0" * (size - 2)
        return b"1" + b"0" * (size - 1)
    return b"null" if size == 4 else b'"' + b" " * (size - 2) + b'"'


ERASER = Eraser(_erased)
