"""The scan of the directory of a zip archive, and the samples of members: beside `zipfile` and `split_name`."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.zip_directories import archive_of, directory_of, entry

from bushel._runtime.arrays import joined
from bushel.containers.tar.names import split_name
from bushel.kernels import MappedFile, MemberGroups, ZipScanner, zip_data

NAMES = [
    "a.txt",
    "b/é.txt",
    "日本/名.jpg",
    "b/",
    ".hidden",
    "x/.git/y.txt",
    "__MACOSX/._a",
    "../up.txt",
    "...",
    "no dot",
    "",
]


def scanned(data: bytes, step: int | None = None, *, shift: int = 0) -> tuple[list[tuple[Any, ...]], str | None]:
    """Return the entries of a directory, which is fed in parts, and the problem."""
    scanner, found, window = ZipScanner(len(data), shift), [], step or len(data)
    while scanner.end < len(data):
        used = scanner.feed(data[scanner.end : scanner.end + window])
        names, offsets, *_ = taken = scanner.take()
        for row, numbers in enumerate(zip(*(column.tolist() for column in taken[2:]), strict=True)):
            found.append((names[offsets[row] : offsets[row + 1]].tobytes().decode(), *numbers))
        if scanner.problem is not None:
            return found, scanner.problem
        window = (step or len(data)) if used else scanner.need
    return found, None


def by_zipfile(data: bytes) -> list[tuple[Any, ...]]:
    """Return the entries of an archive as Python's `zipfile` reads them."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return [
            (
                each.filename,
                each.header_offset,
                each.compress_size,
                each.file_size,
                each.CRC,
                each.compress_type,
                each.flag_bits,
            )
            for each in opened.infolist()
        ]


def test_entries_are_those_of_zipfile_in_any_parts() -> None:
    data = archive_of(NAMES)
    whole = scanned(directory_of(data))
    assert whole == (by_zipfile(data), None)
    for step in (1, 7, 46, 100):
        assert scanned(directory_of(data), step) == whole


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(0, 1))
def test_names_are_those_of_zipfile(names: list[bytes], utf8: int) -> None:
    directory = b"".join(entry(name, flags=0x800 * utf8) for name in names)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(names), len(names), len(directory), 0, 0)
    found, problem = scanned(directory)
    try:
        expected = by_zipfile(directory + end)
    except UnicodeDecodeError:
        assert problem is not None
        assert "is not UTF-8" in problem
        return
    assert (found, problem) == (expected, None)


def test_the_system_of_the_writer_is_not_part_of_the_version() -> None:
    assert scanned(entry(b"a", version=3 << 8 | 63))[0][0][0] == "a"


def test_every_character_of_code_page_437() -> None:
    name = bytes(range(1, 256))
    assert scanned(entry(name))[0][0][0] == name.decode("cp437")


def test_a_unicode_path_replaces_the_name_whose_checksum_it_has() -> None:
    for checksum, expected in ((zlib.crc32(b"?.txt"), "名.txt"), (7, "?.txt")):
        content = struct.pack("<BL", 1, checksum) + "名.txt".encode()
        extra = struct.pack("<HH", 0x5455, 1) + b"x" + struct.pack("<HH", 0x7075, len(content)) + content
        assert scanned(entry(b"?.txt", extra=extra))[0][0][0] == expected


