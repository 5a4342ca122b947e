from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bushel.errors import BushelError, FormatError, UnsupportedError
from bushel.storage import BlockFile, Extents, open_file, read_many
from bushel.storage.fileobject import FileObject
from bushel.storage.restart import compressed_blocks

QUICK = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None)


def content_of(size: int, seed: int) -> bytes:
    generator = random.Random(seed)
    words = [generator.randbytes(generator.randrange(1, 9)) for _ in range(300)]
    out = bytearray()
    while len(out) < size:
        out += generator.choice(words) if generator.random() < 0.999 else generator.randbytes(5000)
    return bytes(out[:size])


def block_file_of(path: Path, spacing: int = 1 << 20, *, here: bool = True) -> BlockFile:
    file = open_file(path) if here else FileObject(path)
    return BlockFile(f"{path}#", compressed_blocks(file, spacing=spacing), lambda number: [file][number])


def zstd_frame(data: bytes, *, sized: bool = True) -> bytes:
    if sized:
        return bytes(cramjam.zstd.compress(data))
    packer = cramjam.zstd.Compressor(1)  # does not know the size when it writes the header
    packer.compress(data)
    return bytes(packer.finish())


def seek_table(frames: list[tuple[int, int]]) -> bytes:
    entries = b"".join(struct.pack("<II", *frame) for frame in frames)
    return struct.pack("<II", 0x184D2A5E, len(entries) + 9) + entries + struct.pack("<IBI", len(frames), 0, 0x8F92EAB1)


@given(
    st.lists(st.tuples(st.integers(0, 300_000), st.integers(0, 9), st.booleans()), max_size=4),
    st.sampled_from([1, 20_000, 1 << 20]),
    st.integers(0, 700),
    st.booleans(),
)
@QUICK
def test_any_part_of_gzip(
    tmp_path: Path, members: list[tuple[int, int, bool]], spacing: int, padding: int, here: bool
) -> None:
    content, packed = b"", b""
    for number, (size, level, named) in enumerate(members):
        data = content_of(size, number)
        member = gzip.compress(data, level, mtime=0)
        if named:  # with a name, a comment, an extra field and the checksum of the header
            member = member[:3] + b"\x1e" + member[4:10] + b"\x03\0abcname\0comment\0\x12\x34" + member[10:]
        content, packed = content + data, packed + member
    if not members:
        packed = gzip.compress(b"")
    (tmp_path / "x.gz").write_bytes(packed + bytes(padding))
    blocks = block_file_of(tmp_path / "x.gz", spacing, here=here)
    assert blocks.size == len(content)
    generator = random.Random(len(content))
    offset = np.array([generator.randrange(len(content) + 1) for _ in range(20)], np.int64)
    length = np.array([generator.randrange(min(len(content) - at, 50_000) + 1) for at in offset.tolist()], np.int64)
    expected = [content[at : at + size] for at, size in zip(offset.tolist(), length.tolist(), strict=True)]
    assert read_many([blocks], Extents(0, offset, length)) == expected


def test_restart_points_are_a_mebibyte_apart(tmp_path: Path) -> None:
    content = content_of(5_000_000, 1)
    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    blocks = block_file_of(tmp_path / "x.gz")
    sizes = blocks.blocks.sizes
    assert sizes[:-1].min() >= 1 << 20
    assert sizes.max() < 3 << 19
    assert blocks.read(0, len(content)) == content
    side = blocks.blocks.side
    assert side is not None
    assert len(side.data) < 33_000 * len(sizes)


