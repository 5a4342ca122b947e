"""Damaged archives: reported with their place, by the scan of files and by that of streams alike."""

from __future__ import annotations

import contextlib
import io
import random
from pathlib import Path

import numpy as np
import pytest
from tests.containers.summed import summed_table
from tests.containers.tar.archives import SMALL, read, shard_of
from tests.containers.writing import stored_samples

from bushel._index.shard import Strings
from bushel.containers.base import ReadOptions
from bushel.containers.tar import CONTAINER
from bushel.containers.tar.members import ForwardReader, members
from bushel.containers.tar.samples import Members, tabulate
from bushel.containers.tar.scan import scan
from bushel.errors import BushelError, FormatError
from bushel.kernels import MappedFile, decode_keys, scan_tar

CASES = [
    ("data-cut", 8192),
    ("header-cut", 7168),
    ("cut-at-a-border", 7168),
    ("header-name-bit", 4608),
    ("header-size-bit", 4608),
    ("garbage-behind-the-end", 20480),
    ("garbage-instead-of-a-header", 7168),
    ("zero-bytes", 0),
    ("no-tar", 0),
    ("file-twice-in-a-sample", 6144),
]


@pytest.mark.parametrize(("case", "offset"), CASES)
def test_damage_is_reported_with_its_place(golden: Path, case: str, offset: int) -> None:
    shards = CONTAINER.shards(golden / "damaged" / "cases" / "tar" / case)
    assert shards is not None
    with pytest.raises(FormatError) as caught:
        CONTAINER.index(shards[0], ReadOptions())
    assert caught.value.file == str(shards[0].path(0))
    assert caught.value.offset == offset
    assert caught.value.hint is not None
    CONTAINER.index(shards[1], ReadOptions())


def test_samples_in_pieces_are_duplicate_keys(golden: Path) -> None:
    shards = CONTAINER.shards(golden / "damaged" / "cases" / "tar" / "files-not-adjacent")
    assert shards is not None
    keys = CONTAINER.index(shards[0], ReadOptions()).keys
    assert keys is not None
    assert keys.duplicates() == ["0000", "0001", "0002", "0003"]


@pytest.mark.parametrize("kind", SMALL)
def test_an_archive_cut_anywhere_is_an_error(tmp_path: Path, kind: str) -> None:
    data = SMALL[kind]
    end = len(data.rstrip(b"\0"))
    whole = (end + 511) // 512 * 512 + 1024
    for size in [*range(0, whole, 13), *range(0, whole + 1, 512)]:
        shard = shard_of(tmp_path, data[:size])
        if size >= whole:
            assert CONTAINER.index(shard, ReadOptions()).samples == 2
            continue
        with pytest.raises(FormatError):
            CONTAINER.index(shard, ReadOptions())
        with pytest.raises(FormatError):
            forward(data[:size])


@pytest.mark.parametrize("kind", SMALL)
def test_only_errors_of_bushel_come_out_of_mutated_archives(tmp_path: Path, kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(400):
        data = bytearray(SMALL[kind])
        for _ in range(draw.choice([1, 1, 2, 8])):
            at = draw.randrange(0, 5120)
            data[at : at + draw.choice([1, 1, 4, 12])] = draw.randbytes(draw.choice([1, 1, 4, 12]))
        for at in range(0, len(data) - 511, 512):  # so that bytes after the checksum is reached
            block = data[at : at + 512]
            if block[257:262] == b"ustar" and draw.random() < 0.7:
                block[148:156] = b" " * 8
                data[at + 148 : at + 156] = b"%06o\0 " % sum(block)
        shard = shard_of(tmp_path, bytes(data))
        with contextlib.suppress(BushelError):
            stored_samples(shard, summed_table(CONTAINER, shard))


def test_a_member_of_eight_exbibytes_is_not_allocated(tmp_path: Path) -> None:
    data = bytearray(SMALL["plain"])
    data[124:136] = b"\x80\0\0\0\x7f" + b"\xff" * 7
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    with pytest.raises(FormatError):
        read(tmp_path, bytes(data))
    with pytest.raises(FormatError):
        forward(bytes(data))


def test_sparse_members_are_refused(tmp_path: Path) -> None:
    data = bytearray(SMALL["plain"])
    data[156:157] = b"S"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    with pytest.raises(FormatError, match="sparse"):
        read(tmp_path, bytes(data))
    with pytest.raises(FormatError, match="sparse"):
        forward(bytes(data))


# The scanner of streams agrees with the kernel


def forward(data: bytes) -> list[tuple[str, int, int, int, bool]]:
    reader = ForwardReader(io.BytesIO(data), "stream")
    return [(m.name, m.header, m.offset, m.size, m.regular) for m in members(reader)]


def by_kernel(data: bytes) -> list[tuple[str, int, int, int, bool]] | None:
    found = scan_tar(data)
    if found.problem is not None or not found.terminated or found.trailing_bytes or ord("S") in found.type:
        return None
    names = decode_keys(found.names, found.name_offsets, np.arange(len(found)))
    columns = (found.header.tolist(), found.offset.tolist(), found.size.tolist(), found.type.tolist())
    return [
        (name, header, offset, size, kind in (0, 48, 55))
        for name, header, offset, size, kind in zip(names, *columns, strict=True)
    ]


def agrees(data: bytes) -> bool:
    wanted = by_kernel(data)
    try:
        found = forward(data)
    except FormatError:
        return wanted is None
    return found == wanted


def test_streams_are_scanned_as_files_are(golden: Path) -> None:
    paths = [
        *golden.glob("webdataset*/*/data/*.tar"),
        *golden.glob("gnu-tar*/*/data/*.tar"),
        *golden.glob("damaged/**/*.tar"),
    ]
    assert len(paths) > 30
    for path in paths:
        assert agrees(path.read_bytes()), path


@pytest.mark.parametrize("kind", SMALL)
def test_streams_are_scanned_as_files_are_when_damaged(kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(300):
        data = bytearray(SMALL[kind])
        at = draw.randrange(0, 4096)
        data[at : at + draw.choice([1, 1, 4])] = draw.randbytes(draw.choice([1, 1, 4]))
        for block in range(0, len(data) - 511, 512):
            if data[block + 257 : block + 262] == b"ustar":
                data[block + 148 : block + 156] = b" " * 8
                data[block + 148 : block + 156] = b"%06o\0 " % sum(data[block : block + 512])
        assert agrees(bytes(data)), at


def test_names_with_dots_in_their_keys_do_not_fill_the_memory() -> None:
    names = [f"{n}.{n * 1.5}.jpg".encode() for n in range(20_000)]
    offsets = np.cumsum([0, *map(len, names)]).astype(np.int64)
    zeros = np.zeros(len(names), np.int64)
    text = np.frombuffer(b"".join(names), np.uint8)
    with pytest.raises(FormatError, match="different extensions"):
        tabulate(Members(Strings(text, offsets), zeros, zeros, zeros), None, "x.tar")


def test_an_archive_that_shrinks_is_an_error(tmp_path: Path) -> None:
    shard = shard_of(tmp_path, SMALL["plain"])
    file = MappedFile(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(b"")
    with pytest.raises(FormatError, match="shrank"):
        scan(file)
    assert shard.name == "x.tar"
