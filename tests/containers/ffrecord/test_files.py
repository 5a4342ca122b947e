"""The ffrecord container: bytes of FFRecord 1.4.0, both ways."""

from __future__ import annotations

import itertools
import json
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.containers.ffrecord.by_hand import GOLDEN, MAPS, NONE, PLAIN, ffr, final, index, shard_of
from tests.containers.golden import check_manifest
from tests.containers.writing import stored_samples, write_shard

from bushel._index.shard import Shard
from bushel.containers.base import ReadOptions, WriteOptions
from bushel.containers.ffrecord import CONTAINER
from bushel.containers.ffrecord.packed_folder import MAGIC
from bushel.errors import BushelError, CorruptError, FormatError, SpecError
from bushel.spec import parse_spec


class TestReading:
    def test_golden_bytes(self, tmp_path: Path) -> None:
        shard = shard_of(tmp_path, GOLDEN)
        table = CONTAINER.index(shard, ReadOptions())
        assert stored_samples(shard, table) == [
            ("0", {"data": b"hello"}),
            ("1", {"data": b""}),
            ("2", {"data": b"\0\1\2"}),
        ]
        assert table.keys is None
        assert table.fields["data"].crc32 is not None
        assert table.fields["data"].crc32.tolist() == [0x3610A686, 0, 0x0854897F]
        assert [stamp.size for stamp in table.files] == [56]

    def test_no_records(self, tmp_path: Path) -> None:
        assert index(tmp_path, NONE).samples == 0

    def test_a_header_without_checksum_is_old_and_fine(self, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
        assert index(tmp_path, ffr([b"a", b"b"], checksum=0)).samples == 2
        assert not list(recwarn)

    def test_a_packed_folder(self, tmp_path: Path) -> None:
        tree = {"a.txt": 0, "b": {"empty": {}, "z.bin": 1}}
        shard = shard_of(tmp_path, ffr([b"A", b"Z", MAGIC + pickle.dumps(tree)]))
        table = CONTAINER.index(shard, ReadOptions())
        assert stored_samples(shard, table) == [("a.txt", {"data": b"A"}), ("b/z.bin", {"data": b"Z"})]
        assert CONTAINER.empty_folders(Shard.of(tmp_path / "x.ffr")) == ["b/empty"]

    def test_a_plain_file_has_no_empty_folders(self, tmp_path: Path) -> None:
        assert CONTAINER.empty_folders(shard_of(tmp_path, GOLDEN)) == []

    def test_a_given_spec_names_the_field(self, tmp_path: Path) -> None:
        table = index(tmp_path, GOLDEN, spec=parse_spec({"image": "jpg"}))
        assert {name: column.field.type for name, column in table.fields.items()} == {"image": "jpg"}
        with pytest.raises(
            SpecError, match="one plain field, but spec= declares {.image.: .jpg., .label.: .int.}: declare"
        ):
            index(tmp_path, GOLDEN, spec=parse_spec({"image": "jpg", "label": "int"}))

    def test_golden_datasets(self, golden: Path) -> None:
        manifests = sorted((golden / "ffrecord-1.4.0").glob("*/manifest.json"))
        assert len(manifests) == 7
        for manifest in [*manifests, golden / "damaged" / "base" / "ffrecord" / "manifest.json"]:
            check_manifest(CONTAINER, manifest)

    def test_empty_folder_of_the_golden_data(self, golden: Path) -> None:
        path = golden / "ffrecord-1.4.0" / "packed-folder" / "data" / "packed.ffr"
        assert CONTAINER.empty_folders(Shard.of(path)) == ["just_another_folder/empty dir"]


class TestShards:
    def test_files_of_a_folder_in_the_order_of_their_names(self, tmp_path: Path) -> None:
        for name in ("b.ffr", "a10.ffr", "a9.ffr", "notes.txt"):
            (tmp_path / name).write_bytes(NONE)
        shards = CONTAINER.shards(tmp_path)
        assert shards is not None
        assert [shard.name for shard in shards] == ["a10.ffr", "a9.ffr", "b.ffr"]
        assert all(shard.root == tmp_path for shard in shards)

    def test_what_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "x.tar").write_bytes(b"")
        assert CONTAINER.shards(tmp_path) is None
        assert CONTAINER.shards(tmp_path / "x.tar") is None

    def test_names(self, tmp_path: Path) -> None:
        layout = CONTAINER.layout(parse_spec(PLAIN), WriteOptions(keyed=False))
        before = [Shard(tmp_path, name, (name,)) for name in ("000001.ffr", "000002.ffr")]
        assert CONTAINER.shard(tmp_path, layout, before, None).files == ("000003.ffr",)
        assert CONTAINER.shard(tmp_path, layout, (), "train.ffr").files == ("train.ffr",)


