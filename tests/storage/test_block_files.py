from __future__ import annotations

import random
from collections.abc import Hashable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.block_files import FILTERS, Cut, block_file
from tests.storage.objects.range_server import Server, serving

from bushel.kernels import ExtentError, crc32
from bushel.storage import (
    IN_TABLE,
    BlockFile,
    Extents,
    File,
    as_path,
    checksums_of,
    gather,
    open_file,
    prefetch,
    read_many,
)
from bushel.storage.expansion_cache import expansion_cache
from bushel.storage.fetch import ranges_to_prefetch
from bushel.storage.fileobject import FileObject

PLAIN = bytes(number * 7 % 251 for number in range(5000))


def content_of(size: int, seed: int) -> bytes:
    """Bytes that compress in part."""
    generator = random.Random(seed)
    out = bytearray()
    while len(out) < size:
        out += generator.randbytes(generator.randrange(1, 200)) if generator.random() < 0.5 else b"bushel " * 30
    return bytes(out[:size])


CUTS = st.lists(
    st.builds(
        Cut,
        st.one_of(st.integers(0, 40), st.integers(0, 4000)),
        st.sampled_from(FILTERS),
        st.sampled_from([IN_TABLE, 0, 1]),
        st.integers(0, 7),
        st.integers(0, 3),
    ),
    max_size=12,
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Cut], list[tuple[int, int, int]]]:
    cuts = draw(CUTS)
    sizes = [sum(cut.size for cut in cuts), len(PLAIN), len(PLAIN)]
    rows = []
    for _ in range(draw(st.integers(0, 20))):
        file = draw(st.integers(0, 2))
        offset = draw(st.integers(0, sizes[file]))
        rows.append((file, offset, draw(st.integers(-1, sizes[file] - offset))))
    return cuts, rows


def extents_of(rows: list[tuple[int, int, int]], crc: list[int] | None = None) -> Extents:
    file, offset, length = np.array(rows, np.int64).reshape(-1, 3).T
    checks = None if crc is None else np.array(crc, np.uint32)
    return Extents(file.astype(np.int32), offset.copy(), length.copy(), checks)


@given(batches(), st.booleans(), st.integers(0, 1000))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None)
def test_every_extent_equals_the_slice(
    tmp_path: Path, batch: tuple[list[Cut], list[tuple[int, int, int]]], here: bool, seed: int
) -> None:
    cuts, rows = batch
    content = content_of(sum(cut.size for cut in cuts), seed)
    (tmp_path / "plain").write_bytes(PLAIN)
    (tmp_path / "blocks").mkdir(exist_ok=True)
    for old in (tmp_path / "blocks").iterdir():
        old.unlink()
    blocks = block_file(tmp_path / "blocks", content, cuts, open_file if here else FileObject)
    files: list[File] = [blocks, open_file(tmp_path / "plain"), FileObject(tmp_path / "plain")]
    expected = [None if size < 0 else (content, PLAIN, PLAIN)[file][at : at + size] for file, at, size in rows]
    for crc in (None, [crc32(value or b"") for value in expected]):
        extents = extents_of(rows, crc)
        assert read_many(files, extents) == expected
        assert checksums_of(files, extents).tolist() == [crc32(value or b"") for value in expected]
        buffer, offsets = gather(files, extents)
        assert buffer.tobytes() == b"".join(value or b"" for value in expected)
        assert np.diff(offsets).tolist() == [len(value or b"") for value in expected]
        prefetch(files, extents)
    for (file, at, size), value in zip(rows, expected, strict=True):
        if file == 0 and value is not None:
            assert blocks.read(at, size) == value


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as state:
        yield state


