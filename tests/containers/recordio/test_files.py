"""The recordio container: bytes of MXNet 1.9.1, both ways."""

from __future__ import annotations

import importlib
import itertools
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.golden import check_manifest
from tests.containers.recordio.by_hand import (
    FOUR,
    FOUR_IDX,
    FOUR_REC,
    JPEG,
    LABEL,
    MAPS,
    PLAIN,
    PNG,
    SPLIT,
    M,
    content,
    frame,
    image,
    index,
    plain,
    positions,
    read,
    shard_of,
)
from tests.containers.summed import summed_table
from tests.containers.writing import Sample, stored_samples, write_shard

import bushel
from bushel._index.shard import Shard
from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions, WriteOptions
from bushel.containers.recordio import CONTAINER
from bushel.containers.recordio.idx import parse_idx
from bushel.errors import BushelError, FormatError, SpecError
from bushel.spec import parse_spec


class TestReading:
    @pytest.mark.parametrize("idx", [None, FOUR_IDX, FOUR_IDX[:-1], FOUR_IDX.replace(b"\n", b"\r\n")])
    def test_golden_bytes(self, idx: bytes | None, tmp_path: Path) -> None:
        assert read(tmp_path, FOUR_REC, idx) == positions(plain(*FOUR))
        assert index(tmp_path, FOUR_REC, idx).keys is None

    @pytest.mark.parametrize("with_idx", [False, True])
    def test_records_in_parts(self, with_idx: bool, tmp_path: Path) -> None:
        records = [bytes.fromhex(text) for text in SPLIT.values()]
        starts = itertools.accumulate(map(len, records), initial=0)
        idx = b"".join(b"%d\t%d\n" % pair for pair in enumerate(itertools.islice(starts, len(records))))
        for checksums in (False, True):
            table = index(tmp_path, b"".join(records), idx if with_idx else None, checksums=checksums)
            [shard] = CONTAINER.shards(tmp_path / "x.rec") or []
            assert stored_samples(shard, table) == positions(plain(*SPLIT))
            homes, _ = table.in_one_piece(table.fields["data"])
            assert np.flatnonzero(homes < 0).tolist() == [
                2,
                3,
                4,
            ]  # the payload of record 0 is the word itself, which is in one piece

    def test_order_and_keys_are_those_of_the_idx(self, tmp_path: Path) -> None:
        expected = [("b", {"data": b"abcde"}), ("été", {"data": b""}), ("x y", {"data": b"abcd"})]
        assert read(tmp_path, FOUR_REC, "b\t32\nété\t0\nx y\t20\n".encode()) == expected

    def test_two_keys_of_one_record(self, tmp_path: Path) -> None:
        assert read(tmp_path, FOUR_REC, b"a\t8\nb\t8\n") == [("a", {"data": b"a"}), ("b", {"data": b"a"})]

    @pytest.mark.parametrize("labels", [[1.5, 2.5], [[2.0, 3.0], [4.0]], [7.0, [2.0, 3.0]]])
    def test_image_records(self, labels: list[Any], tmp_path: Path) -> None:
        shard = shard_of(tmp_path, b"".join(frame(image(label, 5 + at)) for at, label in enumerate(labels)))
        table = CONTAINER.index(shard, ReadOptions())
        samples = stored_samples(shard, table)
        decode = get_codec("recordio-label").decode
        values = [decode(fields["label"]) for _, fields in samples]
        assert [value if isinstance(value, float) else value.tolist() for value in values] == labels
        assert [fields["image"] for _, fields in samples] == [JPEG, JPEG]
        assert [int.from_bytes(fields["id"], "little") for _, fields in samples] == [5, 6]
        assert [fields["id2"] for _, fields in samples] == [bytes(8)] * 2
        types = {name: column.field.type for name, column in table.fields.items()}
        scalar = all(isinstance(label, float) for label in labels)
        assert types == {"image": "jpg", "label": "float" if scalar else "array", "id": "u64", "id2": "u64"}

    def test_image_records_in_parts(self, tmp_path: Path) -> None:
        magic = struct.unpack("<f", M)[0]
        samples: list[Sample] = [
            (None, {"image": JPEG[:4] + M + JPEG, "label": LABEL([1.0, magic])}),
            (None, {"image": JPEG[:4] + M, "label": LABEL(magic)}),
            (None, {"image": JPEG, "label": LABEL(1.0)}),
        ]
        shard, table = write_shard(CONTAINER, tmp_path, {"image": "jpg", "label": "array"}, samples)
        again = summed_table(CONTAINER, shard)
        for one in (table, again):
            found = [(fields["image"], fields["label"][24:]) for _, fields in stored_samples(shard, one)]
            assert [picture for picture, _ in found] == [fields["image"] for _, fields in samples]
            assert found[0][1] == struct.pack("<f", 1.0) + M
        expected = stored_samples(shard, again)
        (tmp_path / "000000.idx").unlink()
        [bare] = CONTAINER.shards(tmp_path) or []
        assert stored_samples(bare, CONTAINER.index(bare, ReadOptions())) == expected

    @pytest.mark.parametrize(
        ("payloads", "codec"),
        [
            ([image(data=JPEG)], "jpg"),
            ([image(data=PNG)] * 2, "png"),
            ([image(data=b"RIFF\1\0\0\0WEBPVP8 ")], "webp"),
            ([image(data=JPEG), image(data=PNG)], "image"),
            ([image(), b""], None),
            ([image(data=b"")], None),
            ([JPEG], None),
            ([image([1.0] * 3)[:33]], None),
            ([b"\xff" * 4 + image()[4:]], None),
            ([image(), image(data=b"text")], None),
        ],
    )
    def test_what_is_an_image_record(self, payloads: list[bytes], codec: str | None, tmp_path: Path) -> None:
        table = index(tmp_path, b"".join(map(frame, payloads)))
        if codec is None:
            assert list(table.fields) == ["data"]
        else:
            assert table.fields["image"].field.type == codec

    def test_a_given_spec(self, tmp_path: Path) -> None:
        rec = frame(image(3.0, data=b"no known image"))
        table = index(tmp_path, rec, spec=parse_spec({"image": "bytes", "label": "int", "id": "int"}))
        columns = {name: (column.field.type, column.codec) for name, column in table.fields.items()}
        assert columns == {
            "image": ("bytes", "bytes"),
            "label": ("int", "recordio-label-int"),
            "id": ("int", "u64"),
        }
        assert list(index(tmp_path, rec, spec=parse_spec({"text": "utf8"})).fields) == ["text"]
        assert list(index(tmp_path, frame(JPEG), spec=parse_spec({"image": "jpg"})).fields) == ["image"]
        with pytest.raises(SpecError, match="has one plain field, but spec= declares {'a': .*'b': "):
            index(tmp_path, rec, spec=parse_spec({"a": "utf8", "b": "int"}))

    def test_golden_datasets(self, golden: Path) -> None:
        manifests = sorted((golden / "recordio-mxnet-1.9.1").glob("*/manifest.json"))
        assert len(manifests) == 10
        for manifest in [*manifests, golden / "damaged" / "base" / "recordio" / "manifest.json"]:
            check_manifest(CONTAINER, manifest)

    def test_a_file_that_is_not_local(self, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from upath import UPath

        module = importlib.import_module("bushel.containers.recordio.scan")  # the package has a function of this name
        monkeypatch.setattr(module, "_WINDOW", 1 << 8)
        remote = UPath("memory://bushel-recordio")
        for name in ("magic", "images-no-index"):
            source = golden / "recordio-mxnet-1.9.1" / name / "data" / "x.rec"
            (remote / f"{name}.rec").write_bytes(source.read_bytes())
            [here] = CONTAINER.shards(source) or []
            [there] = CONTAINER.shards(remote / f"{name}.rec") or []
            expected = summed_table(CONTAINER, Shard(here.root, here.name, here.files[:1]))
            found = summed_table(CONTAINER, there)
            for field, column in expected.fields.items():
                np.testing.assert_array_equal(found.fields[field].offset, column.offset)
                np.testing.assert_array_equal(found.fields[field].length, column.length)
                np.testing.assert_array_equal(found.fields[field].crc32, column.crc32)

    def test_progress_adds_up(self, tmp_path: Path) -> None:
        for idx in (FOUR_IDX, None):
            seen: list[int] = []
            index(tmp_path, FOUR_REC, idx, report=seen.append)
            assert sum(seen) == len(FOUR_REC)


class TestShards:
    def test_parts_of_a_folder(self, tmp_path: Path) -> None:
        for name in ("b.rec", "b.idx", "a.rec", "c.idx", "notes.txt", "x.rec.part000", "x.rec.part001"):
            (tmp_path / name).write_bytes(b"")
        shards = CONTAINER.shards(tmp_path)
        assert shards is not None
        assert [shard.files for shard in shards] == [
            ("a.rec",),
            ("b.rec", "b.idx"),
            ("x.rec.part000",),
            ("x.rec.part001",),
        ]
        [one] = CONTAINER.shards(tmp_path / "x.rec.part001") or []
        assert one.files == ("x.rec.part001",)

    def test_what_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "x.recording").write_bytes(b"")
        assert CONTAINER.shards(tmp_path) is None
        assert CONTAINER.shards(tmp_path / "x.recording") is None

    def test_names(self, tmp_path: Path) -> None:
        layout = CONTAINER.layout(parse_spec(PLAIN), WriteOptions(keyed=False))
        before = [Shard(tmp_path, name, (name,)) for name in ("000001.rec", "000002.rec")]
        assert CONTAINER.shard(tmp_path, layout, before, None).files == ("000003.rec", "000003.idx")
        assert CONTAINER.shard(tmp_path, layout, (), "train.rec").files == ("train.rec", "train.idx")


