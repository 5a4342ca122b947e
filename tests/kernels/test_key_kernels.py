"""hash_keys, sort_keys and decode_keys against plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bushel.kernels import decimal_texts, decode_keys, hash_keys, sort_keys


def table(keys: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    offsets = np.cumsum([0] + [len(key) for key in keys], dtype=np.int64)
    return np.frombuffer(b"".join(keys), np.uint8), offsets


def reference_hash(key: bytes) -> int:
    """FNV-1a 64, then the finaliser of splitmix64."""
    h = 0xCBF29CE484222325
    for byte in key:
        h = (h ^ byte) * 0x100000001B3 % 2**64
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
    return h ^ h >> 31


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-11, 110)))
def test_decimal_texts_are_those_of_python(numbers: list[int]) -> None:
    assert decimal_texts(np.array(numbers, np.int64)) == [str(number) for number in numbers]


@given(st.lists(st.binary(max_size=40)))
def test_hash_keys_agrees_with_the_reference(keys: list[bytes]) -> None:
    hashes = hash_keys(*table(keys))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [reference_hash(key) for key in keys]


@pytest.mark.parametrize("count", [0, 1, 2, 17, 300, 5000])
def test_sort_keys_agrees_with_a_stable_sort(count: int) -> None:
    keys = [b"%d" % (number * 7919 % max(count // 2, 1)) for number in range(count)]  # each twice
    hashes, order = np.empty(count, np.uint64), np.empty(count, np.int64)
    sort_keys(*table(keys), hashes, order)
    own = hash_keys(*table(keys))
    assert order.tolist() == np.argsort(own, kind="stable").tolist()
    assert hashes.tolist() == np.sort(own).tolist()


def test_sort_keys_refuses_wrong_arrays() -> None:
    hashes, order = np.empty(2, np.uint64), np.empty(2, np.int64)
    with pytest.raises(ValueError, match="as many elements as there are keys"):
        sort_keys(*table([b"a"]), hashes, order)
    with pytest.raises(TypeError, match="writable uint64"):
        sort_keys(*table([b"a", b"b"]), order, order)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="key 1 is at bytes 1 to 9"):
        sort_keys(np.zeros(2, np.uint8), np.array([0, 1, 9]), hashes, order)


def test_hashes_never_change() -> None:
    known = {
        b"": 0xF52A15E9A9B5E89B,
        b"0": 0x8BD66332999B4192,
        b"n01440764/10026": 0x1DD4E989182C7F5A,
        b"\xc3\xa9": 0x233403617480019E,
    }
    assert hash_keys(*table(list(known))).tolist() == list(known.values())


@given(st.lists(st.text(max_size=20), min_size=1), st.data())
def test_decode_keys_agrees_with_decoding(keys: list[str], data: st.DataObject) -> None:
    encoded = [key.encode("utf-8", "replace") for key in keys]
    rows = data.draw(st.lists(st.integers(0, len(keys) - 1)))
    assert decode_keys(*table(encoded), np.array(rows, np.int64)) == [encoded[row].decode() for row in rows]


def test_keys_that_are_not_utf8() -> None:
    keys = [b"\xff\xfe", "é".encode(), b"a\0b"]
    decoded = decode_keys(*table(keys), np.arange(3))
    assert [key.encode("utf-8", "surrogateescape") for key in decoded] == keys


@pytest.mark.parametrize("row", [-1, 2, 2**62])
def test_rows_out_of_range(row: int) -> None:
    with pytest.raises(IndexError, match=f"key {row} of 2"):
        decode_keys(*table([b"a", b"b"]), np.array([0, row]))


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 2], [2, 1], [0, 2**62], [2**63 - 1, -(2**63)]])
def test_offsets_are_checked(offsets: list[int]) -> None:
    data = np.frombuffer(b"abc", np.uint8)
    with pytest.raises(ValueError, match="key 0 is at bytes"):
        hash_keys(data, np.array(offsets))
    with pytest.raises(ValueError, match="key 0 is at bytes"):
        decode_keys(data, np.array(offsets), np.array([0]))


def test_no_offsets() -> None:
    with pytest.raises(ValueError, match="offsets is empty"):
        hash_keys(np.zeros(3, np.uint8), np.zeros(0, np.int64))
    assert hash_keys(np.zeros(3, np.uint8), np.zeros(1, np.int64)).tolist() == []
