"""The cache with a limit in bytes."""

from __future__ import annotations

from functools import partial

import pytest

from bushel.viewer.shelf import ByteCache


def test_the_values_that_were_used_last_are_kept() -> None:
    cache: ByteCache[bytes] = ByteCache(10, len)
    made: list[str] = []

    def value(name: str) -> bytes:
        made.append(name)
        return name.encode() * 4

    for name in "ababcab":
        assert cache.get(name, partial(value, name)) == name.encode() * 4
    assert made == ["a", "b", "c", "a", "b"]
    assert cache.used <= 10


def test_a_value_above_the_limit_is_kept_alone() -> None:
    cache: ByteCache[bytes] = ByteCache(10, len)
    cache.get("small", lambda: b"1")
    cache.get("large", lambda: b"1" * 50)
    assert cache.used == 50
    assert cache.get("large", lambda: b"") == b"1" * 50
    cache.get("small", lambda: b"1")
    assert cache.used == 1


def test_errors_are_not_kept() -> None:
    cache: ByteCache[bytes] = ByteCache(10, len)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: bytes(1 // 0))
    assert cache.get("a", lambda: b"x") == b"x"
