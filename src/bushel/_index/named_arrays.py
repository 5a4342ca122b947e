"""Named arrays as a safetensors file: the sidecars, and the small files beside them, whose bytes have a CRC-32.

`safetensors.numpy.save` writes the same bytes (https://github.com/huggingface/safetensors), but
copies all arrays: 8 bytes of length, a header of JSON, and the arrays, ordered by type and name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from bushel.kernels import crc32

from .headers import DAMAGES, DTYPES, Arrays
from .sidecar import parse_all

T = TypeVar("T")
_PIECE = 1 << 22
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
_PLACES = {dtype: place for place, dtype in enumerate(_KINDS)}


def in_order(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return arrays in the order of a file."""
    return dict(sorted(arrays.items(), key=lambda own: (_PLACES[own[1].dtype], own[0])))


def head_of(arrays: Arrays, header: object) -> bytes:
    """Return the bytes before arrays in order: the length of their JSON, and the JSON, with a header as its text.

    msgspec encodes the header.
    """
    entries: dict[str, Any] = {"__metadata__": {"bushel": msgspec.json.encode(header).decode()}}
    at = 0
    for name, array in arrays.items():
        end = at + array.nbytes
        entries[name] = {
            "dtype": _KINDS[array.dtype],
            "shape": array.shape,
            "data_offsets": (at, end),
        }
        at = end
    described = msgspec.json.encode(entries)
    described += b" " * (-len(described) % 8)
    return len(described).to_bytes(8, "little") + described


def pieces_of(arrays: Arrays) -> Iterator[memoryview]:
    """Yield the bytes of arrays in order, 4 MiB at most at a time."""
    for array in arrays.values():
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE].data


def encode(arrays: Mapping[str, np.ndarray], header: object) -> bytes:
    """Return the bytes of a file of small arrays, with a header that msgspec can encode as its text."""
    return b"".join(encoded(arrays, header))


def encoded(arrays: Mapping[str, np.ndarray], header: object) -> list[bytes | memoryview]:
    """Return the bytes of `encode` in pieces, which the arrays hold."""
    arrays = in_order(arrays)
    return [head_of(arrays, header), *pieces_of(arrays)]


def parse(
    data: memoryview, kinds: Mapping[str, str], header: msgspec.json.Decoder[T]
) -> tuple[T, Arrays]:
    """Return the header of a file, and its arrays, which are not copied.

    `kinds` has the type of each array: `U8`, `U32`, `U64` or `I64`. They have one dimension.

    Raises:
        ValueError: The file is damaged.
    """
    try:
        text, arrays = parse_all(data)
        chosen = {name: arrays[name] for name in kinds}
        for name, array in chosen.items():
            if (_KINDS[array.dtype], array.ndim) != (kinds[name], 1):
                raise ValueError(f"array {name!r} is {array.dtype}{list(array.shape)}")
        return header.decode(text), chosen
    except DAMAGES as error:
        raise ValueError(str(error)) from error


def body_crc32(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the CRC-32 of the bytes of arrays, in this order."""
    checksum = 0
    for array in arrays.values():
        checksum = crc32(np.ascontiguousarray(array).view(np.uint8), checksum)
    return checksum


def whole_crc32(header: Any, arrays: Mapping[str, np.ndarray]) -> int:
    """Return the CRC-32 of arrays, and then of all that their header says but its own `crc32`."""
    return crc32(msgspec.json.encode(replace(header, crc32=0)), body_crc32(arrays))