class TestIdx:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            (b"0 0\n", 1),
            (b"0\t0\n1\n", 2),
            (b"0\t0\n\n1\t8\n", 2),
            (b"0\t0\na\tb\t8\n", 2),
            (b"0\t0\n1\t\n", 2),
            (b"0\t0\n1\t-8\n", 2),
            (b"0\t0\n1\t8x\n2\t16\n", 2),
            (b"0\t18446744073709551615\n", 1),
            (b"\n\n0\t0", 1),
            (b"\t\t\n", 1),
        ],
    )
    def test_malformed(self, text: bytes, line: int) -> None:
        with pytest.raises(FormatError, match=f"line {line} should be") as error:
            parse_idx(text, "x.idx")
        assert error.value.file == "x.idx"
        assert error.value.offset == sum(map(len, text.splitlines(keepends=True)[: line - 1]))

    keys = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=5)

    @given(st.lists(st.tuples(keys, st.integers(0, 10**17)), max_size=30))
    def test_any_lines(self, lines: list[tuple[str, int]]) -> None:
        table = parse_idx("".join(f"{key}\t{offset}\n" for key, offset in lines).encode(), "x.idx")
        assert table.offset.tolist() == [offset for _, offset in lines]
        names = [key for key, _ in lines]
        if names == list(map(str, range(len(names)))):
            assert table.keys is None
        else:
            assert table.keys is not None
            assert table.keys.take(np.arange(len(names))) == names

    @pytest.mark.parametrize("count", [1, 10, 11, 1001])
    def test_positions_are_no_keys(self, count: int) -> None:
        lines = [f"{number}\t{8 * number}\n" for number in range(count)]
        assert parse_idx("".join(lines).encode(), "x.idx").keys is None
        assert parse_idx("".join([*lines[:-1], f"0{lines[-1]}"]).encode(), "x.idx").keys is not None
        if count > 1:
            assert parse_idx("".join(lines[1:]).encode(), "x.idx").keys is not None


