"""Checksums for indexes that lack them."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import bushel
from bushel._dataset.open import binding
from bushel._dataset.open.binding import with_checksums
from bushel._index.block_arrays import blocks_without, length_words
from bushel._index.shard import FileStamp, Shard
from bushel._index.sidecar import load_index
from bushel._index.table import MISSING, FieldExtents, ShardIndex, block_file
from bushel.errors import FormatError
from bushel.kernels import MappedFile, split_recordio
from bushel.spec import Field
from bushel.storage import Blocks, Extents, File, as_path, checksums_of, open_file

CONTENT = [bytes(range(256)) * 3, b"the second file"]


class InMemory:
    """A file that is not mapped."""

    def __init__(self, data: bytes) -> None:
        self.data, self.path, self.size, self.mtime_ns = data, "memory", len(data), 0

    def read(self, offset: int, length: int, /) -> bytes:
        return self.data[offset : offset + length]


def files_in(folder: Path, *, mapped: bool) -> list[File]:
    for number, data in enumerate(CONTENT):
        (folder / str(number)).write_bytes(data)
    if mapped:
        return [open_file(as_path(folder / str(number))) for number in range(len(CONTENT))]
    return [InMemory(data) for data in CONTENT]


def column(name: str, file: int, extents: list[tuple[int, int]], **more: object) -> FieldExtents:
    offset, length = np.array(extents, np.int64).reshape(-1, 2).T.copy()
    return FieldExtents(Field(name, "bytes"), "bytes", file, offset, length, **more)  # type: ignore[arg-type]


def index_of(*columns: FieldExtents, blocks: tuple[Blocks, ...] = ()) -> ShardIndex:
    stamps = tuple(FileStamp(str(number), len(data)) for number, data in enumerate(CONTENT))
    [samples] = {each.rows if each.starts is None else len(each.starts) - 1 for each in columns}
    return ShardIndex(samples, stamps, {each.field.name: each for each in columns}, "tar", blocks=blocks)


def summed(index: ShardIndex, files: list[File], **more: Any) -> ShardIndex:
    """Return the table with the checksums of values in open files."""

    def file_of(number: int) -> File:
        if number < len(files):
            return files[number]
        return block_file(index, number, files.__getitem__, Shard(Path("folder"), "", ("0", "1")))

    return with_checksums(index, file_of, **more)


@pytest.mark.parametrize("mapped", [True, False])
@given(st.lists(st.tuples(st.integers(0, 700), st.integers(-1, 60)), max_size=20))
def test_every_extent_gets_the_checksum_of_its_bytes(
    mapped: bool, tmp_path_factory: pytest.TempPathFactory, extents: list[tuple[int, int]]
) -> None:
    files = files_in(tmp_path_factory.mktemp("files"), mapped=mapped)
    second = ([(4, 6), (0, MISSING), (0, 15)] * 7)[: len(extents)]
    found = summed(index_of(column("a", 0, extents), column("b", 1, second)), files)
    for name, data, rows in (("a", CONTENT[0], extents), ("b", CONTENT[1], second)):
        wanted = [0 if length < 0 else zlib.crc32(data[offset : offset + length]) for offset, length in rows]
        crc32 = found.fields[name].crc32
        assert crc32 is not None
        assert crc32.dtype == np.uint32
        assert crc32.tolist() == wanted


def test_checksums_that_are_there_stay(tmp_path: Path) -> None:
    known = np.array([1, 2, 3], np.uint32)
    index = index_of(column("a", 0, [(0, 1)] * 3, crc32=known), column("b", 1, [(0, 1)] * 3))
    found = summed(index, files_in(tmp_path, mapped=True))
    assert found.fields["a"] is index.fields["a"]
    assert found.fields["b"].crc32 is not None
    assert found.fields["b"].crc32.tolist() == [zlib.crc32(b"t")] * 3


def test_extents_in_the_index_itself(tmp_path: Path) -> None:
    held = Blocks.in_table(np.frombuffer(b"{}[12]", np.uint8))
    index = index_of(column("meta", 2, [(0, 2), (0, MISSING), (2, 4)]), column("a", 0, [(1, 2)] * 3), blocks=(held,))
    found = summed(index, files_in(tmp_path, mapped=True)).fields
    assert found["meta"].crc32 is not None
    assert found["meta"].crc32.tolist() == [zlib.crc32(b"{}"), 0, zlib.crc32(b"[12]")]
    assert found["a"].crc32 is not None
    assert found["a"].crc32.tolist() == [zlib.crc32(CONTENT[0][1:3])] * 3


@pytest.mark.parametrize("mapped", [True, False])
def test_records_in_pieces_and_blocks_that_do_not_expand(
    tmp_path: Path, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "_BATCH_OF_BLOCKS", 10)
    magic = (0xCED7230A).to_bytes(4, "little")
    payload = b"HEAD" + magic + b"body" + magic
    raw = split_recordio(payload)
    (tmp_path / "x.rec").write_bytes(raw)
    stamps = (FileStamp("x.rec", len(raw)),)
    files: list[File] = [MappedFile(tmp_path / "x.rec") if mapped else InMemory(raw)]
    blocks = blocks_without(len(raw), length_words(raw))
    extents = column("data", 1, [(0, 8), (12, 12), (0, MISSING)])
    index = ShardIndex(3, stamps, {"data": extents}, "recordio", blocks=(blocks,)).check("x")
    crc32 = summed(index, files).fields["data"].crc32
    assert crc32 is not None
    assert crc32.tolist() == [zlib.crc32(raw[:8]), zlib.crc32(payload[4:16]), 0]
    bad = replace(blocks, filter=np.array([0, 1, 0], np.uint8), filters=("stored", "zlib"))
    with pytest.raises(FormatError, match="cannot be read \\(filter\\)") as caught:
        summed(replace(index, blocks=(bad,)), files)
    assert (caught.value.file, caught.value.offset) == (files[0].path, 12)


def test_progress_counts_the_bytes_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_BATCH", 100)
    seen: list[int] = []
    extents = [(n * 30, 30) for n in range(20)] + [(0, 0), (0, MISSING), (600, 150)]
    found = summed(index_of(column("a", 0, extents)), files_in(tmp_path, mapped=True), report=seen.append)
    assert sum(seen) == 20 * 30 + 150
    assert max(seen) <= 150
    crc32 = found.fields["a"].crc32
    assert crc32 is not None
    assert crc32.tolist() == [zlib.crc32(CONTENT[0][o : o + n]) if n >= 0 else 0 for o, n in extents]


@pytest.mark.parametrize("in_order", [True, False])
def test_fields_of_samples_that_follow_each_other_are_read_in_one_pass(
    in_order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "_VALUES", 7)
    monkeypatch.setattr(binding, "_BATCH", 40)
    batches: list[int] = []
    inner = checksums_of

    def counted(files: list[File], extents: Extents) -> npt.NDArray[np.uint32]:
        batches.append(len(extents))
        return inner(files, extents)

    monkeypatch.setattr(binding, "checksums_of", counted)
    a = [(n * 10, n % 5) for n in range(60)]
    b = [(n * 10 + 5, n % 6 - 1) for n in range(60)]
    if not in_order:
        b[30], b[31] = (315, 4), (305, 4)
    seen: list[int] = []
    index = index_of(column("a", 0, a), column("b", 0, b), column("c", 0, [(0, MISSING)] * 60))
    found = summed(index, files_in(tmp_path, mapped=True), report=seen.append).fields
    for name, extents in (("a", a), ("b", b), ("c", [(0, MISSING)] * 60)):
        crc32 = found[name].crc32
        assert crc32 is not None
        assert crc32.dtype == np.uint32
        assert crc32.tolist() == [zlib.crc32(CONTENT[0][o : o + n]) if n >= 0 else 0 for o, n in extents]
    assert sum(seen) == sum(max(n, 0) for _, n in [*a, *b])
    assert (sum(batches) == 180) == in_order  # the other way skips missing values
    assert not in_order or max(batches) <= 7


def test_fields_in_two_files_and_of_other_lengths(tmp_path: Path) -> None:
    long = column("frames", 0, [(0, 5), (5, 5), (10, 5), (20, 5)], starts=np.array([0, 1, 2, 4]))
    index = index_of(column("a", 1, [(0, 3), (3, 3), (6, 3)]), long)
    found = summed(index, files_in(tmp_path, mapped=True)).fields
    assert found["a"].crc32 is not None
    assert found["a"].crc32.tolist() == [zlib.crc32(CONTENT[1][o : o + 3]) for o in (0, 3, 6)]
    assert found["frames"].crc32 is not None
    assert found["frames"].crc32.tolist() == [zlib.crc32(CONTENT[0][o : o + 5]) for o in (0, 5, 10, 20)]


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    files = files_in(tmp_path, mapped=True)
    (tmp_path / "0").write_bytes(b"short")
    with pytest.raises(FormatError, match="shrunk"):
        summed(index_of(column("a", 0, [(0, 700)])), files)


def test_a_file_that_shrinks_names_its_value(tmp_path: Path) -> None:
    files = files_in(tmp_path, mapped=True)
    (tmp_path / "0").write_bytes(CONTENT[0][:20])
    with pytest.raises(FormatError, match="shrunk") as caught:
        summed(index_of(column("a", 0, [(0, 5), (20, 5)]), column("b", 0, [(5, 5), (30, 7)])), files)
    assert caught.value.file == files[0].path


def test_compressed_lines_are_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_VALUES_OF_REQUEST", 30)
    computed, sizes = binding._of_rows, list[int]()

    def of_rows(columns: Any, rows: Any, *more: Any, **options: Any) -> Any:
        sizes.append(sum(part.stop - part.start for part in rows))
        return computed(columns, rows, *more, **options)

    monkeypatch.setattr(binding, "_of_rows", of_rows)
    lines = "".join(f'{{"a": {n}, "t": "{"x" * (n % 9)}"}}\n' for n in range(200)).encode()
    (tmp_path / "x.jsonl").write_bytes(lines)
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(lines))
    plain, packed = (bushel.index(tmp_path / name)[0:0] for name in ("x.jsonl", "x.jsonl.gz"))
    assert plain.spec == packed.spec
    stored = [load_index(tmp_path / ".bushel" / f"{name}.safetensors") for name in ("x.jsonl", "x.jsonl.gz")]
    for name in ("a", "t"):
        one, other = (each.fields[name].crc32 for each in stored)
        assert one is not None
        assert other is not None
        assert one.tolist() == other.tolist()
    assert max(sizes[len(sizes) // 2 :]) <= 30  # of the compressed file
    assert stored[1].fields["a"].crc32[7] == zlib.crc32(b"7")  # type: ignore[index] # as was asserted


@pytest.mark.parametrize("in_order", [True, False])
def test_sequences_and_numbers_of_the_table_are_read_step_by_step(
    in_order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "_VALUES", 8)
    monkeypatch.setattr(binding, "_BATCH_OF_BLOCKS", 20)
    counts = np.arange(50) % 4
    starts = np.concatenate([[0], np.cumsum(counts)])
    frames = [(int(sample) * 10 + 2 * each, each) for sample in range(50) for each in range(counts[sample])]
    if not in_order:
        frames.reverse()
    single = [(n * 10 + 8, 2) for n in range(50)]
    held = bytes(each % 256 for each in range(400))
    numbers = [((n * 7 % 50) * 8, 8 if n % 3 else MISSING) for n in range(50)]
    files = files_in(tmp_path, mapped=True)[:1]
    index = index_of(column("frames", 0, frames, starts=starts), column("a", 0, single), column("n", 1, numbers))
    index = replace(index, samples=50, files=index.files[:1], blocks=(Blocks.in_table(np.frombuffer(held, np.uint8)),))
    found = summed(index, files).fields
    for name, data, extents in (("frames", CONTENT[0], frames), ("a", CONTENT[0], single), ("n", held, numbers)):
        crc32 = found[name].crc32
        assert crc32 is not None
        assert crc32.tolist() == [zlib.crc32(data[o : o + n]) if n >= 0 else 0 for o, n in extents]
