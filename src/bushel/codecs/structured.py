"""Nested values: JSON, msgpack, Granular's `tree`, and pickle, which only a spec can select."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from bushel._runtime.arrays import Array

from .arrays import FACTORIES as ARRAYS
from .arrays import array_from, as_array, dtype_from, exact_cast
from .base import Buffer, Codec, Factory, plain, refused, refusing

_ARRAY_MARK = "_"
_SHALLOW = "a value with fewer levels of nesting"


def _scalar(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"a {type(value).__name__} in it cannot be encoded"
        + (_HINT if hasattr(value, "dtype") else "")
    )


_HINT = ": use codec 'tree', or a field of codec 'array'"


_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_scalar)
"""One encoder for all values: `json.dumps` would make one for each value."""


def _encode_json(value: Any) -> bytes:
    try:
        try:
            return _COMPACT.encode(value).encode()
        except UnicodeEncodeError:  # a lone surrogate, which only an escape can represent
            return json.dumps(value, separators=(",", ":"), default=_scalar).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise refused("json", "a JSON value", value, error) from error


def _decode_json(data: Buffer) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # Python's parser also accepts NaN, Infinity, lone surrogates and a byte order mark.
    with refusing("json", "JSON text", data, ValueError, RecursionError):
        return json.loads(bytes(data), parse_float=_finite)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is beyond the range of a float")
    return number


def _json_array(name: str, arguments: str) -> Codec:
    """Return codec `json-array`, or `json-array(int32,-1)`: lists of JSON as arrays, as codec `array` has them."""
    inner = ARRAYS["array"](name.removeprefix("json-"), arguments)
    dtype, _, sizes = arguments.partition(",")

    def encode(value: Any) -> bytes:
        return _encode_json(as_array(name, value).tolist())

    def decode(data: Buffer) -> Any:
        array = as_array(name, _decode_json(data))
        if array.shape == (0,) and sizes.startswith("-1"):
            return inner.decode(b"")  # no rows of that size, such as the boxes of an empty photo
        if dtype and array.size:
            array = _of_dtype(name, array, np.dtype(dtype))
        return inner.decode(inner.encode(array.astype(dtype) if dtype else array))

    return Codec(name, encode, decode)


def _of_dtype(codec: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array with another dtype. Real numbers are rounded to it; whole numbers and truth values are not.

    Raises:
        CodecError: The dtype does not keep them.
    """
    takes = {"i": "iu", "u": "iu", "b": "b"}.get(dtype.kind, "biuf")
    if array.dtype.kind not in takes:
        raise refused(codec, f"lists of numbers that {dtype} holds", array)
    if array.dtype.kind == "f":
        in_range = f"numbers in the range of {dtype}"
        with refusing(codec, in_range, array, FloatingPointError), np.errstate(over="raise"):
            return array.astype(dtype)
    return exact_cast(codec, array, dtype)


def _encode_msgpack(value: Any, codec: str = "msgpack") -> bytes:
    import msgpack

    try:
        packed: bytes = msgpack.packb(value, default=_scalar)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise refused(codec, "a msgpack value", value, error) from error
    return packed


def _decode_msgpack(data: Buffer, codec: str = "msgpack") -> Any:
    import msgpack

    # No string, list or map may claim more items than there are bytes: `unpackb` derives its limits
    # from the size.
    try:
        return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise refused(codec, "one msgpack value", data, error) from error


def _fold(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = as_array("tree", value)
        return [_ARRAY_MARK, array.dtype.str, array.shape, array.tobytes()]
    if isinstance(value, dict):
        return {key: _fold(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if len(value) == 4 and isinstance(value[0], str) and value[0] == _ARRAY_MARK:
            raise refused(
                "tree", "a list that cannot be confused with an array ('_' and three items)", value
            )
        return [_fold(item) for item in value]
    return value


def _unfold(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unfold(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) != 4 or value[0] != _ARRAY_MARK:
        return [_unfold(item) for item in value]
    _, dtype, shape, data = value
    if not isinstance(shape, list) or not isinstance(data, bytes):
        raise refused("tree", "an array as ['_', dtype, shape, bytes]", value)
    return array_from("tree", dtype_from("tree", dtype), shape, data)


def _encode_tree(value: Any) -> bytes:
    with refusing("tree", _SHALLOW, value, RecursionError):
        folded = _fold(value)
    return _encode_msgpack(folded, "tree")


def _decode_tree(data: Buffer) -> Any:
    packed = _decode_msgpack(data, "tree")
    with refusing("tree", _SHALLOW, data, RecursionError):
        return _unfold(packed)


def _encode_pickle(value: Any) -> bytes:
    with refusing("pickle", "a value that pickles", value):  # its own __reduce__ may raise anything
        return pickle.dumps(value, protocol=4)


def _decode_pickle(data: Buffer) -> Any:
    with refusing("pickle", "a pickle", data):  # it may call anything, which may raise anything
        return pickle.loads(data)


FACTORIES: Mapping[str, Factory] = {
    "json": plain(_encode_json, _decode_json),
    "json-array": _json_array,
    "msgpack": plain(_encode_msgpack, _decode_msgpack),
    "tree": plain(_encode_tree, _decode_tree),
    "pickle": plain(_encode_pickle, _decode_pickle, runs_code=True),
}
