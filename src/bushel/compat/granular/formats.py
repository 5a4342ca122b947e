"""Granular's example encoders and decoders, by type: Bushel's codecs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bushel.compat.granular.base import WrongTypeError
from bushel.compat.granular.originals import AS_IN_THE_ORIGINAL, GRANULAR, Coder

Codecs = dict[str, Callable[..., Any]] | None

_CODECS = {**{name: name for name in GRANULAR}, "jpg": "jpg(75)"}  # 75 is Pillow's default

encoders: dict[str, Callable[[Any], Any]] = {
    name: pair[0] if name in AS_IN_THE_ORIGINAL else Coder(_CODECS[name], True, pair) for name, pair in GRANULAR.items()
}
"""Types to functions from a value to bytes."""

decoders: dict[str, Callable[[bytes], Any]] = {
    name: pair[1] if name in AS_IN_THE_ORIGINAL else Coder(_CODECS[name], False, pair)
    for name, pair in GRANULAR.items()
}
"""Types to functions from bytes to a value."""


def bind_codecs(codecs: Codecs, spec: dict[str, str]) -> dict[str, Callable[..., Any] | None]:
    """Return the function for each key of a spec, or raise a KeyError if a type has none."""
    if codecs is None:
        return dict.fromkeys(spec)
    missing = sorted({kind.removesuffix("[]") for kind in spec.values()} - codecs.keys())
    if missing:
        raise KeyError(f"no function was given for the type {missing[0]!r}; there are {', '.join(codecs)}")
    return {key: codecs[kind.removesuffix("[]")] for key, kind in spec.items()}


def of_generation(decode: Callable[..., Any] | None, stored: str) -> Callable[..., Any] | None:
    """Return the decoder for records of the codec `stored`: the oldest generation wrote `int` without a sign."""
    if stored == "uint" and decode is decoders["int"]:
        return Coder("uint", False, GRANULAR["int"])
    return decode


def stored_bytes(key: str, kind: str, encode: Callable[..., Any] | None, value: Any) -> bytes:
    """Return an encoded value. An error of the encoder gets a note that names the key."""
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
    raise WrongTypeError(f"key {key!r} of type {kind!r} must be encoded to bytes, not {type(value).__name__}")
