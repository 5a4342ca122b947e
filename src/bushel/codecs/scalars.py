"""Bytes, text, integers and real numbers.

Granular changed the signedness of its `int` between versions 0.16 and 0.17. The `int` here writes
the fewest bytes that leave the top bit clear for non-negative numbers, which both versions read
alike; `uint` reads the older encoding.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from bushel._runtime.arrays import I64, U8, Array, offsets_of
from bushel.errors import SpecError

from .base import (
    Buffer,
    Codec,
    Factory,
    NumberLayout,
    codec_error,
    describe,
    fixed_rows,
    found_bytes,
    plain,
)

Encoded: TypeAlias = tuple[U8, I64]

_MAX_INT_BYTES = 16  # granular refuses to decode longer ones
_DECIMAL = re.compile(rb"[+-]?[0-9]+")


def _integer(codec: str, value: Any) -> int:
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise codec_error(codec, "an integer", describe(value)) from None


def _real(codec: str, value: Any) -> float:
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if (
        kind not in "biuf"
        or getattr(value, "ndim", 0) != 0
        or not (hasattr(value, "__float__") or hasattr(value, "__index__"))
    ):
        raise codec_error(codec, "a real number", describe(value))
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise codec_error(
            codec, "a real number in the range of a 64-bit float", describe(value)
        ) from error


def _check_whole(codec: str, real: float, value: Any, bits: int = 64) -> None:
    """Check that a float holds a whole number exactly: floats have 53 or 24 bits for it.

    Raises:
        CodecError: It is another number.
    """
    if (
        isinstance(value, int) or getattr(getattr(value, "dtype", None), "kind", "f") in "iu"
    ) and real != int(value):
        keeps = f"a whole number that a {bits}-bit float keeps (`int` and `json` keep all)"
        raise codec_error(codec, keeps, describe(value))


def _encode_int(value: Any) -> bytes:
    number = _integer("int", value)
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    if length > _MAX_INT_BYTES:
        raise codec_error(
            "int",
            "an integer of at most 127 bits (codec 'json' holds larger ones)",
            describe(number),
        )
    return number.to_bytes(length, "little", signed=True)


def _encode_ints(array: Array) -> Encoded | None:
    if array.ndim != 1 or not np.can_cast(array.dtype, np.int64):
        return None
    numbers = array.astype("<i8")
    magnitude = np.where(numbers < 0, ~numbers, numbers).astype(np.uint64)
    lengths = np.ones(len(numbers), np.int64)
    for size in range(1, 8):
        lengths += magnitude >= np.uint64(1 << (8 * size - 1))
    used = np.arange(8) < lengths[:, None]
    return numbers.view(np.uint8).reshape(-1, 8)[used], offsets_of(lengths)


def _encode_fixed_numbers(dtype: str, array: Array) -> Encoded | None:
    if (
        array.ndim != 1
        or not np.can_cast(array.dtype, dtype)
        or (dtype[1] == "f" and array.dtype.kind != "f")
    ):
        return None
    # as struct does, which makes signalling NaN quiet
    wide = array.astype("<f8") if dtype == "<f4" else array
    return fixed_rows(wide.astype(dtype))


def _encode_byte_rows(array: Array) -> Encoded | None:
    if array.ndim == 2 and array.dtype == np.uint8:
        return fixed_rows(np.ascontiguousarray(array))
    return None


def _decode_int(data: Buffer) -> int:
    return int.from_bytes(data, "little", signed=True)


def _encode_uint(value: Any) -> bytes:
    number = _integer("uint", value)
    if number < 0:
        raise codec_error("uint", "an integer >= 0", describe(number))
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _decode_uint(data: Buffer) -> int:
    return int.from_bytes(data, "little")


def _encode_fixed(codec: str, length: int, signed: bool, value: Any) -> bytes:
    number = _integer(codec, value)
    try:
        return number.to_bytes(length, "little", signed=signed)
    except OverflowError:
        sign = "signed" if signed else "unsigned"
        raise codec_error(
            codec, f"an integer that fits {length} {sign} bytes", describe(number)
        ) from None


def _decode_fixed(codec: str, length: int, signed: bool, data: Buffer) -> int:
    if len(data) != length:
        raise codec_error(codec, f"{length} bytes", found_bytes(data))
    return int.from_bytes(data, "little", signed=signed)


def _int(name: str, arguments: str) -> Codec:
    """Return codec `int`, or `int(8)`: the fixed width of bags, which is unsigned."""
    if not arguments:
        return Codec(
            name,
            _encode_int,
            _decode_int,
            encode_column=_encode_ints,
            layout=NumberLayout("signed"),
        )
    if not re.fullmatch("[1-9][0-9]?", arguments):
        raise SpecError(
            f"codec {name!r}: the parameter must be a number of bytes from 1 to 99, as in 'int(8)'"
        )
    length = int(arguments)
    encode = partial(_encode_fixed, name, length, False)
    decode = partial(_decode_fixed, name, length, False)
    return Codec(name, encode, decode, layout=NumberLayout("unsigned", length))


def _encode_bool(value: Any) -> bytes:
    if not isinstance(value, bool | np.bool_):
        raise codec_error("bool", "a truth value", describe(value))
    return bytes([bool(value)])


def _encode_bools(array: Array) -> Encoded | None:
    if array.ndim == 1 and array.dtype == np.bool_:
        return fixed_rows(np.ascontiguousarray(array))
    return None


def _decode_bool(data: Buffer) -> bool:
    if bytes(data) not in (b"\0", b"\1"):
        raise codec_error("bool", "one byte, 0 or 1", found_bytes(data))
    return bytes(data) == b"\1"


def _encode_float(codec: str, layout: str, value: Any) -> bytes:
    try:
        stored = struct.pack(layout, _real(codec, value))
    except OverflowError as error:
        raise codec_error(
            codec, "a real number in the range of a 32-bit float", describe(value)
        ) from error
    _check_whole(codec, struct.unpack(layout, stored)[0], value, 8 * len(stored))
    return stored


def _decode_float(codec: str, layout: str, data: Buffer) -> float:
    if len(data) != struct.calcsize(layout):
        raise codec_error(codec, f"{struct.calcsize(layout)} bytes", found_bytes(data))
    number: float = struct.unpack(layout, data)[0]
    return number


def _encode_cls(value: Any) -> bytes:
    number = _integer("cls", value)
    try:
        return str(number).encode()
    except ValueError as error:
        raise codec_error(
            "cls", "an integer of no more digits than Python prints", describe(value)
        ) from error


def _decode_cls(data: Buffer) -> int:
    text = bytes(data).strip()
    if not _DECIMAL.fullmatch(text):
        raise codec_error("cls", "an integer as decimal text", found_bytes(data))
    try:
        return int(text)
    except ValueError as error:
        raise codec_error(
            "cls", "an integer of no more digits than Python parses", f"{len(text)} digits"
        ) from error


def _encode_float_text(value: Any) -> bytes:
    import json

    real = _real("float-text", value)
    _check_whole("float-text", real, value)
    return json.dumps(real).encode()


def _decode_float_text(data: Buffer) -> float:
    import json

    # as Python writes them, where JSON has NaN and Infinity
    if bytes(data) in (b"nan", b"inf", b"-inf"):
        return float(bytes(data))
    try:
        number = json.loads(bytes(data))
        real = float(number) if type(number) in (int, float) else None
    except (ValueError, OverflowError, RecursionError) as error:
        raise codec_error("float-text", "a number as JSON text", found_bytes(data)) from error
    if real is None:
        raise codec_error("float-text", "a number as JSON text", found_bytes(data))
    _check_whole("float-text", real, number)
    return real


def encode_bytes(value: Any) -> Buffer:
    """Return bytes as they are. Raise CodecError for other values."""
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
        raise codec_error(
            "utf8", f"UTF-8 text ({error.reason} at byte {error.start})", found_bytes(data)
        ) from error


def _encode_cell(value: Any) -> bytes:
    return b'"' + _encode_utf8(value).replace(b'"', b'""') + b'"'


def _decode_cell(data: Buffer) -> str:
    cell = bytes(data)
    if cell[:1] == b'"' and cell[-1:] == b'"' and len(cell) > 1:
        cell = cell[1:-1].replace(b'""', b'"')
    return _decode_utf8(cell)


FACTORIES: Mapping[str, Factory] = {
    "bytes": plain(encode_bytes, bytes, _encode_byte_rows),
    "utf8": plain(_encode_utf8, _decode_utf8),
    "bool": plain(_encode_bool, _decode_bool, _encode_bools),
    "int": _int,
    "uint": plain(_encode_uint, _decode_uint, layout=NumberLayout("unsigned")),
    "i64": plain(
        partial(_encode_fixed, "i64", 8, True),
        partial(_decode_fixed, "i64", 8, True),
        partial(_encode_fixed_numbers, "<i8"),
        NumberLayout("signed", 8),
    ),
    "u64": plain(
        partial(_encode_fixed, "u64", 8, False),
        partial(_decode_fixed, "u64", 8, False),
        partial(_encode_fixed_numbers, "<u8"),
        NumberLayout("unsigned", 8),
    ),
    "float": plain(
        partial(_encode_float, "float", "<d"),
        partial(_decode_float, "float", "<d"),
        partial(_encode_fixed_numbers, "<f8"),
        NumberLayout("real", 8),
    ),
    "f32": plain(
        partial(_encode_float, "f32", "<f"),
        partial(_decode_float, "f32", "<f"),
        partial(_encode_fixed_numbers, "<f4"),
        NumberLayout("real", 4),
    ),
    "cls": plain(_encode_cls, _decode_cls, layout=NumberLayout("decimal")),
    "float-text": plain(_encode_float_text, _decode_float_text),
    "csv-text": plain(_encode_cell, _decode_cell),
}
