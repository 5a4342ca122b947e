"""LitData's nested values."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from bushel.codecs import get_codec
from bushel.errors import CodecError


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode()


def _head(tag: int, count: int) -> bytes:
    return struct.pack("<BI", tag, count)


VALUES: list[tuple[bytes, Any]] = [
    (_head(0, 9) + b'[1, null]', [1, None]),
    (_head(1, 2) + _text("é") + _text(""), ["é", ""]),
    (_head(1, 0), []),
    (_head(2, 2) + struct.pack("<2q", -(1 << 63), 5), [-(1 << 63), 5]),
    (_head(3, 1) + struct.pack("<d", 0.1), [0.1]),
    (_head(4, 3) + b"\0\1\1", [False, True, True]),
    (_head(5, 2) + _text("a") + b"\x08" + struct.pack("<q", 7) + _text("b") + b"\x0b", {"a": 7, "b": None}),
    (
        _head(6, 2) + struct.pack("<I", 2) + _text("x") + _text("y")
        + b"\x10" + b"\x11" + _text("t") + b"\x12" + struct.pack("<q", 1) + b"\x14\1",
        [{"x": None, "y": "t"}, {"x": 1, "y": True}],
    ),
    (b"\x07" + _text("t"), "t"),
    (b"\x09" + struct.pack("<d", -2.5), -2.5),
    (b"\x0a\1", True),
    (b'{"a": [1.5]}', {"a": [1.5]}),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "value"), VALUES)
def test_what_litdata_stores_comes_out(stored: bytes, value: Any) -> None:
    codec = get_codec("litdata-json")
    assert codec.decode(stored) == value
    assert codec.decode(codec.encode([value])) == [value]


@pytest.mark.parametrize(
    "stored",
    [b"", b"\x0c", _head(1, 1 << 31), _head(2, 3), _head(6, 1 << 31) + b"\0\0\0\0", _head(5, 1) + _text("a"), b"[1"]
    + [(_head(5, 1) + _text("")) * 300 + b"\x0b"],
)
def test_damaged_values_are_errors(stored: bytes) -> None:
    with pytest.raises(CodecError, match="codec '(litdata-)?json' expected"):
        get_codec("litdata-json").decode(stored)


def test_changed_bytes_are_errors_or_other_values() -> None:
    rng, codec = random.Random(3), get_codec("litdata-json")
    for stored, _ in VALUES * 200:
        changed = bytearray(stored)
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            codec.decode(bytes(changed[: rng.randrange(1, len(changed) + 1)]))
        except CodecError:
            continue
