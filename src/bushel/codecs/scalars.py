"""Bytes, text, integers, real numbers, dates, times and durations.

Granular changed the signedness of its `int` between versions 0.16 and 0.17. The `int` here writes
the fewest bytes that leave the top bit clear for non-negative numbers, which both versions read
alike; `uint` reads the older encoding.

`datetime64(us)` and `timedelta64(us)` are NumPy's. A value is stored as 8 bytes: a little-endian
count of the unit, for `datetime64` since 1970-01-01 UTC.
"""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from bushel._runtime.arrays import I64, U8, Array, offsets_of
from bushel._runtime.time_types import TIMES, UNITS
from bushel.errors import SpecError

from .base import (
    Buffer,
    Codec,
    Factory,
    NumberLayout,
    codec_error,
    fixed_rows,
    plain,
    refused,
    refusing,
)

Encoded: TypeAlias = tuple[U8, I64]


def _integer(codec: str, value: Any) -> int:
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise refused(codec, "an integer", value) from None


def _real(codec: str, value: Any) -> float:
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if (
        kind not in "biuf"
        or getattr(value, "ndim", 0) != 0
        or not (hasattr(value, "__float__") or hasattr(value, "__index__"))
    ):
        raise refused(codec, "a real number", value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise refused(codec, "a real number in the range of a 64-bit float", value) from error


def _check_whole(codec: str, real: float, value: Any, bits: int = 64) -> None:
    """Check that a float holds a whole number exactly: floats have 53 or 24 bits for it.

    Raises:
        CodecError: It is another number.
    """
    if (
        isinstance(value, int) or getattr(getattr(value, "dtype", None), "kind", "f") in "iu"
    ) and real != int(value):
        keeps = f"a whole number that a {bits}-bit float keeps (`int` and `json` keep all)"
        raise refused(codec, keeps, value)


def _encode_int(value: Any) -> bytes:
    number = _integer("int", value)
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    if length > 16:  # granular refuses to decode longer ones
        raise refused(
            "int", "an integer of at most 127 bits (codec 'json' holds larger ones)", number
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


def _encode_rows(axes: int, dtype: type[np.generic], array: Array) -> Encoded | None:
    if array.ndim == axes and array.dtype == dtype:
        return fixed_rows(np.ascontiguousarray(array))
    return None


def _encode_uint(value: Any) -> bytes:
    number = _integer("uint", value)
    if number < 0:
        raise refused("uint", "an integer >= 0", number)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def _encode_fixed(codec: str, length: int, signed: bool, value: Any) -> bytes:
    number = _integer(codec, value)
    try:
        return number.to_bytes(length, "little", signed=signed)
    except OverflowError:
        sign = "signed" if signed else "unsigned"
        raise refused(codec, f"an integer that fits {length} {sign} bytes", number) from None


def _decode_fixed(codec: str, length: int, signed: bool, data: Buffer) -> int:
    if len(data) != length:
        raise refused(codec, f"{length} bytes", data)
    return int.from_bytes(data, "little", signed=signed)


def _int(name: str, arguments: str) -> Codec:
    """Return codec `int`, or `int(8)`: the fixed width of bags, which is unsigned."""
    if not arguments:
        return Codec(
            name,
            _encode_int,
            partial(int.from_bytes, byteorder="little", signed=True),
            encode_column=_encode_ints,
            layout=NumberLayout("signed"),
        )
    if not re.fullmatch("[1-9][0-9]?", arguments):
        raise SpecError(
            f"codec {name!r}: the parameter must be a number of bytes from 1 to 99, as in 'int(8)'"
        )
    length = int(arguments)
    return Codec(
        name,
        partial(_encode_fixed, name, length, False),
        partial(_decode_fixed, name, length, False),
        layout=NumberLayout("unsigned", length),
    )


def _encode_bool(value: Any) -> bytes:
    if not isinstance(value, bool | np.bool_):
        raise refused("bool", "a truth value", value)
    return bytes([bool(value)])


def _decode_bool(data: Buffer) -> bool:
    if bytes(data) not in (b"\0", b"\1"):
        raise refused("bool", "one byte, 0 or 1", data)
    return bytes(data) == b"\1"


def _encode_float(codec: str, layout: str, value: Any) -> bytes:
    try:
        stored = struct.pack(layout, _real(codec, value))
    except OverflowError as error:
        raise refused(codec, "a real number in the range of a 32-bit float", value) from error
    _check_whole(codec, struct.unpack(layout, stored)[0], value, 8 * len(stored))
    return stored


def _decode_float(codec: str, layout: str, data: Buffer) -> float:
    if len(data) != struct.calcsize(layout):
        raise refused(codec, f"{struct.calcsize(layout)} bytes", data)
    number: float = struct.unpack(layout, data)[0]
    return number


def _encode_cls(value: Any) -> bytes:
    number = _integer("cls", value)
    try:
        return str(number).encode()
    except ValueError as error:
        raise refused("cls", "an integer of no more digits than Python prints", value) from error


_DECIMAL = re.compile(rb"[+-]?[0-9]+")


def _decode_cls(data: Buffer) -> int:
    text = bytes(data).strip()
    if not _DECIMAL.fullmatch(text):
        raise refused("cls", "an integer as decimal text", data)
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

    text = bytes(data)
    # as Python writes them, where JSON has NaN and Infinity
    if text in (b"nan", b"inf", b"-inf"):
        return float(text)
    try:
        number = json.loads(text)
        real = float(number) if type(number) in (int, float) else None
    except (ValueError, OverflowError, RecursionError) as error:
        raise refused("float-text", "a number as JSON text", data) from error
    # digits beyond the range of a float, which Python reads as infinity
    if real is None or (math.isinf(real) and b"y" not in text):
        raise refused("float-text", "a number as JSON text", data)
    _check_whole("float-text", real, number)
    return real


def encode_bytes(value: Any) -> Buffer:
    """Return bytes as they are. Raise CodecError for other values."""
    if isinstance(value, bytes | bytearray | memoryview):
        return value
    raise refused("bytes", "bytes, bytearray or memoryview", value)


def _encode_utf8(value: Any) -> bytes:
    if not isinstance(value, str):
        raise refused("utf8", "a str", value)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise refused("utf8", "text without lone surrogates", value) from error


def _decode_utf8(data: Buffer) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise refused("utf8", f"UTF-8 text ({error.reason} at byte {error.start})", data) from error


def _encode_cell(value: Any) -> bytes:
    return b'"' + _encode_utf8(value).replace(b'"', b'""') + b'"'


def _decode_cell(data: Buffer) -> str:
    cell = bytes(data)
    if cell[:1] == b'"' and cell[-1:] == b'"' and len(cell) > 1:
        cell = cell[1:-1].replace(b'""', b'"')
    return _decode_utf8(cell)


def codec_of_time(dtype: np.dtype[Any]) -> str:
    """Return the codec of a dtype of times, such as `datetime64(us)`."""
    return dtype.name.replace("[", "(").replace("]", ")")


def time_dtype(codec: str) -> np.dtype[Any] | None:
    """Return the dtype of a codec of times such as `datetime64(us)`; None for other codecs."""
    if any(codec in types for types in TIMES):
        return np.dtype(codec.replace("(", "[").replace(")", "]"))
    return None


def exact_time(codec: str, value: Any) -> Any:
    """Return a time or duration as NumPy's scalar with the unit of a codec.

    Args:
        codec: Name of the codec, such as `datetime64(us)`.
        value: A scalar of NumPy or of `datetime`, a whole number of units, or a text of ISO 8601.

    Raises:
        CodecError: It is another value, or the unit does not hold it exactly.
    """
    dtype = time_dtype(codec)
    assert dtype is not None
    expected = f"a {dtype.name} without loss"
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()  # of pandas, with its nanoseconds
    # NumPy's durations are whole numbers, too
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        with refusing(codec, expected, value, OverflowError):
            return np.int64(int(value)).view(dtype)
    if dtype.kind == "M":
        is_usual = isinstance(value, np.datetime64 | date) or (
            isinstance(value, str)
            # NumPy writes a year as a number alone
            and re.match("[+-]?[0-9]{4,}" + "-[0-9]{2}" * (codec[-2] != "Y"), value)
        )
    else:
        is_usual = isinstance(value, np.timedelta64 | timedelta)
    # NaT differs from itself
    if not is_usual or operator.ne(value, value):
        raise refused(codec, expected, value)
    try:
        exact = dtype.type(value)
        converted = exact.astype(dtype)
    except (ValueError, OverflowError) as error:
        raise refused(codec, expected, value, error) from error
    if np.isnat(converted) or converted.astype(exact.dtype) != exact:
        holds = codec_of_time(exact.dtype)
        raise codec_error(codec, expected, f"{exact}: declare {holds!r} for the field with spec=")
    return converted


def _encode_time(codec: str, value: Any) -> bytes:
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    return bytes(exact_time(codec, value).astype("<i8").tobytes())


def _encode_times(dtype: np.dtype[Any], array: Array) -> tuple[U8, I64] | None:
    if array.ndim != 1 or array.dtype != dtype or np.isnat(array).any():
        return None
    return fixed_rows(np.ascontiguousarray(array.astype("<i8")))


def _decode_time(codec: str, dtype: np.dtype[Any], data: Buffer) -> Any:
    if len(data) != 8:
        raise refused(codec, "8 bytes", data)
    return np.frombuffer(bytes(data), "<i8").view(dtype)[0]


def _time(name: str, arguments: str) -> Codec:
    """Return codec `datetime64(us)` or `timedelta64(us)`, with the unit in parentheses."""
    dtype = time_dtype(name)
    if dtype is None:
        example = f"{name.partition('(')[0]}(us)"
        raise SpecError(
            f"codec {name!r}: expected a unit, as in {example!r}; the units are {', '.join(UNITS)}"
        )
    return Codec(
        name,
        partial(_encode_time, name),
        partial(_decode_time, name, dtype),
        encode_column=partial(_encode_times, dtype),
    )


def _eight_bytes(codec: str, *, signed: bool) -> Factory:
    return plain(
        partial(_encode_fixed, codec, 8, signed),
        partial(_decode_fixed, codec, 8, signed),
        partial(_encode_fixed_numbers, "<i8" if signed else "<u8"),
        NumberLayout("signed" if signed else "unsigned", 8),
    )


def _real_number(codec: str, layout: str, size: int) -> Factory:
    return plain(
        partial(_encode_float, codec, layout),
        partial(_decode_float, codec, layout),
        partial(_encode_fixed_numbers, f"<f{size}"),
        NumberLayout("real", size),
    )


FACTORIES: Mapping[str, Factory] = {
    "bytes": plain(encode_bytes, bytes, partial(_encode_rows, 2, np.uint8)),
    "utf8": plain(_encode_utf8, _decode_utf8),
    "bool": plain(_encode_bool, _decode_bool, partial(_encode_rows, 1, np.bool_)),
    "int": _int,
    "uint": plain(
        _encode_uint, partial(int.from_bytes, byteorder="little"), layout=NumberLayout("unsigned")
    ),
    "i64": _eight_bytes("i64", signed=True),
    "u64": _eight_bytes("u64", signed=False),
    "float": _real_number("float", "<d", 8),
    "f32": _real_number("f32", "<f", 4),
    "cls": plain(_encode_cls, _decode_cls, layout=NumberLayout("decimal")),
    "float-text": plain(_encode_float_text, _decode_float_text),
    "csv-text": plain(_encode_cell, _decode_cell),
    "datetime64": _time,
    "timedelta64": _time,
}
