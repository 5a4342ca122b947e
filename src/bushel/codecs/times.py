"""Dates, times and durations: `datetime64(us)` and `timedelta64(us)`, as NumPy has them.

A value is stored as 8 bytes: a little-endian count of the unit, for `datetime64` since 1970-01-01
UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64, U8, Array
from bushel.errors import SpecError

from .base import (
    Buffer,
    Codec,
    Factory,
    codec_error,
    describe,
    fixed_rows,
    found_bytes,
)

_SCALARS: Mapping[str, type[Any]] = {"M": np.datetime64, "m": np.timedelta64}
_VALUES: Mapping[str, tuple[type, ...]] = {
    "M": (np.datetime64, datetime, date, str),
    "m": (np.timedelta64, timedelta),
}
_ISO = re.compile(r"[+-]?[0-9]{4,}-[0-9]{2}")
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")


def time_dtype(codec: str) -> np.dtype[Any] | None:
    """Return the dtype of a codec of times such as `datetime64(us)`; None for other codecs."""
    base, _, unit = codec.partition("(")
    if base not in FACTORIES or unit.removesuffix(")") not in _UNITS:
        return None
    return np.dtype(f"{base}[{unit.removesuffix(')')}]")


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
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return np.int64(value).view(dtype)
    usual = _VALUES[dtype.kind]
    if not isinstance(value, usual) or (isinstance(value, str) and not _ISO.match(value)):
        raise codec_error(codec, expected, describe(value))
    try:
        exact = _SCALARS[dtype.kind](value)
        converted = exact.astype(dtype)
    except (ValueError, OverflowError) as error:
        raise codec_error(codec, expected, f"{describe(value)} ({error})") from error
    if np.isnat(converted) or converted.astype(exact.dtype) != exact:
        raise codec_error(codec, expected, describe(value))
    return converted


def _encode(codec: str, value: Any) -> bytes:
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    scalar = exact_time(codec, value)
    return bytes(scalar.astype("<i8").tobytes())


def _encode_column(dtype: np.dtype[Any], array: Array) -> tuple[U8, I64] | None:
    if array.ndim != 1 or array.dtype != dtype or np.isnat(array).any():
        return None
    return fixed_rows(np.ascontiguousarray(array.astype("<i8")))


def _decode(codec: str, dtype: np.dtype[Any], data: Buffer) -> Any:
    if len(data) != 8:
        raise codec_error(codec, "8 bytes", found_bytes(data))
    return np.frombuffer(bytes(data), "<i8").view(dtype)[0]


def _time(name: str, arguments: str) -> Codec:
    """Return codec `datetime64(us)` or `timedelta64(us)`, with the unit in parentheses."""
    dtype = time_dtype(name)
    if dtype is None:
        example = f"{name.partition('(')[0]}(us)"
        raise SpecError(
            f"codec {name!r}: expected a unit, as in {example!r}; the units are {', '.join(_UNITS)}"
        )
    encode_column = partial(_encode_column, dtype)
    return Codec(
        name, partial(_encode, name), partial(_decode, name, dtype), encode_column=encode_column
    )


FACTORIES: Mapping[str, Factory] = {"datetime64": _time, "timedelta64": _time}
