"""Labels of image records: the bytes of MXNet's header."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.codecs import get_codec
from bushel.errors import CodecError

REAL, INTEGER = get_codec("recordio-label"), get_codec("recordio-label-int")


def test_bytes_are_those_of_mxnet() -> None:
    assert REAL.encode(4.0) == bytes.fromhex("0000000000008040")
    vector = bytes.fromhex("02000000" + "00" * 20 + "0000004000004040")
    assert REAL.encode([2, 3]) == vector
    decoded = REAL.decode(vector)
    assert decoded.dtype == np.float32
    assert decoded.tolist() == [2.0, 3.0]
    assert REAL.decode(memoryview(bytes(8))) == 0.0


@given(st.floats(width=32, allow_nan=False))
def test_a_32_bit_float_comes_back(value: float) -> None:
    assert REAL.decode(REAL.encode(value)) == value


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9))
def test_a_vector_comes_back_flat(values: list[float]) -> None:
    assert REAL.decode(REAL.encode(np.array(values).reshape(1, -1))).tolist() == values


@given(st.integers(-(2**24), 2**24))
def test_an_integer_comes_back(value: int) -> None:
    decoded = INTEGER.decode(INTEGER.encode(value))
    assert decoded == value
    assert type(decoded) is int


@pytest.mark.parametrize("value", [2**24 + 2, -(2**30), 2**62, np.int64(7), True])
def test_other_integers_that_a_float_holds(value: Any) -> None:
    assert INTEGER.decode(INTEGER.encode(value)) == value


@pytest.mark.parametrize("value", [16777217, -16777217, 2**62 + 1, 2**80, 0.5, "3", None, [1]])
def test_no_integer_label(value: Any) -> None:
    with pytest.raises(CodecError, match="recordio-label"):
        INTEGER.encode(value)


@pytest.mark.parametrize("value", [[], "x", 1e40, np.array([1, 16777217]), 1j])
def test_no_label(value: Any) -> None:
    with pytest.raises(CodecError, match="recordio-label"):
        REAL.encode(value)


@pytest.mark.parametrize(
    "data", [b"", bytes(7), bytes(9), bytes(24), b"\1" + bytes(7), b"\1" + bytes(23), b"\xff" * 28]
)
def test_no_stored_label(data: bytes) -> None:
    with pytest.raises(CodecError, match="image record"):
        REAL.decode(data)


@pytest.mark.parametrize("value", [0.5, float("inf"), [1.0]])
def test_no_stored_integer(value: Any) -> None:
    with pytest.raises(CodecError, match="recordio-label-int"):
        INTEGER.decode(REAL.encode(value))


def test_floats_are_rounded() -> None:
    assert REAL.decode(REAL.encode(0.1)) == float(np.float32(0.1))
    assert REAL.decode(REAL.encode(float("inf"))) == float("inf")
