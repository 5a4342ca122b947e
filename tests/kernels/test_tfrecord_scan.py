"""The scan of TFRecord files: windows, checksums, and what ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.tfrecords import bytes_list, example, float_list, framed, int_list

from bushel.kernels import TfrecordScanner, crc32c, decode_varints

DATA = framed(
    [example({"t": bytes_list(b"x" * number), "i": int_list(number, 7), "f": float_list(1)}) for number in range(50)]
)


def test_crc32c_has_the_check_value_of_its_catalogue() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


@given(st.binary(max_size=200))
def test_crc32c_is_that_of_bit_by_bit(data: bytes) -> None:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    assert crc32c(data) == state ^ 0xFFFFFFFF


def test_scalar_code_agrees() -> None:
    program = "from bushel.kernels import crc32c; print(crc32c(bytes(range(256)) * 5 + b'xyz'))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "BUSHEL_SIMD": simd}, capture_output=True, check=True
        ).stdout
        for simd in ("", "scalar")
    }
    assert found == {f"{crc32c(bytes(range(256)) * 5 + b'xyz')}\n".encode()}


@pytest.mark.parametrize("window", [1, 7, 60, 1000])
def test_windows_make_no_difference(window: int) -> None:
    whole, parts = TfrecordScanner(), TfrecordScanner(checksums=True)
    assert whole.feed(DATA) == len(DATA)
    while parts.end < len(DATA):
        size = window
        while not parts.feed(DATA[parts.end : parts.end + size]):
            size = max(parts.need, size)
    assert whole.features == parts.features == [(b"t", 1, 1, False), (b"i", 3, 2, False), (b"f", 2, 1, False)]
    assert whole.rows == parts.rows == 50 * 5
    assert plain(whole.take()) == plain(parts.take())


def plain(taken: Any) -> Any:
    *arrays, features = taken
    return [each.tolist() for each in arrays], [(number, *map(np.ndarray.tolist, rest)) for number, *rest in features]


def test_what_is_taken_is_forgotten() -> None:
    """The rest continues where it ended: numbers of records, and positions of copied bytes."""
    data = framed([example({"i": int_list(number, 7, packed=False)} if number % 3 else {}) for number in range(30)])
    whole, parts = TfrecordScanner(), TfrecordScanner()
    whole.feed(data)
    offset, length, wrong, copied, [(number, *rows)] = whole.take()
    assert (number, rows[0].tolist(), wrong.tolist()) == (0, [each for each in range(30) if each % 3], [])
    assert rows[2].tolist() == [-1 - 2 * each for each in range(20)]
    pieces = []
    while parts.end < len(data):
        parts.feed(data[parts.end : parts.end + 100])
        pieces.append(parts.take())
        assert parts.rows == 0
        assert plain(parts.take()) == ([[], [], [], []], [])
    assert len(pieces) > 3
    for number, own in enumerate((offset, length, wrong, copied)):
        assert np.array_equal(own, np.concatenate([piece[number] for piece in pieces]))  # type: ignore[arg-type]
    for number, row in enumerate(rows):
        assert np.array_equal(row, np.concatenate([each[number + 1] for piece in pieces for each in piece[4]]))


def test_wrong_checksums_are_counted() -> None:
    changed = bytearray(DATA)
    changed[-10] ^= 1
    scanner = TfrecordScanner(examples=False, checksums=True)
    scanner.feed(changed)
    assert scanner.take()[2].tolist() == [49]
    assert scanner.features == []


def test_varints() -> None:
    assert decode_varints(b"\x01\xac\x02" + b"\xff" * 9 + b"\x01").tolist() == [1, 300, -1]
    assert decode_varints(b"").dtype == np.int64
    for damaged in (b"\x80", b"\xff" * 10, b"\xff" * 9 + b"\x02"):
        with pytest.raises(ValueError, match="truncated or has more than 64 bits"):
            decode_varints(damaged)
