"""What a codec is, and how one says no."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bushel.errors import CodecError, SpecError

__all__ = ["Buffer", "Codec", "Factory", "Ranged", "codec_error", "describe", "found_bytes", "plain"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Stored bytes. Memoryviews are contiguous and of format `B`."""


@dataclass(frozen=True, slots=True)
class Ranged:
    """How some elements of a value are decoded without all others, such as frames of a clip.

    Attributes:
        count: Bytes to the number of elements.
        decode: Bytes and a slice or int64[n] of elements, negative ones counted from the end, to the value that has
            only these. Raises `IndexError` for an element that is not there.
    """

    count: Callable[[Buffer], int]
    decode: Callable[[Buffer, slice | npt.NDArray[np.int64]], Any]


@dataclass(frozen=True, slots=True)
class Codec:
    """A pair of functions between values and stored bytes.

    It pickles with its functions, so a codec that a user registered also reaches a spawned process that never ran
    the `register_codec` call (as long as its functions are importable there, as `pickle` asks of any function).

    Attributes:
        name: The name under which a spec asks for it, with its parameters.
        encode: Value to bytes. Raises `CodecError` for a value it cannot hold.
        decode: Bytes to value. The value never borrows the memory of the bytes. Raises `CodecError` for bytes that
            are not an encoding.
        ranged: How elements of the value are decoded alone, or None.
    """

    name: str
    encode: Callable[[Any], Buffer]
    decode: Callable[[Buffer], Any]
    ranged: Ranged | None = None


Factory: TypeAlias = Callable[[str, str], Codec]
"""Makes a codec from its full name and the text between its parentheses, which is empty when it has none."""


def plain(encode: Callable[[Any], Buffer], decode: Callable[[Buffer], Any]) -> Factory:
    """A factory for a codec without parameters."""

    def factory(name: str, arguments: str) -> Codec:
        if arguments:
            raise SpecError(f"codec {name!r} takes no parameters: write {name.partition('(')[0]!r}")
        return Codec(name, encode, decode)

    return factory


def codec_error(codec: str, expected: str, found: str) -> CodecError:
    """The error of every codec: which one, what it expected, what it found."""
    return CodecError(f"codec {codec!r} expected {expected}, found {found}", codec=codec)


def describe(value: object) -> str:
    """Name a value in a few words, whatever its size."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"a {type(value).__name__} of shape {shape} and dtype {dtype}"
    if isinstance(value, bytes | bytearray | memoryview):
        return found_bytes(value)
    try:
        return f"{type(value).__name__} {reprlib.repr(value)}"
    except ValueError:  # Python prints no integer of more than 4300 digits
        return f"a {type(value).__name__} too large to print"


def found_bytes(data: Buffer) -> str:
    """Name stored bytes by their number and their first few."""
    head = bytes(data[:8]).hex(" ")
    return f"{len(data)} bytes" + (f" beginning {head}" if head else "")
