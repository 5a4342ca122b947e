"""The codec protocol and its errors."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bushel.errors import CodecError, SpecError

__all__ = ["Buffer", "Codec", "Factory", "MAX_EXPANDED", "Ranged", "codec_error", "describe", "found_bytes", "plain"]

MAX_EXPANDED = 1 << 30
"""Limit in bytes to which one compressed value may expand. A larger one is taken for a decompression bomb."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Stored bytes. Memoryviews are contiguous and of format `B`."""


@dataclass(frozen=True, slots=True)
class Ranged:
    """Decodes some elements of a value without all others, such as frames of a clip.

    Attributes:
        count: Maps bytes to the number of elements.
        decode: Maps bytes and a slice or int64[n] of elements (negative ones count from the end) to the value with
            only these elements. Raises `IndexError` for an element out of range.
    """

    count: Callable[[Buffer], int]
    decode: Callable[[Buffer, slice | npt.NDArray[np.int64]], Any]


@dataclass(frozen=True, slots=True)
class Codec:
    """A pair of functions between values and stored bytes.

    It pickles with its functions, so a registered codec also reaches a spawned process that never called
    `register_codec`, as long as `pickle` can import its functions there.

    Attributes:
        name: The name under which a spec asks for it, with its parameters.
        encode: Maps a value to bytes. Raises `CodecError` for a value it cannot encode.
        decode: Maps bytes to a value, which never borrows the memory of the bytes. Raises `CodecError` for invalid
            bytes.
        ranged: Decodes single elements of the value, or None.
    """

    name: str
    encode: Callable[[Any], Buffer]
    decode: Callable[[Buffer], Any]
    ranged: Ranged | None = None


Factory: TypeAlias = Callable[[str, str], Codec]
"""Makes a codec from its full name and the text between its parentheses, which is empty if it has none."""


def plain(encode: Callable[[Any], Buffer], decode: Callable[[Buffer], Any]) -> Factory:
    """Return a factory for a codec without parameters."""

    def factory(name: str, arguments: str) -> Codec:
        if arguments:
            raise SpecError(f"codec {name!r} takes no parameters: write {name.partition('(')[0]!r}")
        return Codec(name, encode, decode)

    return factory


def codec_error(codec: str, expected: str, found: str) -> CodecError:
    """Return the error of a codec: its name, what it expected, what it found."""
    return CodecError(f"codec {codec!r} expected {expected}, found {found}", codec=codec)


def describe(value: object) -> str:
    """Describe a value in a few words, whatever its size."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"a {type(value).__name__} of shape {shape} and dtype {dtype}"
    if isinstance(value, bytes | bytearray | memoryview):
        return found_bytes(value)
    try:
        return f"{type(value).__name__} {reprlib.repr(value)}"
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return f"a {type(value).__name__} too large to print"


def found_bytes(data: Buffer) -> str:
    """Describe stored bytes by their number and the first few."""
    head = bytes(data[:8]).hex(" ")
    return f"{len(data)} bytes" + (f" starting with {head}" if head else "")
