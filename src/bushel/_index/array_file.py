"""Write named arrays as a safetensors file in pieces, for tables that are too large to copy in memory.

`safetensors.numpy.save` writes the same bytes (https://github.com/huggingface/safetensors): 8 bytes of length, a
header of JSON, and the arrays, ordered by type and name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

_PIECE = 1 << 22
_ORDER = ("U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL")
_NAMES = {"bool": "BOOL", "float16": "F16", "float32": "F32", "float64": "F64"}


def _type_of(array: npt.NDArray[Any]) -> str:
    name = array.dtype.name
    return _NAMES.get(name) or name.replace("uint", "U").replace("int", "I")


def _sorted(arrays: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    return sorted(arrays, key=lambda name: (_ORDER.index(_type_of(arrays[name])), name))


def head_of(arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes before the arrays: the length of the header, and the header."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    at = 0
    for name in _sorted(arrays):
        end = at + arrays[name].nbytes
        entries[name] = {"dtype": _type_of(arrays[name]), "shape": arrays[name].shape, "data_offsets": [at, end]}
        at = end
    header = msgspec.json.encode(entries)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def pieces_of(arrays: Mapping[str, npt.NDArray[Any]]) -> Iterator[memoryview]:
    """Yield the bytes of the arrays in the order of the file, 4 MiB at most at a time."""
    for name in _sorted(arrays):
        data = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE].data
