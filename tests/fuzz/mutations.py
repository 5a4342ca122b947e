"""Mutations that damage a file: pure functions of its bytes and a random generator."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable

_DIGITS = re.compile(rb"\d+")

HUGE = (2**63, 2**63 - 1, 2**64 - 1, 2**62, 2**32, 2**32 - 1, 2**31, 2**31 - 1, 2**40, 0, 1, 2**63 + 8)
"""Values of lengths and offsets that no reader may believe."""


def flip_bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice([1, 3, 4, 8, 512]))


def remove(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice([1, 3, 4, 8, 512])]


def zero(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    stop = min(len(data), at + rng.choice([1, 4, 8, 512]))
    data[at:stop] = bytes(stop - at)


def repeat(data: bytearray, rng: random.Random) -> None:
    first = rng.randrange(len(data))
    part = data[first : first + rng.choice([8, 16, 512, 1024])]
    at = rng.randrange(len(data) + 1)
    data[at:at] = part


def huge_word(data: bytearray, rng: random.Random) -> None:
    """Overwrite a number of 4 or 8 bytes, as in binary tables."""
    size = rng.choice([4, 8])
    at = rng.randrange(max(1, len(data) - size + 1))
    at -= at % rng.choice([1, 4, 8])
    value = rng.choice(HUGE) % 256**size
    data[at : at + size] = value.to_bytes(size, rng.choice(["little", "little", "big"]))


def huge_digits(data: bytearray, rng: random.Random) -> None:
    """Replace a run of digits by a large number: in JSON, `.idx` lines, or octal fields of a tar."""
    first = rng.randrange(len(data))  # looking for all runs would take longer than reading the dataset
    run = _DIGITS.search(data, first) or _DIGITS.search(data)
    if run is None:
        return
    value = rng.choice([*map(str, HUGE), "-1", "9" * 30, "9" * 5000]).encode()
    if rng.random() < 0.5:  # of the same length, so that the rest of a header stays valid
        width = len(run[0])
        value = b"7" * width if rng.random() < 0.5 else value[:width].ljust(width, b"0")
    data[run.start() : run.end()] = value


def head(data: bytearray, rng: random.Random) -> None:
    """Change a byte at the beginning, where formats have their signature."""
    at = rng.randrange(min(len(data), 64))
    data[at] = rng.randrange(256)


def tail(data: bytearray, rng: random.Random) -> None:
    """Change a byte at the end, where formats have their tables."""
    at = len(data) - 1 - rng.randrange(min(len(data), 64))
    data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip_bits,
    truncate,
    insert,
    remove,
    zero,
    repeat,
    huge_word,
    huge_word,
    huge_digits,
    head,
    tail,
)


def mutate(data: bytes, rng: random.Random) -> tuple[bytes, list[str]]:
    """Apply one or more random mutations. Return the damaged bytes and the names of the mutations."""
    damaged = bytearray(data)
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not damaged:
            break
        change = rng.choice(MUTATIONS)
        change(damaged, rng)
        done.append(change.__name__)
    return bytes(damaged), done


def with_own_crc32(data: bytes) -> bytes:
    """Return a damaged table with the CRC-32 that fits it, as someone who forges one would write it (docs/index.md)."""
    mark = b'\\"crc32\\":\\"'
    digits = data.find(mark) + len(mark)
    if digits < len(mark) or digits + 8 > len(data):
        return data
    head, tail = data[:digits], data[digits + 8 :]
    return head + b"%08x" % zlib.crc32(head + b"00000000" + tail) + tail
