"""The delta encodings of Parquet, written as the specification says."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tests.containers.tfrecords import varint

__all__ = ["encoded", "prefixed", "signed"]

_ALL = (1 << 64) - 1


def signed(number: int) -> bytes:
    """Return a number in the form in which small ones take few bytes, negative ones, too."""
    return varint((number << 1 ^ number >> 63) & _ALL)


def encoded(numbers: Sequence[int], block: int = 128, packs: int = 4, rest: int = 0) -> bytes:
    """Return numbers of DELTA_BINARY_PACKED; widths of parts without numbers are `rest`."""
    length = block // packs
    data = varint(block) + varint(packs) + varint(len(numbers)) + signed(numbers[0] if numbers else 0)
    deltas = [
        (after - before + (1 << 63) & _ALL) - (1 << 63) for before, after in zip(numbers, numbers[1:], strict=False)
    ]
    for first in range(0, len(deltas), block):
        own = deltas[first : first + block]
        least = min(own)
        parts = [own[at : at + length] for at in range(0, len(own), length)]
        widths = [max((each - least).bit_length() for each in part) for part in parts]
        data += signed(least) + bytes(widths) + bytes([rest] * (packs - len(parts)))
        for part, width in zip(parts, widths, strict=True):
            packed = sum(each - least << at * width for at, each in enumerate(part))
            data += packed.to_bytes(length * width // 8, "little")
    return data


def prefixed(values: Sequence[bytes]) -> bytes:
    """Return values of DELTA_BYTE_ARRAY."""
    shared = [len(os.path.commonprefix([before, value])) for before, value in zip([b"", *values], values, strict=False)]
    ends = [value[size:] for value, size in zip(values, shared, strict=True)]
    return encoded(shared) + encoded([len(end) for end in ends]) + b"".join(ends)