class TestDamage:
    @pytest.mark.parametrize(
        ("rec", "idx", "match", "offset"),
        [
            (FOUR_REC, b"0\t4\n", "but the file has none", 4),
            (FOUR_REC, b"0\t3\n", "no space for one", 3),
            (FOUR_REC, b"0\t48\n", "a file of 48 bytes has no space for one", 48),
            (FOUR_REC, b"0\t999999999999\n", "no space for one", 999999999999),
            (FOUR_REC[:40], FOUR_IDX, "truncates a record of 5 bytes", 32),
            (FOUR_REC + b"junk", FOUR_IDX, "expected a record or the end", 48),
            (FOUR_REC[:12] + b"\3" + FOUR_REC[13:], FOUR_IDX, None, None),
            (FOUR_REC[:24] + b"\0" + FOUR_REC[25:], FOUR_IDX, "expected a record or the end", 28),
            (FOUR_REC[:24] + b"\5" + FOUR_REC[25:], FOUR_IDX, "inside another one", 32),
            (bytes.fromhex(SPLIT[M]), b"0\t8\n", "the later part", 8),
            (bytes.fromhex(SPLIT[M])[:8], b"0\t0\n", "its next part is missing", 8),
            (bytes.fromhex(SPLIT[M])[:8] + FOUR_REC, b"0\t0\n", "its next part is missing", 8),
            (FOUR_REC, b"", "it lists no record", None),
            (FOUR_REC[:-4], None, "beyond the end of the file", 32),
            (b"\0" * 64, None, "magic word is wrong", 0),
            (FOUR_REC + b"\0", None, "header is cut", 48),
        ],
    )
    def test_what_is_reported(
        self, rec: bytes, idx: bytes | None, match: str | None, offset: int | None, tmp_path: Path
    ) -> None:
        if match is None:
            assert read(tmp_path, rec, idx)[1] == ("1", {"data": rec[16:19]})
            return
        with pytest.raises(FormatError, match=match) as error:
            index(tmp_path, rec, idx)
        assert error.value.offset == offset
        assert error.value.file in (str(tmp_path / "x.rec"), str(tmp_path / "x.idx"))
        assert error.value.hint is not None

    def test_parts_that_many_records_share_end_in_an_error(self, tmp_path: Path) -> None:
        count = 3000
        tail = (M + struct.pack("<I", 2 << 29)) * count + M + struct.pack("<I", 3 << 29)
        heads = b"".join(M + struct.pack("<I", 1 << 29 | (count - 1 - at) * 8) for at in range(count))
        idx = b"".join(b"%d\t%d\n" % (at, 8 * at) for at in range(count))
        with pytest.raises(FormatError, match="overlap"):
            index(tmp_path, heads + tail, idx)

    def test_faults_that_reading_does_not_meet(self, tmp_path: Path) -> None:
        assert CONTAINER.faults(shard_of(tmp_path, FOUR_REC, FOUR_IDX)) == []
        assert CONTAINER.faults(shard_of(tmp_path, FOUR_REC)) == []
        [fault] = CONTAINER.faults(shard_of(tmp_path, FOUR_REC, FOUR_IDX[:-5]))
        assert "it leaves out 1 records of" in str(fault)
        assert str(fault).partition("x.rec, ")[2].startswith("the first at 32")
        faults = CONTAINER.faults(shard_of(tmp_path, FOUR_REC, b"a\t0\na\t8\nc\t20\nd\t32\n"))
        assert ["'a' appears twice" in str(fault) for fault in faults] == [True]
        [fault] = CONTAINER.faults(shard_of(tmp_path, FOUR_REC + M, FOUR_IDX))
        assert fault.offset == 48

    def test_cases(self, golden: Path) -> None:
        seen = 0
        for case in json.loads((golden / "damaged" / "damaged.json").read_text())["cases"]:
            if case["container"] != "recordio" or case["revealed_by"] != "format":
                continue
            seen += 1
            [shard] = CONTAINER.shards(golden / "damaged" / case["open"]) or []
            faults = CONTAINER.faults(shard) if case["name"] in ("idx-behind", "idx-key-twice") else []
            try:
                CONTAINER.index(shard, ReadOptions())
            except FormatError as error:
                faults.append(error)
            assert faults, case
            assert all(Path(str(fault.file)).name in case["named"] for fault in faults)
            if case["file"] == "x.idx":
                alone = Shard(shard.root, shard.name, shard.files[:1])
                assert CONTAINER.index(alone, ReadOptions()).samples == 6
        assert seen == 13

    @pytest.mark.parametrize("name", ["four", "split", "images", "maps"])
    def test_truncation_and_mutation(self, name: str, tmp_path: Path) -> None:
        shard, _ = write_shard(
            CONTAINER, tmp_path, MAPS, [("k", {"image": M + M, "words": [b"x", b""]})] * 2, keyed=True
        )
        split = b"".join(map(bytes.fromhex, SPLIT.values()))
        images = frame(image()) + frame(image([1.0, 2.0], data=PNG))
        rec, idx = {
            "four": (FOUR_REC, FOUR_IDX),
            "split": (split, b"0\t0\n1\t16\n2\t32\n3\t56\n4\t80\n"),
            "images": (images, b"0\t0\n1\t%d\n" % len(frame(image()))),
            "maps": content(shard),
        }[name]
        for end in range(len(rec)):
            try_all(tmp_path, rec[:end], idx)
        for at, byte in itertools.product(range(len(rec)), (0x00, 0x20, 0x7F, 0xFF)):
            try_all(tmp_path, rec[:at] + bytes([byte]) + rec[at + 1 :], idx)
        for at, byte in itertools.product(range(len(idx)), (0x00, 0x09, 0x0A, 0x31, 0x39, 0xFF)):
            try_all(tmp_path, rec, idx[:at] + bytes([byte]) + idx[at + 1 :])
            try_all(tmp_path, rec, idx[:at])


def try_all(folder: Path, rec: bytes, idx: bytes) -> None:
    """Only Bushel's own errors may come out, and everything that is indexed can be read."""
    for table in (idx, None):
        try:
            read(folder, rec, table)
        except BushelError:
            continue


def test_keys_that_are_positions_stay_keys_when_they_are_indexed_again(tmp_path: Path) -> None:
    samples = [{"__key__": str(number), "text": "straw"} for number in range(12)]
    bushel.pack(samples, tmp_path / "x", container="recordio", sync=False)
    before = bushel.open(tmp_path / "x")
    again = bushel.index(tmp_path / "x", force=True)
    assert (before.info.keyed, again.info.keyed) == (True, True)
    assert (list(again.keys), again.fingerprint) == (list(before.keys), before.fingerprint)
    bushel.pack([{"text": "straw"}] * 3, tmp_path / "no-keys", container="recordio", sync=False)
    assert not bushel.index(tmp_path / "no-keys", force=True).info.keyed
