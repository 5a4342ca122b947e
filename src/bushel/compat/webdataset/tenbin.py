"""Lists of arrays as bytes (`.ten`), by Bushel's codec `tenbin`."""

from typing import Any

from bushel.codecs import get_codec

__all__ = ["decode_buffer", "encode_buffer"]


def encode_buffer(arrays: list[Any]) -> bytes:
    """Return the bytes of a list of arrays."""
    return bytes(get_codec("tenbin").encode(arrays))


def decode_buffer(data: bytes) -> list[Any]:
    """Return the list of arrays in `data`."""
    return list(get_codec("tenbin").decode(data))
