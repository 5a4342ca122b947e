"""Codec `stored(…)`: the stored bytes of another codec, which is not used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bushel.codecs.base import Buffer, Codec, codec_error, describe


def _stored(name: str, inner: Codec) -> Codec:
    return Codec(name, _unchanged, bytes)


def _unchanged(value: Any) -> Buffer:
    if isinstance(value, bytes | bytearray | memoryview):
        return value
    raise codec_error("stored", "bytes, bytearray or memoryview", describe(value))


WRAPPERS: Mapping[str, Callable[[str, Codec], Codec]] = {"stored": _stored}