def test_blocks_in_objects_and_here(server: Server, tmp_path: Path) -> None:
    content = content_of(400_000, 7)
    cuts = [Cut(1000, FILTERS[number % len(FILTERS)], number // 7 % 2, number % 8) for number in range(400)]
    local = block_file(server.folder, content, cuts, open_file)
    expansion_cache().clear()
    files: list[File] = [open_file(as_path(f"{server.url}/{number}")) for number in (0, 1)]
    remote = BlockFile(f"{server.url}/blocks", local.blocks, files.__getitem__)
    mixed = BlockFile("mixed", local.blocks, [files[0], local.file(1)].__getitem__)
    (tmp_path / "plain").write_bytes(PLAIN)
    generator = random.Random(2)
    rows = [(number % 3, generator.randrange(4000), generator.randrange(900)) for number in range(300)]
    rows += [(number % 2, generator.randrange(390_000), generator.randrange(9000)) for number in range(40)]
    extents = extents_of(rows)
    expected = [(PLAIN if file == 2 else content)[at : at + size] for file, at, size in rows]
    before = len(server.asked)
    assert read_many([remote, mixed, open_file(tmp_path / "plain")], extents) == expected
    assert len([one for one in server.asked[before:] if one[0] == "GET"]) <= 4  # two objects
    before = len(server.asked)
    [extent] = [extents_of([(0, 7 * 2000 + 1000, 10)])]
    assert read_many([remote], extent) == [content[15_000:15_010]]
    assert len(server.asked) - before <= 1


def test_blocks_are_asked_ahead_once(blocks: BlockFile) -> None:
    seen = set[Hashable]()
    for extents, needed in [
        (extents_of([(0, 1500, 10), (0, 1600, 10)]), [True]),
        (extents_of([(0, 1700, 10), (0, 2100, 10)]), [False, True]),
        (extents_of([(0, 10, 10)]), []),
        (extents_of([(0, 10, 10), (0, 2999, 2)]), [False]),
    ]:
        asked = ranges_to_prefetch([blocks], extents, seen)
        assert asked is not None
        assert asked[2].tolist() == needed
    assert ranges_to_prefetch([blocks], extents_of([(0, 4000, 1)]), seen) is None
    blocks.read(1500, 1)
    asked = ranges_to_prefetch([blocks], extents_of([(0, 1500, 10)]), set())
    assert asked is not None
    assert not asked[2].any()


@pytest.fixture
def blocks(tmp_path: Path) -> BlockFile:
    cuts = [Cut(1000, "stored", 0), Cut(1000, "zstd", 1), Cut(1000, "deflate", 0, 3), Cut(1000, "stored", IN_TABLE)]
    return block_file(tmp_path, content_of(4000, 5), cuts, open_file)


@pytest.mark.parametrize(("offset", "length"), [(0, 4001), (4000, 1), (-1, 1), (2**62, 2**62), (3, -2), (2**63 - 1, 1)])
def test_extents_outside(blocks: BlockFile, offset: int, length: int) -> None:
    extents = extents_of([(0, 0, 1), (0, offset, length)])
    for read in (read_many, gather):
        with pytest.raises(ExtentError) as caught:
            read([blocks], extents)
        assert (caught.value.row, caught.value.reason, caught.value.found) == (1, "beyond", 4000)
    with pytest.raises(ExtentError, match="beyond"):
        blocks.read(offset, length)


def test_a_wrong_checksum(blocks: BlockFile) -> None:
    extents = extents_of([(0, 0, 10), (0, 990, 20)], [crc32(blocks.read(0, 10)), 7])
    for read in (read_many, gather):
        with pytest.raises(ExtentError) as caught:
            read([blocks], extents)
        assert (caught.value.row, caught.value.reason, caught.value.expected) == (1, "checksum", 7)


@pytest.mark.parametrize("position", [1000, 2000])
def test_a_block_that_cannot_be_expanded(tmp_path: Path, position: int) -> None:
    files = [1, 0] if position == 1000 else [0, 1]
    cuts = [Cut(1000, "stored", 0), Cut(1000, "zstd", files[0]), Cut(1000, "deflate", files[1], 3)]
    blocks = block_file(tmp_path, content_of(3000, 5), cuts, open_file)
    (tmp_path / "1").write_bytes(bytes((tmp_path / "1").stat().st_size))
    blocks = BlockFile(blocks.path, blocks.blocks, [open_file(tmp_path / "0"), open_file(tmp_path / "1")].__getitem__)
    extents = extents_of([(0, 5, 10), (0, position - 5, 4), (0, position + 5, 4), (0, position - 1, 2)])
    for read in (read_many, gather):
        with pytest.raises(ExtentError, match="filter") as caught:
            read([blocks], extents)
        assert (caught.value.row, caught.value.reason, caught.value.expected) == (2, "filter", 1000)
    with pytest.raises(ExtentError, match="filter"):
        blocks.read(position, 1)
    assert blocks.read(5, 900)


def test_a_number_of_no_file(blocks: BlockFile) -> None:
    with pytest.raises(ValueError, match=r"file\[1\] is 1, but there are 1 files"):
        read_many([blocks], extents_of([(0, 0, 1), (1, 0, 1)]))


def test_checksums_of_values_that_lie_in_pieces_of_files(tmp_path: Path) -> None:
    cuts = [Cut(size, "stored", number % 2, gap=number % 3) for number, size in enumerate((700, 1, 4000, 90, 2500))]
    content = content_of(sum(cut.size for cut in cuts), 1)
    blocks = block_file(tmp_path, content, cuts, open_file)
    rows = [(0, 4000, 3000), (0, 0, 5), (0, 5, 0), (0, 600, 4000), (0, 7, -1), (0, 0, len(content))]
    expected = [crc32(content[at : at + max(size, 0)]) for _, at, size in rows]
    assert checksums_of([blocks], extents_of(rows)).tolist() == expected
    for path in sorted(tmp_path.iterdir())[1:]:
        with path.open("r+b") as file:
            file.truncate(1)
    with pytest.raises(ExtentError, match=r"row 3 .*shrunk") as caught:
        checksums_of([blocks], extents_of([*rows[1:3], (0, 7, 5), rows[3]]))
    assert (caught.value.row, caught.value.reason) == (3, "shrunk")
