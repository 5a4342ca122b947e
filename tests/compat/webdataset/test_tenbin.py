"""`tenbin`: lists of arrays as bytes, in streams and in files."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel.compat.webdataset import tenbin

ARRAYS = [np.arange(3), np.ones((2, 2), np.float32), np.zeros((0, 3), np.int16)]


def same(found: list[Any], wanted: list[Any]) -> bool:
    return all(
        np.array_equal(one, other) and one.dtype == other.dtype for one, other in zip(found, wanted, strict=True)
    )


def test_infos_are_beside_the_arrays() -> None:
    stored = tenbin.encode_buffer(ARRAYS, ["a", "", "12345678"])
    arrays, infos = tenbin.decode_buffer(stored, infos=True)
    assert same(arrays, ARRAYS)
    assert infos == ["a", "", "12345678"]
    assert same(tenbin.decode_buffer(stored), ARRAYS)
    assert same(tenbin.decode_buffer(stored, infos=["a", "", "12345678"]), ARRAYS)
    with pytest.raises(ValueError, match="not"):
        tenbin.decode_buffer(stored, infos=["b", "", ""])


def test_without_infos_they_are_empty() -> None:
    assert tenbin.decode_buffer(tenbin.encode_buffer(ARRAYS), infos=True)[1] == ["", "", ""]
    assert tenbin.encode_buffer(ARRAYS) == tenbin.encode_buffer(ARRAYS, ["", "", ""])


@pytest.mark.parametrize("infos", [["a"], ["a", "b", "longer than 8"], ["a", "b", "c", "d"]])
def test_infos_that_do_not_fit(infos: list[str]) -> None:
    with pytest.raises(ValueError, match="info"):
        tenbin.encode_buffer(ARRAYS, infos)


def test_classes_of_errors() -> None:
    with pytest.raises(struct.error, match="longer than 8"):
        tenbin.encode_buffer(ARRAYS[:1], ["longer than 8"])
    with pytest.raises(struct.error, match="found 8"):
        tenbin.read(io.BytesIO(tenbin.encode_buffer(ARRAYS)[:8]))
    with pytest.raises(ValueError, match="bool"):
        tenbin.encode_buffer([np.array([True])])
    with pytest.raises(ValueError, match="2 infos for 1 arrays"):
        tenbin.encode_buffer([np.array([True])], ["a", "b"])


def test_not_a_list() -> None:
    with pytest.raises(ValueError, match="list"):
        tenbin.encode_buffer(tuple(ARRAYS))  # type: ignore[arg-type]


def test_files(tmp_path: Path) -> None:
    path = str(tmp_path / "x.ten")
    tenbin.save(path, *ARRAYS, infos=["a", "b", "c"])
    assert Path(path).read_bytes() == tenbin.encode_buffer(ARRAYS, ["a", "b", "c"])
    assert same(tenbin.load(path), ARRAYS)
    assert tenbin.load(path, infos=True)[1] == ["a", "b", "c"]
    for call in (lambda: tenbin.save(path + "x", *ARRAYS), lambda: tenbin.load(path + "x")):
        with pytest.raises(ValueError, match=r"\.ten"):
            call()
    tenbin.save(path + "x", *ARRAYS, nocheck=True)
    assert same(tenbin.load(path + "x", nocheck=True), ARRAYS)


def test_streams_are_read_array_by_array() -> None:
    stream = io.BytesIO(tenbin.encode_buffer(ARRAYS))
    assert same(tenbin.read(stream, 1), ARRAYS[:1])
    assert same(tenbin.read(stream), ARRAYS[1:])
    assert tenbin.read(stream) == []


@pytest.mark.parametrize("length", [8, 16, 40, 100, 110])
def test_a_stream_that_ends_early(length: int) -> None:
    with pytest.raises(ValueError, match="tenbin"):
        tenbin.read(io.BytesIO(tenbin.encode_buffer(ARRAYS)[:length]))


def test_a_length_that_a_stream_makes_up(tmp_path: Path) -> None:
    for length in (-1, 1 << 62):
        forged = b"~TenBin~" + length.to_bytes(8, "little", signed=True) + bytes(64)
        with pytest.raises(ValueError, match="tenbin"):
            tenbin.read(io.BytesIO(forged))
        (tmp_path / "x.ten").write_bytes(forged)
        with pytest.raises(ValueError, match="tenbin"):
            tenbin.load(str(tmp_path / "x.ten"))
