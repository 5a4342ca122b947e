"""Numbers as the records of MXNet and of TensorFlow have them.

A label of MXNet's image records is a number, or a vector of 32-bit floats. The stored bytes are the
start of the record's payload: `flag` (u32), `label` (f32), and, if `flag` is not 0, `id` and `id2`
(u64 each) and `flag` floats. So the extent of a field is a plain range of the file, and the writer
of the container fills in the ids. All integers are little-endian.

Arrays of integers are packed varints of Protocol Buffers, as `tf.train.Int64List` stores them:
https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64
from bushel.kernels import decode_varints

from .arrays import as_array, exact_cast
from .base import Buffer, Factory, NumberLayout, plain, refused

_SCALAR = struct.Struct("<If")
_FLAG = bytes(4)  # of a label that is one number
_HEADER = 24
_EXACT = 1 << 24  # float32 represents every integer up to here


def _encode_label(value: Any, codec: str = "recordio-label") -> bytes:
    if type(value) is int and -_EXACT <= value <= _EXACT:
        return _SCALAR.pack(0, value)
    array = as_array(codec, value)
    if array.dtype.kind not in "biuf":
        raise refused(codec, "a number or an array of numbers", value)
    if array.size == 0:
        raise refused(codec, "at least one number: MXNet reads an empty label as 0.0", value)
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            floats = flat.astype("<f4")
        if not (np.isinf(floats) == np.isinf(flat)).all():
            raise refused(codec, "numbers that 32-bit floats can represent", value)
    else:
        floats = exact_cast(codec, flat, np.dtype("<f4"))
    if array.ndim == 0:
        return _SCALAR.pack(0, float(floats[0]))
    return struct.pack("<If16x", floats.size, 0.0) + floats.tobytes()


def _decode_label(data: Buffer) -> Any:
    if len(data) >= _SCALAR.size:
        flag, label = _SCALAR.unpack_from(data)
    else:
        flag, label = -1, 0.0
    if flag == 0 and len(data) == _SCALAR.size:
        return label
    if flag > 0 and len(data) == _HEADER + 4 * flag:
        return np.frombuffer(data, "<f4", offset=_HEADER).astype(np.float32)
    raise refused("recordio-label", "the header of an image record", data)


def _encode_integer(value: Any) -> bytes:
    codec = "recordio-label-int"
    if type(value) is not int:
        array = as_array(codec, value)
        if array.ndim or array.dtype.kind not in "biu":
            raise refused(codec, "an integer that a 32-bit float can represent", value)
    return _encode_label(value, codec)


def _decode_integer(data: Buffer) -> int:
    label = _decode_label(data)
    if not isinstance(label, float) or not label.is_integer():
        raise refused("recordio-label-int", "a label that is an integer", label)
    return int(label)


def _encode_varints(value: Any) -> bytes:
    array = as_array("varints", value)
    if array.ndim != 1 or (array.size and not np.can_cast(array.dtype, np.int64)):
        raise refused("varints", "a one-dimensional array of integers that fit int64", value)
    out = bytearray()
    for number in array.astype(np.int64).astype(np.uint64).tolist():
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return bytes(out)


def _decode_varints(data: Buffer) -> I64:
    try:
        return decode_varints(data).copy()  # an array that owns its memory
    except ValueError as error:
        raise refused("varints", f"packed varints ({error})", data) from error


def _encode_varint(value: Any) -> bytes:
    try:
        number = operator.index(value)
    except TypeError:
        raise refused("varint", "an integer", value) from None
    if not -(1 << 63) <= number < 1 << 63:
        raise refused("varint", "an integer that fits int64", value)
    return _encode_varints([number])


def _decode_varint(data: Buffer) -> int:
    value = bits = 0
    last = 0x80
    for last in data:
        value |= (last & 0x7F) << bits
        bits += 7
        if last < 0x80:
            break
    if last >= 0x80 or bits != 7 * len(data) or value >> 64:
        raise refused("varint", "one packed varint", data)
    return value - (value >> 63 << 64)


FACTORIES: Mapping[str, Factory] = {
    "recordio-label": plain(
        _encode_label, _decode_label, layout=NumberLayout("real", _SCALAR.size, _FLAG)
    ),
    "recordio-label-int": plain(
        _encode_integer, _decode_integer, layout=NumberLayout("whole-real", _SCALAR.size, _FLAG)
    ),
    "varint": plain(_encode_varint, _decode_varint),
    "varints": plain(_encode_varints, _decode_varints),
}