@given(
    st.lists(st.tuples(st.integers(0, 200_000), st.sampled_from(["sized", "unsized", "skipped"])), max_size=5),
    st.booleans(),
)
@QUICK
def test_any_part_of_zstd(tmp_path: Path, frames: list[tuple[int, str]], here: bool) -> None:
    content, packed, sizes = b"", b"", []
    for number, (size, kind) in enumerate(frames):
        data = content_of(size, number)
        if kind == "skipped":
            packed += struct.pack("<II", 0x184D2A53, len(data)) + data
            continue
        packed += zstd_frame(data, sized=kind == "sized")
        content += data
        sizes += [size] if size else []
    (tmp_path / "x.zst").write_bytes(packed or zstd_frame(b""))
    blocks = block_file_of(tmp_path / "x.zst", here=here)
    assert blocks.blocks.sizes.tolist() == sizes
    assert blocks.read(0, blocks.size) == content


def test_a_seek_table_of_zstd_is_passed_over(tmp_path: Path) -> None:
    parts = [content_of(size, size) for size in (70_000, 0, 1_000_000)]
    frames = b"".join(map(zstd_frame, parts))
    (tmp_path / "x.zst").write_bytes(frames + seek_table([(7, 5)]))
    blocks = block_file_of(tmp_path / "x.zst")
    assert blocks.blocks.sizes.tolist() == [70_000, 1_000_000]
    assert blocks.read(0, blocks.size) == b"".join(parts)


def test_a_frame_that_expands_too_far(tmp_path: Path) -> None:
    huge = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 40) + b"\x01\0\0"
    (tmp_path / "x.zst").write_bytes(huge)
    with pytest.raises(UnsupportedError, match="expands to 1099511627776 bytes.*frames of a few megabytes"):
        block_file_of(tmp_path / "x.zst")
    blocks = b"".join(((1 << 17 << 3) | 2).to_bytes(3, "little") + b"a" for _ in range(9000))  # 1.2 GB of one letter
    (tmp_path / "x.zst").write_bytes(struct.pack("<IBB", 0xFD2FB528, 0, 0x50) + blocks + b"\x01\0\0")
    with pytest.raises(UnsupportedError, match="expands to 1179648000 bytes"):
        block_file_of(tmp_path / "x.zst")


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(-1, 255), seed=st.integers(0, 5))
@QUICK
def test_damage_is_an_error_or_gives_the_right_bytes(
    tmp_path: Path, name: str, place: float, change: int, seed: int
) -> None:
    content = content_of(30_000, seed)
    if name == "x.gz":
        packed = bytearray(gzip.compress(content[:9000], mtime=0) + gzip.compress(content[9000:], 1, mtime=0))
    else:
        packed = bytearray(zstd_frame(content[:9000]) + zstd_frame(content[9000:], sized=False))
    at = int(place * len(packed))
    if change < 0:
        del packed[at:]
    else:
        packed[at] = change
    (tmp_path / name).write_bytes(packed)
    try:
        blocks = block_file_of(tmp_path / name, 5000)
        found = blocks.read(0, blocks.size)
    except (BushelError, ValueError) as error:
        assert str(tmp_path / name) in str(error)  # noqa: PT017 - any of several errors
    else:
        assert name == "x.zst" or found in (content, content[:9000])  # these frames of zstd have no checksum


def test_damage_is_reported(tmp_path: Path) -> None:
    packed = gzip.compress(content_of(30_000, 1))
    for data, what in [
        (packed[:-1], "a member of gzip is truncated"),
        (packed[:-9], "the data are truncated"),
        (packed[:-8] + bytes(8), "another checksum"),
        (packed + b"x", "expected the header of a member of gzip"),
        (packed[:3] + b"\x08" + packed[4:10] + b"no end", "has no end"),
    ]:
        (tmp_path / "x.gz").write_bytes(data)
        with pytest.raises(FormatError, match=what) as caught:
            block_file_of(tmp_path / "x.gz")
        assert caught.value.file == str(tmp_path / "x.gz")
        assert caught.value.offset is not None
    for data, what in [(b"BZh91AY&SY", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"plain", "something else")]:
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(UnsupportedError, match=what):
            block_file_of(tmp_path / "x")


def test_a_file_without_bytes_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(FormatError, match="it has 0 bytes"):
        block_file_of(tmp_path / "x")