def test_numbers_of_zip64() -> None:
    numbers = struct.pack("<HHQQ", 1, 16, 5 << 32, 5 << 32)
    data = entry(b"a", size=0xFFFFFFFF, extra=numbers, offset=9)
    assert scanned(data, shift=100)[0] == [("a", 109, 5 << 32, 5 << 32, 1, 0, 0)]
    data = entry(b"a", offset=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 1 << 40))
    assert scanned(data)[0] == [("a", 1 << 40, 3, 3, 1, 0, 0)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"PK\1\3" + bytes(50), "no entry"),
        (entry(b"abc")[:-1], "needs 49 bytes, but 48 are left"),
        (b"PK\1\2", "needs 46 bytes, but 4 are left"),
        (entry(b"a", version=64), "needs version 64"),
        (entry(b"a", extra=struct.pack("<HH", 1, 5)), "has 5 bytes, but 0 are left"),
        (entry(b"a", size=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 1)), "too short"),
        (entry(b"a", offset=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 1 << 63)), "no file can have"),
        (entry(b"\xff", flags=0x800), "not UTF-8"),
    ],
)
def test_problems_end_the_scan(data: bytes, problem: str) -> None:
    first = entry(b"x.txt")
    found, said = scanned(first + data)
    assert [name for name, *_ in found] == ["x.txt"]
    assert said is not None
    assert problem in said
    with pytest.raises(ValueError, match="negative"):
        ZipScanner(-1)


def test_headers_before_the_data(tmp_path: Path) -> None:
    rng = random.Random(1)
    sizes = [rng.choice((0, 10, 3000, 70_000, 200_000)) for _ in range(300)]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as written:
        for number, size in enumerate(sizes):
            written.writestr(f"{number}" * rng.randrange(1, 9), b"%06d" % number + bytes(size))
        header = np.array([each.header_offset for each in written.infolist()], np.int64)
    data, file = (tmp_path / "x.zip").read_bytes(), MappedFile(tmp_path / "x.zip")
    for order in (np.arange(300), np.random.default_rng(2).permutation(300)):
        found = zip_data(file, header[order])
        assert [data[at : at + 6] for at in found.tolist()] == [b"%06d" % number for number in order.tolist()]
    wrong = np.array([-1, header[1] + 1, len(data) - 29, 1 << 62, -(1 << 62)], np.int64)
    assert zip_data(file, wrong).tolist() == [-1] * 5
    distant = np.array([header[0], -(1 << 63), header[1], (1 << 63) - 1], np.int64)
    assert zip_data(file, distant).tolist()[1::2] == [-1, -1]


PART = st.text("._/ab\n", max_size=12)


@given(st.lists(PART, max_size=20), st.randoms(use_true_random=False))
def test_groups_are_those_of_split_name(names: list[str], rng: random.Random) -> None:
    text = [name.encode() for name in names]
    groups = MemberGroups(*joined(text))
    order = list(range(len(text)))
    rng.shuffle(order)
    samples, extensions = list[int](), list[int]()
    for part in (order[: len(order) // 2], order[len(order) // 2 :]):
        sample, extension = groups.group(np.array(part, np.int64))
        samples += sample.tolist()
        extensions += extension.tolist()
    keys, ends = groups.take_keys()
    keys_of = [keys[start:end].tobytes() for start, end in zip([0, *ends.tolist()], ends.tolist(), strict=False)]
    assert len(set(keys_of)) == len(keys_of)
    found = [
        None if sample < 0 else (keys_of[sample], groups.extensions[extension])
        for sample, extension in zip(samples, extensions, strict=True)
    ]
    assert found == [split_name(text[number]) for number in order]
    assert list(dict.fromkeys(sample for sample in samples if sample >= 0)) == list(range(len(keys_of)))
    assert groups.take_keys()[1].size == 0


def test_many_groups_and_extensions() -> None:
    text = [f"{number % 5000}.{number % 700}".encode() for number in range(20_000)]
    groups = MemberGroups(*joined(text))
    sample, extension = groups.group(np.arange(20_000))
    assert sample.tolist() == [number % 5000 for number in range(20_000)]
    assert [groups.extensions[each] for each in extension.tolist()] == [name.split(b".")[1] for name in text]


def test_groups_of_wrong_names() -> None:
    names = np.frombuffer(b"a.b", np.uint8)
    for offsets, member in (([0, 3], 1), ([0, 3], -1), ([0, 4], 0), ([2, 1], 0), ([-1, 2], 0), ([], 0)):
        with pytest.raises(ValueError, match=r"not (among|inside)"):
            MemberGroups(names, np.array(offsets, np.int64)).group(np.array([member]))
