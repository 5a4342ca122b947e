"""Kernels for pages of Parquet: levels and indices against a plain reader, byte arrays of files, and deltas."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.tfrecords import varint
from tests.paths import folder_on_disk

from bushel.kernels import (
    MappedFile,
    decode_deltas,
    join_prefixed,
    present_elements,
    present_values,
    read_hybrid,
    scan_byte_arrays,
)

STORED = Path("/proc/self/io")


def hybrid(numbers: Sequence[int], width: int, rng: random.Random) -> bytes:
    """Return numbers as run lengths and packed groups, chosen at random."""
    data, at = b"", 0
    while at < len(numbers):
        same = len(list(next(groupby(numbers[at:]))[1]))
        if rng.random() < 0.5:
            count = rng.randrange(1, same + 1)
            data += varint(count << 1) + numbers[at].to_bytes((width + 7) // 8, "little")
            at += count
            continue
        groups = rng.choice((1, 2, 65, 200))
        own = numbers[at : at + 8 * groups]
        groups = -(-len(own) // 8)
        packed = sum(number << place * width for place, number in enumerate(own))
        data += varint(groups << 1 | 1) + packed.to_bytes(groups * width, "little")
        at += len(own)
    return data


@given(st.integers(1, 32), st.integers(0, 1 << 32), st.integers(0, 3000))
def test_numbers_of_any_width(width: int, seed: int, count: int) -> None:
    rng = random.Random(seed)
    numbers = [rng.choice((0, rng.randrange(1 << width))) for _ in range(count)]
    data = hybrid(numbers, width, rng)
    found = read_hybrid(data + b"more", width, count)
    assert found.dtype == np.uint32
    assert found.tolist() == numbers
    assert read_hybrid(b"", 0, count).tolist() == [0] * count


@pytest.mark.parametrize(
    ("data", "width", "message"),
    [
        (b"", 1, "end inside a number"),
        (b"\xff" * 20, 1, "end inside a number"),
        (b"\x04\x01", 1, "more levels or indices are announced than there are|end inside a number"),
        (b"\x03\xff", 1, "end inside a number"),
        (b"\x01" * 9, 1, "more levels or indices are announced than there are"),
        (b"\x00\x01" * 9, 1, "more levels or indices are announced than there are"),
        (b"\x04", 33, "at most 32 bits"),
    ],
)
def test_fewer_numbers_are_an_error(data: bytes, width: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_hybrid(data, width, 100)


def test_announced_runs_take_no_memory() -> None:
    assert read_hybrid(varint((1 << 63) - 2) + b"\x01", 1, 50).tolist() == [1] * 50
    assert read_hybrid(varint((1 << 63) - 1) + b"\xff" * 7, 1, 50).tolist() == [1] * 50
    with pytest.raises(ValueError, match="inside a number"):
        read_hybrid(varint((1 << 63) - 1) + b"\xff" * 6, 1, 50)


def plain_rows(
    repetition: Sequence[int], definition: Sequence[int], largest: int, level: int
) -> list[list[bool] | None]:
    """Return the lists of rows, whose elements are whether they are there; None for a null."""
    rows: list[list[bool] | None] = []
    for repeats, defined in zip(repetition, definition, strict=True):
        if not repeats:
            rows.append(None if defined < level else [])
        if defined > level:
            own = rows[-1]
            assert own is not None
            own.append(defined == largest)
    return rows


@given(st.integers(0, 1 << 32), st.integers(1, 4), st.booleans())
def test_elements_of_rows_over_several_pages(seed: int, largest: int, nulls: bool) -> None:
    rng = random.Random(seed)
    level = rng.randrange(largest)
    rows = [rng.choice((0, 0, 1, 2, 700)) for _ in range(rng.randrange(1, 60))]
    repetition, definition = list[int](), list[int]()
    for count in rows:
        repetition += [0] + [1] * max(count - 1, 0)
        some = [rng.randrange(level + 1, largest + 1) if nulls else largest for _ in range(count)]
        definition += some or [rng.randrange(level + 1)]
    expected = plain_rows(repetition, definition, largest, level)
    counts, absent = np.full(len(rows), -7), np.full(len(rows), 9, np.uint8)
    begun, found, at = 0, list[bool](), 0
    while at < len(repetition):
        end = min(len(repetition), at + rng.choice((1, 5, 2000)))
        first, second = repetition[at:end], definition[at:end]
        pages = hybrid(first, 1, rng), hybrid(second, largest.bit_length(), rng)
        begun, elements, present, there = present_elements(*pages, largest, level, end - at, begun, counts, absent)
        own = [True] * elements if there is None else there.tolist()
        assert (len(own), sum(own)) == (elements, present)
        found += own
        at = end
        count, which = present_values(pages[1], largest, len(second))
        assert count == second.count(largest)
        assert ([True] * len(second) if which is None else which.tolist()) == [each == largest for each in second]
    assert begun == len(rows)
    assert counts.tolist() == [len(row or ()) for row in expected]
    assert absent.tolist() == [row is None for row in expected]
    assert found == [each for row in expected for each in row or ()]


def test_damaged_levels() -> None:
    counts, absent = np.zeros(2, np.int64), np.zeros(2, np.uint8)
    with pytest.raises(ValueError, match="continues a list"):
        present_elements(b"\x02\x01", b"\x02\x03", 3, 1, 1, 0, counts, absent)
    with pytest.raises(ValueError, match="a level is 3, where the largest is 2"):
        present_elements(b"\x02\x00", b"\x02\x03", 2, 1, 1, 0, counts, absent)
    with pytest.raises(ValueError, match="a level is 2, where the largest is 1"):
        present_elements(b"\x02\x02", b"\x02\x03", 3, 1, 1, 1, counts, absent)
    with pytest.raises(ValueError, match="a level is 3, where the largest is 2"):
        present_values(b"\x02\x03", 2, 1)
    with pytest.raises(ValueError, match="levels are numbers up to 255"):
        present_values(b"\x02\x03", 256, 1)
    with pytest.raises(ValueError, match="same length"):
        present_elements(b"\x02\x00", b"\x02\x03", 3, 1, 1, 0, counts, absent[:1])
    with pytest.raises(TypeError, match="counts: expected a contiguous"):
        present_elements(b"\x02\x00", b"\x02\x03", 3, 1, 1, 0, counts.astype(np.int32), absent)
    many = present_elements(
        varint(2_000_000) + b"\x00", varint(2_000_000) + b"\x03", 3, 1, 1_000_000, 0, counts, absent
    )
    assert many == (1_000_000, 1_000_000, 1_000_000, None)
    assert counts.tolist() == [1, 1]


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_byte_arrays(found: list[bytes]) -> None:
    data = b"".join(len(each).to_bytes(4, "little") + each for each in found)
    offset, length = scan_byte_arrays(data, len(found))
    assert [data[a : a + n] for a, n in zip(offset.tolist(), length.tolist(), strict=True)] == found
    for cut in range(len(data)):
        with pytest.raises(ValueError, match="announced|before the length|are left"):
            scan_byte_arrays(data[:cut], len(found))


def test_announced_byte_arrays_take_no_memory() -> None:
    for count in (1 << 40, -1, 2):
        with pytest.raises(ValueError, match="announced"):
            scan_byte_arrays(bytes(4), count)
    assert scan_byte_arrays(np.zeros(4, np.uint8), 1)[0].tolist() == [4]


@pytest.mark.parametrize("size", [0, 10, 3000, 5000, 70_000])
def test_byte_arrays_of_a_file(tmp_path: Path, size: int) -> None:
    rng = random.Random(size)
    values = [rng.randbytes(rng.randrange(size, size + 300)) for _ in range(100)]
    section = b"".join(len(value).to_bytes(4, "little") + value for value in values)
    (tmp_path / "x").write_bytes(b"before" + section + b"after")
    file = MappedFile(str(tmp_path / "x"))
    offset, length = scan_byte_arrays(file, 100, 6, len(section))
    assert [file.read(at, own) for at, own in zip(offset.tolist(), length.tolist(), strict=True)] == values
    found = scan_byte_arrays((tmp_path / "x").read_bytes(), 100, 6)
    assert [each.tolist() for each in found] == [offset.tolist(), length.tolist()]
    with pytest.raises(ValueError, match="value 99 of a page has"):
        scan_byte_arrays(file, 100, 6, len(section) - 1)
    for start, end in ((-1, 3), (0, file.size + 1), (file.size + 1, 0), (1 << 62, 1 << 62)):
        with pytest.raises(ValueError, match="do not lie inside the bytes"):
            scan_byte_arrays(file, 1, start, end)


@pytest.fixture
def pages() -> Iterator[tuple[Path, list[int], list[int]]]:
    """Yield a file of 8 pages of large values and a short one, not in memory, and where pages begin and end."""
    sizes = [100_000, 10, 90_000, 80_000, 120_000]
    page = b"".join(size.to_bytes(4, "little") + bytes(size) for size in sizes)
    begin = [len(page) * number for number in range(8)]
    with folder_on_disk() as folder:
        path = folder / "x"
        path.write_bytes(page * 8)
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield path, begin, [at + len(page) for at in begin]


def read_from_disk() -> int:
    """Return the bytes that this process has had the system read from disks."""
    if not STORED.is_file():
        pytest.skip("only Linux says how many bytes were read from a disk")
    return int(STORED.read_text().split("\nread_bytes: ")[1].split()[0])


@pytest.mark.parametrize("times", [1, 100])  # more places at the end than are read at the same time
def test_lengths_of_large_values_are_read_alone(pages: tuple[Path, list[int], list[int]], times: int) -> None:
    path, begin, end = pages
    file, before = MappedFile(str(path)), read_from_disk()
    file.load_lengths(np.repeat(np.array([*zip(begin, end, strict=True)]), times, axis=0).reshape(-1))
    loaded = read_from_disk()
    for first, last in zip(begin, end, strict=True):
        assert scan_byte_arrays(file, 5, first, last - first)[1].tolist()[:2] == [100_000, 10]
    scanned = read_from_disk()
    assert loaded - before < file.size // 4
    assert scanned - loaded < len(begin) * 4096


def test_places_of_lengths_may_be_anywhere(pages: tuple[Path, list[int], list[int]]) -> None:
    path, begin, end = pages
    file = MappedFile(str(path))
    for count in range(3):
        file.load_lengths(np.array([*zip(begin, end, strict=True)][:count], np.int64).reshape(-1))
    file.load_lengths(np.array([-1, 3, 7, 1 << 62, file.size - 2, -5, 1 << 62, 0] * 3))
    with path.open("r+b") as damaged:
        damaged.truncate(1 << 40)  # zeros: lengths without end
        MappedFile(str(path)).load_lengths(np.array([*range(10, 15), *range(10, 15)]) * file.size)
    os.truncate(path, 10)
    file.load_lengths(np.array([*zip(begin, end, strict=True)]).reshape(-1))


def test_deltas_of_tails() -> None:
    with pytest.raises(ValueError, match="where 16777216 are read at most"):
        decode_deltas(varint(128) + varint(4) + varint(1 << 25) + b"\0")
    assert join_prefixed(b"", np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)) == 0
    with pytest.raises(ValueError, match="same length"):
        join_prefixed(b"", np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
