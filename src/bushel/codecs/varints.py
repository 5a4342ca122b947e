"""Arrays of integers as packed varints of Protocol Buffers, as `tf.train.Int64List` stores them.

https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64
from bushel.kernels import decode_varints

from .arrays import as_array
from .base import Buffer, Factory, codec_error, describe, found_bytes, plain


def _encode(value: Any) -> bytes:
    array = as_array("varints", value)
    if array.ndim != 1 or (array.size and not np.can_cast(array.dtype, np.int64)):
        raise codec_error(
            "varints", "a one-dimensional array of integers that fit int64", describe(value)
        )
    out = bytearray()
    for number in array.astype(np.int64).astype(np.uint64).tolist():
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return bytes(out)


def _decode(data: Buffer) -> I64:
    try:
        return decode_varints(data).copy()  # an array that owns its memory
    except ValueError as error:
        raise codec_error("varints", f"packed varints ({error})", found_bytes(data)) from error


def _encode_one(value: Any) -> bytes:
    try:
        number = operator.index(value)
    except TypeError:
        raise codec_error("varint", "an integer", describe(value)) from None
    if not -(1 << 63) <= number < 1 << 63:
        raise codec_error("varint", "an integer that fits int64", describe(value))
    return _encode([number])


def _decode_one(data: Buffer) -> int:
    value = bits = 0
    last = 0x80
    for last in data:
        value |= (last & 0x7F) << bits
        bits += 7
        if last < 0x80:
            break
    if last >= 0x80 or bits != 7 * len(data) or value >> 64:
        raise codec_error("varint", "one packed varint", found_bytes(data))
    return value - (value >> 63 << 64)


FACTORIES: Mapping[str, Factory] = {
    "varint": plain(_encode_one, _decode_one),
    "varints": plain(_encode, _decode),
}
