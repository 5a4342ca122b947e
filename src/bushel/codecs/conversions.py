"""Codecs around another codec: `as(…)`, `transposed(…)`, `gzip(…)` and `stored(…)`.

`as(float,i64)` has values that are stored by one codec and read as another one has them, without a
change. `bushel._recognise.types` decides which conversions there are. A value that would change is
an error. `gzip(…)` compresses the bytes of a codec, and `stored(…)` gives them.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64, U8, Array, offsets_of
from bushel.errors import CodecError, SpecError

from .arrays import as_array, dtype_named, exact_cast
from .base import INTEGERS, MAX_EXPANDED, REAL, Buffer, Codec, codec_error, refused, refusing
from .scalars import FACTORIES as SCALARS
from .scalars import encode_bytes, exact_time, time_dtype
from .structured import FACTORIES as STRUCTURED

WHOLE = (*INTEGERS, "varint")
_NUMBERS = bool | int | float | np.bool_ | np.integer | np.floating
_UNSIGNED = ("uint", "u64")
_FLOAT = SCALARS["float"]("float", "")
_JSON = STRUCTURED["json"]("json", "")


def exact(codec: str, value: Any) -> Any:
    """Return a value of any codec as a codec has it.

    Raises:
        CodecError: The value would change.
    """
    base, _, arguments = codec.partition("(")
    if isinstance(value, np.ndarray) and not value.ndim and base != "array":
        value = value[()]
    if time_dtype(codec) is not None:
        return exact_time(codec, value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        if base in WHOLE:
            return _whole(codec, int(value.astype(np.int64)))
        value = str(value)
    if base in WHOLE:
        return _whole(codec, value)
    if base in REAL:
        return _real(codec, value)
    if base == "bool" and isinstance(value, _NUMBERS) and value in (0, 1):
        return bool(value)
    if base == "utf8" and isinstance(value, str):
        return value
    if base == "json":
        return _plain(value)
    if base == "array":
        return _array(codec, value, arguments[:-1].split(",")[0])
    raise refused(codec, f"a value that {base} holds", value)


def _whole(codec: str, value: Any) -> int:
    is_endless = isinstance(value, float | np.floating) and not np.isfinite(value)
    if not isinstance(value, _NUMBERS) or is_endless or int(value) != value:
        raise refused(codec, "a whole number", value)
    number = int(value)
    if number < 0 and codec in _UNSIGNED:
        raise refused(codec, "a whole number from 0", value)
    return number


def _real(codec: str, value: Any) -> float:
    real = _FLOAT.decode(_FLOAT.encode(value))
    with np.errstate(over="ignore"):
        is_exact = codec != "f32" or float(np.float32(real)) == real or np.isnan(real)
    if not is_exact:
        raise refused(codec, "a number that a 32-bit float holds", value)
    return float(real)


def _plain(value: Any) -> Any:
    """Return a value with the types of JSON: arrays become lists, and times text of ISO 8601."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "mM":
        value = value.astype(str)
    return value.tolist()


def _array(codec: str, value: Any, dtype: str) -> Array:
    array, target = as_array(codec, value), dtype_named(dtype)
    if target is None or array.dtype == target:
        return array
    return exact_cast(codec, array, target)


def _decode(name: str, target: Codec, stored: Codec, data: Buffer) -> Any:
    value = stored.decode(data)
    if stored.name == "csv-text" and target.name != "utf8" and time_dtype(target.name) is None:
        # True of pandas, TRUE of spreadsheets
        value = _JSON.decode((value.lower() if target.name == "bool" else value).encode())
    try:
        converted = exact(target.name, value)
    except CodecError as error:
        raise CodecError(f"{error}. It is stored as {stored.name!r}", codec=name) from error
    if isinstance(converted, np.ndarray):  # checks the shape
        return target.decode(target.encode(converted))
    return converted


def _encode(target: Codec, stored: Codec, value: Any) -> Buffer:
    return stored.encode(exact(stored.name, exact(target.name, value)))


def converting(name: str, target: Codec, stored: Codec) -> Codec:
    """Return codec `as(TARGET,STORED)`, given the codecs of its values and of its bytes."""
    encode, decode = partial(_encode, target, stored), partial(_decode, name, target, stored)
    encode_column = _encode_truths if name == "as(bool,json)" else None
    return Codec(name, encode, decode, encode_column=encode_column)


def _encode_truths(array: Array) -> tuple[U8, I64] | None:
    if array.ndim != 1 or array.dtype != np.bool_:
        return None
    texts = b"".join([b"true" if value else b"false" for value in array.tolist()])
    return np.frombuffer(texts, np.uint8), offsets_of(5 - array)


def _transpose(axes: tuple[int, ...], stored: Codec, data: Buffer) -> Array:
    array: Array = np.ascontiguousarray(stored.decode(data).transpose(axes))
    return array


def _encode_transposed(axes: tuple[int, ...], stored: Codec, value: Any) -> Buffer:
    return stored.encode(np.transpose(value, axes))


def transposed(name: str, axes: str, stored: Codec) -> Codec:
    """Return codec `transposed(1-0,array(float32,2,3))`: arrays that are stored with another order of their axes."""
    order = tuple(int(axis) for axis in re.findall("[0-9]+", axes))
    if sorted(order) != list(range(len(order))) or "-".join(map(str, order)) != axes:
        raise SpecError(
            f"codec {name!r}: expected the order of axes, "
            "as in 'transposed(1-0,array(float32,2,3))'"
        )
    back = tuple(np.argsort(order).tolist())
    return Codec(
        name, partial(_encode_transposed, back, stored), partial(_transpose, order, stored)
    )


_STEP = 1 << 20


def _gzip(name: str, inner: Codec) -> Codec:
    """Return the codec that stores another codec's bytes as a gzip file without name or time."""
    return Codec(
        name, partial(_encode_gzip, inner), partial(_decode_gzip, inner), runs_code=inner.runs_code
    )


def _encode_gzip(inner: Codec, value: Any) -> bytes:
    return gzip.compress(inner.encode(value), mtime=0)


def _decode_gzip(inner: Codec, data: Buffer) -> Any:
    if not len(data):
        raise refused("gzip", "a gzip file", data)
    expanded = bytearray()
    with (
        refusing("gzip", "a complete gzip file", data, OSError, EOFError, zlib.error),
        gzip.GzipFile(fileobj=io.BytesIO(data)) as stream,
    ):
        while piece := stream.read(_STEP):
            expanded += piece
            if len(expanded) > MAX_EXPANDED:
                raise codec_error("gzip", f"at most {MAX_EXPANDED} bytes when expanded", "more")
    return inner.decode(expanded)


def _stored(name: str, inner: Codec) -> Codec:
    return Codec(name, encode_bytes, bytes)


WRAPPERS: Mapping[str, Callable[[str, Codec], Codec]] = {"gzip": _gzip, "stored": _stored}
