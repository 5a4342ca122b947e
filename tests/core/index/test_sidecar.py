from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.core.index.sidecar import Manifest, ManifestShard, load_index, load_manifest, save_index, save_manifest
from bushel.core.index.table import Column, FileStamp, Fragments, Keys, ShardIndex
from bushel.errors import FormatError
from bushel.spec import Field


def table(samples: int = 4) -> ShardIndex:
    i64 = np.arange(samples, dtype=np.int64)
    plain = Column(Field("image", "jpg"), "jpg", 0, i64 * 10, i64 + 1, np.arange(samples, dtype=np.uint32))
    starts = np.arange(samples + 1, dtype=np.int64) * 2
    elements = np.arange(samples * 2, dtype=np.int64)
    absent = np.arange(samples) == 1
    sequence = Column(
        Field("words", "utf8", sequence=True), "utf8", 1, elements, elements * 0 + 1, None, starts, absent
    )
    pieces = Fragments(i64[:1], i64[:1] + 5, i64[:1] + 6)
    inline = Column(Field("meta", "json"), "json", -1, i64, i64 * 0, None, fragments=pieces)
    return ShardIndex(
        samples,
        (FileStamp("a.bag", 100, 5), FileStamp("b.bag", 200, 6)),
        {"image": plain, "words": sequence, "meta": inline},
        "bag",
        Keys.of([f"key {number} é" for number in range(samples)]),
        np.arange(9, dtype=np.uint8),
    )


def same(one: ShardIndex, two: ShardIndex) -> None:
    assert (one.samples, one.files, one.container) == (two.samples, two.files, two.container)
    assert list(one.columns) == list(two.columns)
    for name, column in one.columns.items():
        other = two.columns[name]
        assert (column.field, column.codec, column.file) == (other.field, other.codec, other.file)
        for part in ("offset", "length", "crc32", "starts", "absent"):
            mine, theirs = getattr(column, part), getattr(other, part)
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_array_equal(mine, theirs)
                assert mine.dtype == theirs.dtype
        if column.fragments is not None:
            assert other.fragments is not None
            np.testing.assert_array_equal(column.fragments.length, other.fragments.length)
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
    broken = Column(Field("image", "jpg"), "jpg", 0, np.arange(3), np.arange(3))
    save_index(ShardIndex(4, index.files, {"image": broken}, "bag"), path)
    with pytest.raises(FormatError, match="do not belong together"):
        load_index(path)
    save_index(ShardIndex(5, index.files, {}, "bag", index.keys), path)
    with pytest.raises(FormatError, match="together: '__key__.offsets'"):
        load_index(path)


def test_manifest_round_trip(tmp_path: Path) -> None:
    entry = ManifestShard.of("x", table())
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
        column = Column(Field("a", "bytes"), "bytes", 0, np.array([offset]), np.array([length]))
        with pytest.raises(FormatError, match="field 'a', row 0"):
            ShardIndex(1, good.files, {"a": column}, "bag").check("x")
    missing = Column(Field("a", "bytes"), "bytes", 0, np.array([0]), np.array([-1]))
    ShardIndex(1, good.files, {"a": missing}, "bag").check("x")
    unordered = Column(
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
