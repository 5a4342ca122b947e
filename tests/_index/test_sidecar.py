from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bushel._index.block_arrays import blocks_without
from bushel._index.identity import manifest_entry, table_digest
from bushel._index.saving import save_index, save_manifest
from bushel._index.shard import FileStamp, Keys
from bushel._index.sidecar import Manifest, load_index, load_manifest, parse_all
from bushel._index.table import FieldExtents, ShardIndex
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import Blocks, Side


def table(samples: int = 4) -> ShardIndex:
    i64 = np.arange(samples, dtype=np.int64)
    plain = FieldExtents(Field("image", "jpg"), "jpg", 0, i64 * 10, i64 + 1, np.arange(samples, dtype=np.uint32))
    starts = np.arange(samples + 1, dtype=np.int64) * 2
    elements = np.arange(samples * 2, dtype=np.int64)
    absent = np.arange(samples) == 1
    sequence = FieldExtents(
        Field("words", "utf8", sequence=True), "utf8", 1, elements, elements * 0 + 1, None, starts, absent
    )
    return ShardIndex(
        samples,
        (FileStamp("a.bag", 100, 5), FileStamp("b.bag", 200, 6)),
        {"image": plain, "words": sequence},
        "bag",
        Keys.of([f"key {number} é" for number in range(samples)]),
    )


def blocks_table(samples: int = 4) -> ShardIndex:
    """A table with fields in block files of every kind."""
    i64 = np.arange(samples, dtype=np.int64)
    packed = Blocks(
        np.array([0, 8, 8, 1000]),
        np.array([0, 1, 0], np.int32),
        np.array([3, 0, 50]),
        np.array([8, 0, 40]),
        np.array([0, 0, 1], np.uint8),
        ("stored", "deflate"),
        Side(np.array([0, 0, 0, 3], np.uint64), np.array([1, 2, 3], np.uint8)),
    )
    held = Blocks.in_table(np.arange(9, dtype=np.uint8))
    fields = {
        "meta": FieldExtents(Field("meta", "json"), "json", 3, i64, i64 * 0),
        "data": FieldExtents(Field("data", "bytes"), "bytes", 2, i64, i64),
    }
    index = table(samples)
    return replace(index, fields={**index.fields, **fields}, blocks=(packed, held))


def same(one: ShardIndex, two: ShardIndex) -> None:
    assert (one.samples, one.files, one.container) == (two.samples, two.files, two.container)
    assert list(one.fields) == list(two.fields)
    for name, column in one.fields.items():
        other = two.fields[name]
        assert (column.field, column.codec, column.file) == (other.field, other.codec, other.file)
        for part in ("offset", "length", "crc32", "starts", "absent"):
            mine, theirs = getattr(column, part), getattr(other, part)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_array_equal(mine, theirs)
                assert mine.dtype == theirs.dtype
    assert len(one.blocks) == len(two.blocks)
    for mine, theirs in zip(one.blocks, two.blocks, strict=True):
        assert mine.filters == theirs.filters
        for part in ("start", "file", "offset", "length", "filter", "held"):
            np.testing.assert_array_equal(getattr(mine, part), getattr(theirs, part))
        assert (mine.side is None) == (theirs.side is None)
        if mine.side is not None and theirs.side is not None:
            np.testing.assert_array_equal(mine.side.offsets, theirs.side.offsets)
            np.testing.assert_array_equal(mine.side.data, theirs.side.data)
    if one.keys is not None:
        assert two.keys is not None
        samples = np.arange(one.samples, dtype=np.int64)
        assert one.keys.take(samples) == two.keys.take(samples)


@pytest.mark.parametrize("samples", [0, 1, 4, 1000])
def test_round_trip(tmp_path: Path, samples: int) -> None:
    index = table(samples)
    save_index(index, tmp_path / ".bushel" / "x.safetensors")
    same(index, load_index(tmp_path / ".bushel" / "x.safetensors"))
    assert [file.name for file in (tmp_path / ".bushel").iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize("samples", [0, 1, 1000])
def test_round_trip_of_blocks(tmp_path: Path, samples: int) -> None:
    index = blocks_table(samples)
    save_index(index, tmp_path / "x.safetensors")
    same(index, load_index(tmp_path / "x.safetensors"))


def test_blocks_take_29_bytes_each(tmp_path: Path) -> None:
    sizes = []
    for count in (10**4, 2 * 10**4):
        blocks = blocks_without(10**6, np.arange(8, 8 * count, 8))
        save_index(replace(table(), blocks=(blocks,)), tmp_path / "x.safetensors")
        sizes.append((tmp_path / "x.safetensors").stat().st_size)
    assert abs(sizes[1] - sizes[0] - 29 * 10**4) < 100


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("start", [0, 8, 7, 1000], "do not ascend"),
        ("start", [1, 8, 8, 1000], "do not ascend"),
        ("file", [0, 2, 0], "does not have"),
        ("offset", [3, 0, 61], "block 2 is not inside its file"),
        ("offset", [3, 0, -1], "block 2 is not inside its file"),
        ("length", [2**62, 0, 40], "block 0 is not inside its file"),
        ("length", [7, 0, 40], "block 0"),
        ("filter", [0, 0, 2], "not listed"),
        ("start", [0, 8, 8, 2**40], "block 2 .deflate. has 40 stored bytes"),
    ],
)
def test_forged_blocks_are_refused_when_they_are_loaded(
    tmp_path: Path, part: str, value: list[int], message: str
) -> None:
    index = blocks_table()
    packed, held = index.blocks
    changed: Any = {part: np.array(value, getattr(packed, part).dtype)}
    forged = replace(packed, **changed)
    save_index(replace(index, blocks=(forged, held)), tmp_path / "x.safetensors")
    with pytest.raises(FormatError, match=message):
        load_index(tmp_path / "x.safetensors")


