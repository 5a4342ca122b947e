"""LitData's nested values: lists and dicts in a binary form with a tag before each value, or as JSON.

https://github.com/Lightning-AI/litData. A list of texts, of numbers or of equal dicts has one tag
for all elements.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from bushel.errors import CodecError

from .base import Buffer, Factory, codec_error, found_bytes, plain
from .structured import FACTORIES as STRUCTURED

_NAME = "litdata-json"
_PLAIN = STRUCTURED["json"]("json", "")
_JSON, _TEXTS, _INTEGERS, _REALS, _TRUTHS, _DICT, _DICTS, _TEXT, _INTEGER, _REAL, _TRUTH, _NONE = (
    range(12)
)
_DEEPEST = 200
_OF_ROWS = {0x10: _NONE, 0x11: _TEXT, 0x12: _INTEGER, 0x13: _REAL, 0x14: _TRUTH}
"""The tags of values in a list of dicts."""


class _Cursor:
    """Reads values one after another."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def _take(self, length: int) -> memoryview:
        if length > len(self._data) - self._at:
            raise ValueError(f"{length} bytes are announced at offset {self._at}, and fewer follow")
        self._at += length
        return self._data[self._at - length : self._at]

    def _count(self, least: int) -> int:
        """Read the number of elements, whose smallest size is `least` bytes."""
        count = int.from_bytes(self._take(4), "little")
        if count * least > len(self._data) - self._at:
            raise ValueError(
                f"{count} elements are announced at offset {self._at}, and fewer bytes follow"
            )
        return count

    def _text(self) -> str:
        return str(self._take(self._count(1)), "utf-8")

    def _numbers(self, dtype: str) -> list[Any]:
        width = np.dtype(dtype).itemsize
        return list(np.frombuffer(self._take(self._count(width) * width), dtype).tolist())

    def value(self, tag: int | None = None, depth: int = 0) -> Any:
        """Read a value, after its tag if that is known."""
        if tag is None:
            tag = self._take(1)[0]
        if depth > _DEEPEST:
            raise ValueError(f"values are nested deeper than {_DEEPEST}")
        if tag == _NONE:
            return None
        if tag == _JSON:
            return _PLAIN.decode(self._take(self._count(1)))
        if tag == _TEXT:
            return self._text()
        if tag in (_INTEGER, _REAL):
            return struct.unpack("<q" if tag == _INTEGER else "<d", self._take(8))[0]
        if tag == _TRUTH:
            return self._take(1)[0] != 0
        if tag == _TEXTS:
            return [self._text() for _ in range(self._count(4))]
        if tag in (_INTEGERS, _REALS):
            return self._numbers("<i8" if tag == _INTEGERS else "<f8")
        if tag == _TRUTHS:
            return [number != 0 for number in self._take(self._count(1))]
        if tag == _DICT:
            return {self._text(): self.value(None, depth + 1) for _ in range(self._count(5))}
        if tag == _DICTS:
            return self._dicts()
        raise ValueError(f"the tag {tag} at offset {self._at - 1} is unknown")

    def _dicts(self) -> list[dict[str, Any]]:
        rows = self._count(0)
        names = [self._text() for _ in range(self._count(4))]
        if not names or rows * len(names) > len(self._data) - self._at:
            raise ValueError(
                f"{rows} dicts of {len(names)} values are announced, and fewer bytes follow"
            )
        return [{name: self._of_row() for name in names} for _ in range(rows)]

    def _of_row(self) -> Any:
        tag = self._take(1)[0]
        if tag not in _OF_ROWS:
            raise ValueError(f"the tag {tag} at offset {self._at - 1} is unknown")
        return self.value(_OF_ROWS[tag])


def _decode(data: Buffer) -> Any:
    view = memoryview(data).cast("B")
    if len(view) and view[0] > 0x20:  # the older form
        return _PLAIN.decode(view)
    try:
        return _Cursor(view).value()
    except (ValueError, CodecError) as error:
        raise codec_error(
            _NAME, "a nested value of LitData", f"{found_bytes(data)} ({error})"
        ) from error


FACTORIES: Mapping[str, Factory] = {_NAME: plain(_PLAIN.encode, _decode)}
