"""Arrays and images behind the headers of MDS and LitData."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bushel.codecs import get_codec
from bushel.errors import CodecError, SpecError

ARRAYS: list[Any] = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array([-1, 300], np.int64),
    np.ones((1, 300, 2), np.float16),
]


@pytest.mark.parametrize("name", ["mds-array", "litdata-array", "litdata-tensor"])
@pytest.mark.parametrize("array", ARRAYS)
def test_round_trips(name: str, array: Any) -> None:
    codec = get_codec(name)
    stored = codec.encode(array)
    found = codec.decode(memoryview(stored))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array)
    assert callable(codec.layout)
    layout = codec.layout(stored)
    assert layout is not None
    assert (layout.dtype, layout.shape) == (array.dtype, array.shape)
    assert stored == layout.header + array.tobytes()


def test_the_bytes_that_the_originals_write() -> None:
    assert get_codec("mds-array(float32)").encode(ARRAYS[0]) == b"\x08\x02\x03" + ARRAYS[0].tobytes()
    assert get_codec("mds-array").encode(ARRAYS[1]) == b"\x41\x04\x02" + ARRAYS[1].tobytes()
    assert get_codec("litdata-array").encode(ARRAYS[0]) == struct.pack("<IIII", 9, 2, 2, 3) + ARRAYS[0].tobytes()
    assert get_codec("litdata-tensor").encode(ARRAYS[0]) == struct.pack(">IIII", 0, 2, 2, 3) + ARRAYS[0].tobytes()


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 2), (2, 3, 3), (2, 3, 4)])
def test_raw_images(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    codec = get_codec("pil")
    stored = codec.encode(array)
    assert stored[:8] == struct.pack("<II", 3, 2)
    assert np.array_equal(codec.decode(stored), array)
    assert codec.encode(np.ones((2, 3), np.float32))[12:13] == b"F"


def test_raw_images_of_bits() -> None:
    array = np.random.default_rng(0).integers(0, 2, (3, 11)).astype(np.bool_)
    stored = get_codec("pil").encode(array)
    assert stored == struct.pack("<III", 11, 3, 1) + b"1" + Image.fromarray(array).tobytes()
    decoded = get_codec("pil").decode(stored)
    assert decoded.dtype == np.bool_
    assert np.array_equal(decoded, array)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("mds-array", b""),
        ("mds-array", b"\x01\x04\x01\x00"),
        ("mds-array", b"\x08"),
        ("mds-array", b"\x08\xff" + bytes(20)),
        ("mds-array", b"\x08\x07" + b"\xff" * 8),
        ("mds-array(int8)", b"\x04\x03\x00"),
        ("litdata-array", b"\0" * 7),
        ("litdata-array", struct.pack("<II", 99, 1) + bytes(4)),
        ("litdata-array", struct.pack("<II", 0, 1 << 31)),
        ("litdata-array", struct.pack("<III", 0, 1, 1 << 31)),
        ("litdata-tensor", struct.pack(">III", 10, 1, 1) + bytes(2)),
        ("pil", b""),
        ("pil", struct.pack("<III", 1, 1, 1 << 31)),
        ("pil", struct.pack("<III", 1 << 31, 1 << 31, 3) + b"RGB"),
        ("pil", struct.pack("<III", 9, 1, 1) + b"1" + b"\0"),
        ("pil", struct.pack("<III", 1 << 31, 1 << 31, 1) + b"1" + b"\0"),
        ("pil", struct.pack("<III", 1, 1, 1) + b"X" + b"\0"),
    ],
)
def test_bytes_that_do_not_decode(name: str, data: bytes) -> None:
    with pytest.raises(CodecError):
        get_codec(name).decode(data)


def test_values_and_names_that_are_refused() -> None:
    for name in ("mds-array(object)", "pil(3)", "litdata-array(int8)"):
        with pytest.raises(SpecError):
            get_codec(name)
    for name, value in (("mds-array", np.empty(0)), ("mds-array(int8)", np.ones(2)), ("pil", np.ones(3))):
        with pytest.raises(CodecError):
            get_codec(name).encode(value)