def test_extents_in_a_block_file_that_is_not_there(tmp_path: Path) -> None:
    index = blocks_table()
    save_index(replace(index, blocks=index.blocks[:1]), tmp_path / "x.safetensors")
    with pytest.raises(FormatError, match="'meta' refers to file 3"):
        load_index(tmp_path / "x.safetensors")


def test_it_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    save_index(table(), tmp_path / "x.safetensors")
    arrays = load_file(tmp_path / "x.safetensors")
    assert arrays["image.offset"].tolist() == [0, 10, 20, 30]
    assert arrays["words.starts"].tolist() == [0, 2, 4, 6, 8]
    assert bytes(arrays["__key__.text"]).decode().startswith("key 0 ékey 1 é")


def test_every_cut_and_every_flipped_header_byte_is_found_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_index(table(), path)
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError):
            load_index(path)
    for at in range(0, header, 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        with contextlib.suppress(FormatError):
            load_index(path)


def test_a_forged_length_does_not_allocate(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    header = {"image.offset": {"dtype": "I64", "shape": [2**60], "data_offsets": [0, 2**63]}, "__metadata__": {}}
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded)
    with pytest.raises(FormatError, match="not an index"):
        load_index(path)
    path.write_bytes((2**63).to_bytes(8, "little") + encoded)
    with pytest.raises(FormatError, match="header is truncated"):
        load_index(path)


def test_arrays_that_do_not_belong_together(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    index = table()
    broken = FieldExtents(Field("image", "jpg"), "jpg", 0, np.arange(3), np.arange(3))
    save_index(ShardIndex(4, index.files, {"image": broken}, "bag"), path)
    with pytest.raises(FormatError, match="do not belong together"):
        load_index(path)
    save_index(ShardIndex(5, index.files, {}, "bag", index.keys), path)
    with pytest.raises(FormatError, match="together: '__key__.offsets'"):
        load_index(path)


@pytest.mark.parametrize("samples", [0, 1, 3, 70_000])
def test_equal_lengths_are_one_number(tmp_path: Path, samples: int) -> None:
    offset, length = np.arange(samples) * 9, np.full(samples, 5, np.int64)
    column = FieldExtents(Field("a", "bytes"), "bytes", 0, offset, length)
    index = ShardIndex(samples, (FileStamp("x", 10**6),), {"a": column}, "bag", Keys.of(map(str, range(samples))))
    save_index(index, tmp_path / "x")
    _, arrays = parse_all(memoryview((tmp_path / "x").read_bytes()))
    assert len(arrays["a.length"]) == min(samples, 1)
    assert arrays["__key__.order"].dtype == np.uint32
    loaded = load_index(tmp_path / "x")
    assert np.array_equal(loaded.fields["a"].length, length)
    assert loaded.keys is not None
    assert index.keys is not None
    assert np.array_equal(loaded.keys.order, index.keys.order)
    assert table_digest(loaded) == table_digest(index)


def test_manifest_round_trip(tmp_path: Path) -> None:
    entry = manifest_entry("x", table())
    manifest = Manifest("bag", {"image": "jpg"}, {"image": "jpg"}, [entry])
    save_manifest(manifest, tmp_path / ".bushel" / "manifest.json")
    assert load_manifest(tmp_path / ".bushel" / "manifest.json") == manifest
    assert load_manifest(tmp_path / "none.json") is None
    assert entry.recorded == (FileStamp("a.bag", 100, 5), FileStamp("b.bag", 200, 6))
    for damaged in (b"", b"{", b"[]", b'{"container": 3}', json.dumps({"version": 9}).encode()):
        (tmp_path / "bad.json").write_bytes(damaged)
        with pytest.raises(FormatError):
            load_manifest(tmp_path / "bad.json")


@given(st.lists(st.text(max_size=12), max_size=60))
def test_keys_lie_in_the_order_of_their_hashes_and_doubles_are_reported(keys: list[str]) -> None:
    table = Keys.of(keys)
    assert [table[number] for number in range(len(keys))] == keys
    assert sorted(table.order.tolist()) == list(range(len(keys)))
    assert np.all(table.hashes[1:] >= table.hashes[:-1])
    for number, found in zip(table.order.tolist(), table.hashes.tolist(), strict=True):
        assert Keys.of([keys[number]]).hashes.tolist() == [found]
    assert sorted(table.duplicates()) == sorted({key for key in keys if keys.count(key) > 1})


def test_check_refuses_extents_outside_their_file() -> None:
    good = table()
    assert good.check("x") is good
    for offset, length in ((101, 0), (100, 1), (-1, 1), (0, -2), (2**62, 2**62), (0, 2**63 - 1)):
        column = FieldExtents(Field("a", "bytes"), "bytes", 0, np.array([offset]), np.array([length]))
        with pytest.raises(FormatError, match="field 'a', row 0"):
            ShardIndex(1, good.files, {"a": column}, "bag").check("x")
    missing = FieldExtents(Field("a", "bytes"), "bytes", 0, np.array([0]), np.array([-1]))
    ShardIndex(1, good.files, {"a": missing}, "bag").check("x")
    unordered = FieldExtents(
        Field("a", "bytes", sequence=True),
        "bytes",
        0,
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        None,
        np.array([0, 3, 2]),
    )
    with pytest.raises(FormatError, match="not ascending"):
        ShardIndex(2, good.files, {"a": unordered}, "bag").check("x")
