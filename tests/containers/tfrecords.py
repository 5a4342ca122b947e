"""TFRecord files and tf.train.Examples, written by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from bushel.kernels import crc32c

__all__ = ["bytes_list", "example", "float_list", "framed", "int_list", "piece", "varint"]


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def piece(number: int, data: bytes) -> bytes:
    """Return a length-delimited field of a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def bytes_list(*values: bytes) -> bytes:
    return piece(1, b"".join(piece(1, value) for value in values))


def float_list(*values: float, packed: bool = True) -> bytes:
    each = [struct.pack("<f", value) for value in values]
    return piece(2, piece(1, b"".join(each)) if packed else b"".join(b"\x0d" + one for one in each))


def int_list(*values: int, packed: bool = True) -> bytes:
    each = [varint(value) for value in values]
    return piece(3, piece(1, b"".join(each)) if packed else b"".join(b"\x08" + one for one in each))


def example(features: Mapping[str, bytes]) -> bytes:
    entries = (piece(1, piece(1, name.encode()) + piece(2, value)) for name, value in features.items())
    return piece(1, b"".join(entries))


def _masked(data: bytes) -> bytes:
    found = crc32c(data)
    return struct.pack("<I", ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(records: Sequence[Any]) -> bytes:
    """Return the bytes of a file of these records."""
    heads = [struct.pack("<Q", len(record)) for record in records]
    return b"".join(
        head + _masked(head) + record + _masked(record) for head, record in zip(heads, records, strict=True)
    )
