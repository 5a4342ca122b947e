"""The five containers that are written, and the shipped conformance suite over codecs and kinds of storage."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.conformance.samples import POOL, fit, make_samples
from tests.conformance.suite import CONTAINER_CHECKS, check_container
from tests.conformance.target import Target
from tests.formats import each_format
from upath import UPath

from bushel._dataset.views.stored_values import same_value
from bushel.codecs import Codec
from bushel.testing import (
    ConformanceError,
    InapplicableError,
    check_codec,
    check_storage,
)
from bushel.testing.expect import expect_equal, expect_raises


@pytest.mark.parametrize("check", CONTAINER_CHECKS)
@each_format
def test_container(container: str, generation: str | None, check: str, tmp_path: Path) -> None:
    try:
        CONTAINER_CHECKS[check](Target(container, tmp_path, generation))
    except InapplicableError as reason:
        pytest.skip(str(reason))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 21))
@each_format
def test_container_with_other_samples(container: str, generation: str | None, seed: int, tmp_path: Path) -> None:
    skipped = check_container(container, tmp_path, generation=generation, seed=seed)
    assert set(skipped) <= {"elements"}


NOISE = np.random.default_rng(0)
TREE = {"a": [1, -2, 0.5, None, True, "été"], "b": {"c": {}}, "": []}
VALUES: dict[str, Sequence[Any]] = {
    "bytes": [b"", b"\0", bytes(range(256))],
    "utf8": ["", "plain", "☕ déjà vu \0"],
    "int": [0, 1, 127, 128, 255, 256, -1, -129, 2**63, -(2**63)],
    "uint": [0, 255, 2**64 - 1],
    "i64": [0, -(2**63), 2**63 - 1],
    "u64": [0, 2**64 - 1],
    "float": [0.0, -1.5, 1e300, float("inf"), float("nan")],
    "cls": [0, 7, -3, 10**20],
    "json": [TREE, [], 3, "x", None],
    "msgpack": [TREE, [], 3, "x", None, b"\0"],
    "array": [np.zeros((0, 3), np.float32), np.arange(6, dtype="<i8").reshape(2, 3), np.array(2.5)],
    "npy": [np.zeros((0, 3), np.float32), np.arange(6, dtype="<i8").reshape(2, 3), np.array(2.5)],
    "npz": [{"a": np.arange(3), "b": np.ones((2, 2), np.float32)}],
    "tree": [{"a": np.arange(3), "b": [1, "x", {"c": np.ones((2, 2), np.float32)}]}],
    "png": [NOISE.integers(0, 256, (5, 7, 3), np.uint8), NOISE.integers(0, 256, (4, 4), np.uint8)],
}


@pytest.mark.parametrize("codec", VALUES)
def test_lossless_codec(codec: str) -> None:
    check_codec(codec, VALUES[codec])


@pytest.mark.parametrize("codec", ["jpg", "jpg(70)", "webp"])
def test_lossy_codec(codec: str) -> None:
    check_codec(codec, [NOISE.integers(0, 256, (16, 24, 3), np.uint8)], lossless=False)


def _encode_restlessly(value: npt.NDArray[np.uint8]) -> bytes:
    return bytes(value ^ np.uint8(random.getrandbits(1)))


def _decode_levels(data: Any) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8).copy()


def test_lossy_codec_that_never_gives_the_same_bytes() -> None:
    check_codec(Codec("restless", _encode_restlessly, _decode_levels), [np.zeros(64, np.uint8)] * 8, lossless=False)


def test_local_storage(tmp_path_factory: pytest.TempPathFactory) -> None:
    check_storage(lambda: tmp_path_factory.mktemp("local"))


def test_storage_under_open() -> None:
    number = iter(range(10))

    def folder() -> UPath:
        path = UPath(f"memory://conformance/{next(number)}")
        path.mkdir(parents=True)
        return path

    check_storage(folder)


# The suite itself: it must see what is wrong


def _encode(value: int) -> bytes:
    return bytes([value])


def _decode_off_by_one(data: Any) -> int:
    return int(data[0]) + 1


def _decode_without_care(data: Any) -> int:
    return bytes(data).index(7)


def test_suite_sees_a_codec_that_changes_values() -> None:
    with pytest.raises(ConformanceError, match="expected 7, found 8"):
        check_codec(Codec("wrong", _encode, _decode_off_by_one), [7])


def test_suite_sees_a_codec_that_raises_something_else() -> None:
    with pytest.raises(ConformanceError, match="not a CodecError"):
        check_codec(Codec("careless", _encode, _decode_without_care), [7], lossless=False)


def test_suite_sees_a_codec_that_borrows_memory() -> None:
    with pytest.raises(ConformanceError, match="borrows the memory"):
        check_codec(Codec("borrowing", bytes, _borrow), [NOISE.integers(1, 256, 4, np.uint8)])


def _borrow(data: Any) -> Any:
    return np.frombuffer(data, np.uint8)


def test_expectations() -> None:
    expect_equal({"a": [np.arange(3), float("nan")]}, {"a": [np.arange(3), float("nan")]}, "nested")
    assert not same_value(np.arange(3), np.arange(3.0))
    assert not same_value({"a": 1}, {"b": 1})
    assert not same_value([1, 2], [1])
    with pytest.raises(ConformanceError, match="what: expected 2, found 1"):
        expect_equal(1, 2, "what")
    nothing = pytest.raises(ConformanceError, match="expected KeyError or IndexError, but nothing was raised")
    with nothing, expect_raises(KeyError, IndexError, what="nothing"):
        pass


def test_samples_are_the_same_for_the_same_seed() -> None:
    spec = fit("bag", "B", random.Random(1))
    assert set(spec.items()) == set(POOL.items())
    assert same_value(make_samples(spec, 3, 4), make_samples(spec, 3, 4))
    assert not same_value(make_samples(spec, 3, 4), make_samples(spec, 4, 4))
