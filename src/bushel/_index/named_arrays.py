"""Small files of named arrays beside the sidecars, whose bytes have a CRC-32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from bushel.kernels import crc32

from .headers import DAMAGES, Arrays
from .saving import KINDS, head_of, in_order, pieces_of
from .sidecar import parse_all

T = TypeVar("T")


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
            if (KINDS[array.dtype], array.ndim) != (kinds[name], 1):
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