class TestDamage:
    @pytest.mark.parametrize(
        ("data", "match"),
        [
            (b"", "at least 12 bytes"),
            (bytes(3), "at least 12 bytes"),
            (bytes(60), "interrupted"),
            (GOLDEN[:47], "do not fit into 47"),
            (b"\1" + GOLDEN[1:], "0xe443bf01, found 0xe443bf70"),
            (GOLDEN[:4] + b"\2" + GOLDEN[5:], "should have the CRC"),
            (bytes(4) + GOLDEN[4:24] + b"\x2f" + GOLDEN[25:], "start after the tables"),
            (bytes(4) + GOLDEN[4:40] + b"\xff" + GOLDEN[41:], "the file is truncated"),
            (bytes(4) + GOLDEN[4:32] + b"\x36" + GOLDEN[33:], "record 2 starts before record 1"),
            (bytes(4) + struct.pack("<q", 2**62) + bytes(99), "counts 4611686018427387904 records"),
            (bytes(4) + struct.pack("<q", -1) + bytes(99), "counts -1 records"),
        ],
    )
    def test_header(self, data: bytes, match: str, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match=match) as error:
            index(tmp_path, data)
        assert error.value.file == str(tmp_path / "x.ffr")
        assert error.value.offset is not None
        assert "bushel verify" in str(error.value)

    def test_table_of_a_packed_folder(self, tmp_path: Path) -> None:
        data = bytearray(ffr([b"A", MAGIC + pickle.dumps({"a": 0})]))
        data[-2] ^= 1
        with pytest.raises(CorruptError, match="the table of the packed folder"):
            index(tmp_path, bytes(data))
        with pytest.raises(FormatError, match="lists 1 files, but the file has 2 other records"):
            index(tmp_path, ffr([b"A", b"B", MAGIC + pickle.dumps({"a": 0})]))
        with pytest.raises(FormatError, match="not executed") as error:
            index(tmp_path, ffr([b"A", MAGIC + pickle.dumps([0])]))
        assert error.value.file == str(tmp_path / "x.ffr")

    def test_a_key_that_is_not_text(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="is not valid text"):
            index(tmp_path, ffr([b"A", MAGIC + pickle.dumps({"\ud800": 0})]))

    def test_a_packed_sample_with_another_checksum(self, tmp_path: Path) -> None:
        shard, _ = write_shard(CONTAINER, tmp_path, MAPS, [(None, {"image": b"abc"}), (None, {"image": b"def"})])
        data = bytearray(final(shard))
        data[-1] ^= 1
        with pytest.raises(CorruptError, match="record 1") as error:
            index(tmp_path, bytes(data))
        assert error.value.expected != error.value.found

    def test_cases(self, golden: Path) -> None:
        seen = 0
        for case in json.loads((golden / "damaged" / "damaged.json").read_text())["cases"]:
            if case["container"] != "ffrecord":
                continue
            seen += 1
            [shard] = CONTAINER.shards(golden / "damaged" / case["open"]) or []
            if case["name"] not in ("last-byte-lost", "payload-bit", "garbage-at-the-end"):
                with pytest.raises(FormatError) as error:
                    CONTAINER.index(shard, ReadOptions())
                assert error.value.file is not None
                assert Path(error.value.file).name in case["named"]
                continue
            column = CONTAINER.index(shard, ReadOptions()).fields["data"]
            data = Path(str(shard.path(0))).read_bytes()
            assert column.crc32 is not None
            rows = zip(column.offset.tolist(), column.length.tolist(), column.crc32.tolist(), strict=True)
            good = [str(row) for row, (at, size, crc) in enumerate(rows) if zlib.crc32(data[at : at + size]) == crc]
            assert good == case["intact"], case
        assert seen == 13

    @pytest.mark.parametrize("name", ["golden", "folder", "maps"])
    def test_truncation_and_mutation(self, name: str, tmp_path: Path) -> None:
        folder = ffr([b"A", b"Z", MAGIC + pickle.dumps({"a": 0, "b": {"c": 1}}, protocol=4)])
        shard, _ = write_shard(CONTAINER, tmp_path, MAPS, [("k", {"image": b"abc", "words": [b"x"]})], keyed=True)
        whole = {"golden": GOLDEN, "folder": folder, "maps": final(shard)}[name]
        for end in range(len(whole)):
            try_all(tmp_path, whole[:end])
        for at, byte in itertools.product(range(len(whole)), (0x00, 0x01, 0x7F, 0xFF)):
            data = bytearray(whole)
            data[at] = byte
            try_all(tmp_path, bytes(data))
            try_all(tmp_path, bytes(4) + bytes(data[4:]))


def try_all(folder: Path, data: bytes) -> None:
    """Only Bushel's own errors may come out, and no extent may be outside of the file."""
    try:
        table = index(folder, data)
    except BushelError:
        return
    for column in table.fields.values():
        assert (column.offset + np.maximum(column.length, 0) <= len(data)).all()
