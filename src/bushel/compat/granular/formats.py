"""Granular's example encoders and decoders, by type: Bushel's codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bushel.codecs import get_codec
from bushel.compat.granular.errors import WrongTypeError

__all__ = ["Codecs", "Decoder", "Encoder", "bind_codecs", "decoders", "encoders", "of_generation", "stored_bytes"]

Encoder = Callable[[Any], Any]
Decoder = Callable[[bytes], Any]
Codecs = dict[str, Callable[..., Any]] | None

_CODECS = {
    "bytes": "bytes",
    "utf8": "utf8",
    "msgpack": "msgpack",
    "int": "int",
    "i64": "i64",
    "u64": "u64",
    "array": "array",
    "tree": "tree",
    "jpg": "jpg(75)",  # what Pillow writes unless it is told otherwise
    "png": "png",
    "mp4": "mp4",
    "webm": "webm",
}

encoders: dict[str, Encoder] = {name: get_codec(codec).encode for name, codec in _CODECS.items()}
"""Types to functions from a value to bytes."""

decoders: dict[str, Decoder] = {name: get_codec(codec).decode for name, codec in _CODECS.items()}
"""Types to functions from bytes to a value."""


def bind_codecs(codecs: Codecs, spec: dict[str, str]) -> dict[str, Callable[..., Any] | None]:
    """The function for each key of a spec.

    Raises:
        KeyError: A type has none.
    """
    if codecs is None:
        return dict.fromkeys(spec)
    missing = sorted({kind.removesuffix("[]") for kind in spec.values()} - codecs.keys())
    if missing:
        raise KeyError(f"there is no function for the type {missing[0]!r}; there are {', '.join(codecs)}")
    return {key: codecs[kind.removesuffix("[]")] for key, kind in spec.items()}


def of_generation(decode: Callable[..., Any] | None, stored: str) -> Callable[..., Any] | None:
    """The decoder for records that the index calls `stored`: the oldest generation wrote `int` without a sign."""
    if stored == "uint" and decode is decoders["int"]:
        return get_codec("uint").decode
    return decode


def stored_bytes(key: str, kind: str, encode: Callable[..., Any] | None, value: Any) -> bytes:
    """A value as its encoder gives it.

    Raises:
        WrongTypeError: That is not bytes.
        Exception: What the encoder raises, with a note that names the key.
    """
    if encode is not None:
        try:
            value = encode(value)
        except Exception as error:
            error.add_note(f"while encoding key {key!r} of type {kind!r}")
            raise
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise WrongTypeError(f"key {key!r} of type {kind!r} gives bytes, not {type(value).__name__}")
