"""Lists of arrays as bytes (`.ten`), by Bushel's codec `tenbin`; each array may have an info of at most 8 letters."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

from bushel.codecs import get_codec
from bushel.errors import CodecError

from .autodecode import ArrayDataError, decoders

_CHUNK = struct.Struct("<8sq")  # the header of a chunk: `~TenBin~`, and its length without padding
_ALIGNMENT = 64
_PIECE = 1 << 20
_INFO = slice(8, 16)  # the info of an array in its header chunk, after the type


class FixedLengthError(ArrayDataError, struct.error):
    """Eight letters of an info, or the start of a chunk, have another length."""


Infos = bool | Sequence[str]
"""Whether to return the infos, too; or those that are expected."""


def encode_buffer(l: list[Any], infos: Sequence[str] | None = None) -> bytes:  # noqa: E741 the original's name
    """Return the bytes of a list of arrays, and their infos.

    Raises:
        ValueError: It is not a list, or the infos are not as many as the arrays.
        ArrayDataError: An array has a type that the format lacks. It is a CodecError and a
            ValueError.
        FixedLengthError: An info has more than 8 letters. It is a ValueError and a `struct.error`.
    """
    if not isinstance(l, list):
        raise ValueError("requires list")  # noqa: TRY004 as in the original
    if infos is not None and len(infos) != len(l):
        raise ValueError(f"{len(infos)} infos for {len(l)} arrays")
    try:
        encoded = bytes(get_codec("tenbin").encode(l))
    except CodecError as error:
        raise ArrayDataError(error.message, **error.details) from error
    if infos is None:
        return encoded
    changed = bytearray(encoded)
    for start, info in zip(_headers(changed), infos, strict=True):
        stored = info.encode("ascii")
        if len(stored) > 8:
            raise FixedLengthError(f"the info {info!r} has more than 8 letters")
        changed[start + _INFO.start : start + _INFO.stop] = stored.ljust(8, b"\0")
    return bytes(changed)


def decode_buffer(buf: bytes, infos: Infos = False) -> Any:
    """Return the list of arrays in `buf`; with `infos=True` also the list of infos.

    Raises:
        ValueError: `infos` names others than the buffer has.
        CodecError: The bytes are damaged. It is a ValueError.
    """
    arrays = list(decoders["ten"](buf))
    if infos is False or infos is None:
        return arrays
    stored_infos = [
        bytes(buf[start:][_INFO]).rstrip(b"\0").decode("ascii", "replace")
        for start in _headers(buf)
    ]
    if infos is True:
        return arrays, stored_infos
    if list(infos) != stored_infos:
        raise ValueError(f"the infos are {stored_infos}, not {list(infos)}")
    return arrays


def _headers(encoded: bytes | bytearray) -> Iterator[int]:
    """Yield where the header of each array begins, in bytes that the codec has written or read."""
    offset, number = 0, 0
    while offset < len(encoded):
        length = _CHUNK.unpack_from(encoded, offset)[1]
        offset += _CHUNK.size
        if number % 2 == 0:
            yield offset
        offset += length + -length % _ALIGNMENT
        number += 1


def write(stream: IO[bytes], l: Sequence[Any], infos: Sequence[str] | None = None) -> None:  # noqa: E741
    """Write a list of arrays, see `encode_buffer`."""
    stream.write(encode_buffer(list(l), infos))


def read(stream: IO[bytes], n: int = sys.maxsize, infos: Infos = False) -> Any:
    """Read up to `n` arrays, see `decode_buffer`.

    Raises:
        CodecError: The stream ends inside an array, or is damaged: it is a ValueError.
    """
    parts: list[bytes] = []
    for _ in range(2 * min(n, sys.maxsize // 2)):
        start = stream.read(_CHUNK.size)
        if not start:
            break
        if len(start) < _CHUNK.size:
            raise FixedLengthError(
                f"expected the {_CHUNK.size} bytes that a chunk "
                f"of tenbin begins with, found {len(start)}"
            )
        length = _CHUNK.unpack(start)[1]
        parts += [start, _read_up_to(stream, length + -length % _ALIGNMENT)]
    return decode_buffer(b"".join(parts), infos)


def _read_up_to(stream: IO[bytes], length: int) -> bytes:
    """Read in pieces, because a damaged stream may name any length."""
    pieces: list[bytes] = []
    while length > 0 and (piece := stream.read(min(length, _PIECE))):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def save(fname: str, *args: Any, infos: Sequence[str] | None = None, nocheck: bool = False) -> None:
    """Write arrays to a file, whose name ends in `.ten` unless `nocheck`: ValueError."""
    with open(_checked(fname, nocheck), "wb") as stream:
        write(stream, args, infos)


def load(fname: str, infos: Infos = False, nocheck: bool = False) -> Any:
    """Read the arrays of a file, whose name ends in `.ten` unless `nocheck`: ValueError."""
    with open(_checked(fname, nocheck), "rb") as stream:
        return read(stream, infos=infos)


def _checked(fname: str, nocheck: bool) -> str:
    if not nocheck and not os.fspath(fname).endswith(".ten"):
        raise ValueError("file name should end in .ten")
    return fname
