"""Arrays of integers as packed varints of Protocol Buffers, as `tf.train.Int64List` stores them.

https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs.arrays import as_array
from bushel.codecs.base import Buffer, Factory, codec_error, describe, found_bytes, plain
from bushel.kernels import decode_varints


def _encode(value: Any) -> bytes:
    array = as_array("varints", value)
    if array.ndim != 1 or (array.size and not np.can_cast(array.dtype, np.int64)):
        raise codec_error("varints", "a one-dimensional array of integers that fit int64", describe(value))
    out = bytearray()
    for number in array.astype(np.int64).astype(np.uint64).tolist():
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return bytes(out)


def _decode(data: Buffer) -> npt.NDArray[np.int64]:
    try:
        return decode_varints(data).copy()  # an array that owns its memory
    except ValueError as error:
        raise codec_error("varints", f"packed varints ({error})", found_bytes(data)) from error


FACTORIES: Mapping[str, Factory] = {"varints": plain(_encode, _decode)}
