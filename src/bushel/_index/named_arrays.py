"""Reading the named arrays of small safetensors files beside the index, whose bytes are compared with a CRC-32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from bushel.kernels import crc32

_DTYPES: dict[str, np.dtype[Any]] = {
    "U8": np.dtype(np.uint8),
    "U32": np.dtype(np.uint32),
    "I64": np.dtype(np.int64),
}

Arrays = dict[str, npt.NDArray[Any]]


def parse(data: memoryview, kinds: Mapping[str, str]) -> tuple[str, Arrays]:
    """Return the text that describes a file, and its arrays, which are not copied.

    `kinds` has the type of each array: `U8`, `U32` or `I64`.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, RecursionError: The file is damaged.
    """
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        raise ValueError("the header is truncated")
    entries = msgspec.json.decode(data[8 : 8 + length])
    text: str = entries.pop("__metadata__")["bushel"]
    return text, {name: _array(data[8 + length :], entries[name], kind) for name, kind in kinds.items()}


def body_crc32(arrays: Mapping[str, npt.NDArray[Any]]) -> int:
    """Return the CRC-32 of the bytes of arrays, in this order."""
    found = 0
    for array in arrays.values():
        found = crc32(np.ascontiguousarray(array).view(np.uint8), found)
    return found


def _array(body: memoryview, entry: dict[str, Any], kind: str) -> npt.NDArray[Any]:
    first, last = entry["data_offsets"]
    [count] = entry["shape"]
    dtype = _DTYPES[kind]
    if entry["dtype"] != kind or not 0 <= first <= last <= len(body) or last - first != count * dtype.itemsize:
        raise ValueError("the array does not fit the file")
    return np.asarray(np.frombuffer(body[first:last], dtype))
