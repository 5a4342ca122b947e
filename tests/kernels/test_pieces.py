"""read_pieces and gather_pieces against slices of the same bytes."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bushel.kernels import ExtentError, MappedFile, gather_pieces, read_pieces

SIZES = (300_000, 0, 70_001)
CONTENTS = [np.random.default_rng(size).bytes(size) for size in SIZES]
BUFFERS = [np.random.default_rng(size).bytes(size) for size in (0, 10, 100_000)]
SOURCES = [*CONTENTS, *BUFFERS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for number, data in enumerate(CONTENTS):
        (folder / str(number)).write_bytes(data)
    return folder


Piece = tuple[int, int, int]  # source, offset, size
Value = list[Piece] | None

PIECES = st.sampled_from([0, 0, 2, 3, 4, 5, 5]).flatmap(
    lambda source: st.integers(0, len(SOURCES[source])).flatmap(
        lambda offset: st.tuples(
            st.just(source),
            st.just(offset),
            st.integers(0, min(len(SOURCES[source]) - offset, 5000) if offset % 3 else len(SOURCES[source]) - offset),
        )
    )
)
VALUES = st.lists(st.one_of(st.none(), st.lists(PIECES, max_size=4)), max_size=12)


def arguments(values: list[Value], order: list[int] | None = None) -> tuple[Any, ...]:
    length, pieces = [], []
    for row, value in enumerate(values):
        at = 0
        for source, offset, size in value or ():
            pieces.append((source, offset, size, row, at))
            at += size
        length.append(-1 if value is None else at)
    if order is not None:
        pieces = [pieces[number % len(pieces)] for number in np.argsort(np.resize(order, len(pieces)), kind="stable")]
    of, *others = np.array(pieces, np.int64).reshape(-1, 5).T
    return np.array(length, np.int64), of.astype(np.int32), *(column.copy() for column in others)


def model(values: list[Value]) -> list[bytes | None]:
    return [
        None if value is None else b"".join(SOURCES[source][offset : offset + size] for source, offset, size in value)
        for value in values
    ]


@given(VALUES, st.lists(st.integers(0, 9), min_size=1, max_size=9), st.booleans())
@settings(deadline=None)
def test_values_are_their_pieces(folder: Path, values: list[Value], order: list[int], checked: bool) -> None:
    files = [MappedFile(folder / str(number)) for number in range(len(CONTENTS))]
    expected = model(values)
    length, *columns = arguments(values, order)
    crc = np.array([zlib.crc32(value or b"") for value in expected], np.uint32) if checked else None
    for _ in range(2):  # the second time, pages have been seen
        assert read_pieces(files, BUFFERS, length, crc, *columns) == expected
        data, offsets = gather_pieces(files, BUFFERS, length, crc, *columns)
        assert data.tobytes() == b"".join(value or b"" for value in expected)
        assert np.diff(offsets).tolist() == [len(value or b"") for value in expected]


def call(folder: Path, *changes: tuple[int, Any]) -> list[bytes | None]:
    values: list[Value] = [[(0, 5, 10), (5, 0, 10)], None, [(2, 70_000, 1)]]
    given = list(arguments(values))
    for number, change in changes:
        given[number] = change
    files = [MappedFile(folder / str(number)) for number in range(len(CONTENTS))]
    length, *columns = given
    return read_pieces(files, BUFFERS, length, None, *columns)


def whole(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ([(0, whole(21, -1, 1))], "value 0 lacks 1 bytes"),
        ([(0, whole(19, -1, 1))], "piece 1 is not inside its value"),
        ([(0, whole(20, -2, 1))], r"length\[1\] is negative"),
        ([(0, whole(2**63 - 1, 2**63 - 1, 1))], "too long"),
        ([(0, whole(20, -1))], "piece 2 is of no value"),
        ([(4, whole(0, -1, 2))], "piece 1 is of no value"),
        ([(4, whole(0, 1, 2))], "piece 1 is of a missing value"),
        ([(5, whole(0, -1, 0))], "piece 1 is not inside its value"),
        ([(5, whole(0, 2**63 - 1, 0))], "piece 1 is not inside its value"),
        ([(5, whole(0, 0, 0)), (3, whole(10, 20, 1))], "piece 1 is too much"),
        ([(3, whole(10, -1, 1))], "piece 1 is not inside its value"),
        ([(1, np.array([0, 6, 2], np.int32))], "piece 1 has no source"),
        ([(1, np.array([0, -1, 2], np.int32))], "piece 1 has no source"),
        ([(2, whole(5, 99_991, 70_000))], "piece 1 is not inside its buffer"),
        ([(2, whole(5, -1, 70_000))], "piece 1 is not inside its buffer"),
        ([(2, whole(5, 2**63 - 1, 70_000))], "piece 1 is not inside its buffer"),
        ([(2, whole(5, 0))], "must have the same size"),
    ],
)
def test_arguments_that_do_not_fit(folder: Path, changes: list[tuple[int, Any]], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        call(folder, *changes)


@pytest.mark.parametrize("offset", [70_001, 70_002, -1, 2**63 - 1])
def test_pieces_outside_their_file(folder: Path, offset: int) -> None:
    with pytest.raises(ExtentError) as caught:
        call(folder, (2, whole(5, 0, offset)))
    assert (caught.value.row, caught.value.reason, caught.value.found) == (2, "beyond", 70_001)


def test_arguments_of_other_types(folder: Path) -> None:
    length, *columns = arguments([[(0, 0, 1)]])
    with pytest.raises(TypeError, match="not a MappedFile"):
        read_pieces([b"x"], [], length, None, *columns)
    with pytest.raises(TypeError):
        read_pieces([MappedFile(folder / "0")], [5], length, None, *columns)  # type: ignore[list-item]
    columns[3] = columns[3].astype(np.int32)
    with pytest.raises(TypeError, match="row: expected"):
        read_pieces([MappedFile(folder / "0")], [], length, None, *columns)
    columns[3] = columns[3].astype(np.int64)
    assert read_pieces(
        [b"not used", MappedFile(folder / "0")], [], length, None, whole(1).astype(np.int32), *columns[1:]
    )


def test_the_first_wrong_checksum(folder: Path) -> None:
    values: list[Value] = [[(0, 0, 9)], None, [(0, 5, 200_000), (5, 0, 9)], [(5, 1, 1)]]
    length, *columns = arguments(values)
    files = [MappedFile(folder / str(number)) for number in range(len(CONTENTS))]
    sums = [zlib.crc32(value or b"") for value in model(values)]
    for read in (read_pieces, gather_pieces):
        with pytest.raises(ExtentError) as caught:
            read(files, BUFFERS, length, np.array([sums[0], 3, 4, 5], np.uint32), *columns)
        assert (caught.value.row, caught.value.reason) == (2, "checksum")
        assert (caught.value.expected, caught.value.found) == (4, sums[2])


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(100_000))
    file = MappedFile(tmp_path / "x")
    os.truncate(tmp_path / "x", 5)
    length = whole(3, 2)
    with pytest.raises(ExtentError) as caught:
        read_pieces(
            [file],
            [b"abc"],
            length,
            None,
            np.array([1, 0], np.int32),
            whole(0, 0),
            whole(3, 2),
            whole(0, 1),
            whole(0, 0),
        )
    assert (caught.value.row, caught.value.reason) == (1, "shrunk")
