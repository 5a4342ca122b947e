"""Plain bytes and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bushel.codecs.base import Buffer, Factory, codec_error, describe, found_bytes, plain

__all__ = ["FACTORIES"]


def _encode_bytes(value: Any) -> Buffer:
    if isinstance(value, bytes | bytearray | memoryview):
        return value
    raise codec_error("bytes", "bytes, bytearray or memoryview", describe(value))


def _encode_utf8(value: Any) -> bytes:
    if not isinstance(value, str):
        raise codec_error("utf8", "a str", describe(value))
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise codec_error("utf8", "text without lone surrogates", describe(value)) from error


def _decode_utf8(data: Buffer) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise codec_error("utf8", f"UTF-8 text ({error.reason} at byte {error.start})", found_bytes(data)) from error


FACTORIES: Mapping[str, Factory] = {
    "bytes": plain(_encode_bytes, bytes),
    "utf8": plain(_encode_utf8, _decode_utf8),
}
