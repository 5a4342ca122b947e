"""`recordio`: readers, writers, and image records."""

from __future__ import annotations

import os
import pickle
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources.folders import jpeg, picture
from tests.storage.paths import Elsewhere

import bushel
from bushel.compat.mxnet import MXNetError, recordio
from bushel.compat.mxnet.base import DamagedError, ImageError, RecordTooLargeError
from bushel.errors import FormatError, SpecError

RECORDS = [b"", b"a", b"abcd", b"abcde", bytes.fromhex("0a23d7ce") * 2 + b"q", bytes(1000)]
GOLDEN = bytes.fromhex(
    "0a23d7ce000000000a23d7ce01000000610000000a23d7ce04000000616263640a23d7ce050000006162636465000000"
)


def write(folder: Path, records: list[bytes], flag: str = "w", first: int = 0) -> tuple[str, str]:
    idx, rec = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(idx, rec, flag) as writer:
        for key, record in enumerate(records, first):
            writer.write_idx(key, record)
    return idx, rec


class TestFiles:
    def test_golden_bytes(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS[:4])
        assert Path(rec).read_bytes() == GOLDEN
        assert Path(idx).read_text() == "0\t0\n1\t8\n2\t20\n3\t32\n"

    def test_one_after_another(self, tmp_path: Path) -> None:
        path = tmp_path / "a.rec"
        writer = recordio.MXRecordIO(path, "w")
        for record in RECORDS:
            writer.write(record)
        writer.close()
        reader = recordio.MXRecordIO(str(path), "r")
        assert [reader.read() for _ in range(len(RECORDS) + 2)] == [*RECORDS, None, None]
        reader.reset()
        assert reader.read() == b""

    def test_by_key(self, tmp_path: Path) -> None:
        reader = recordio.MXIndexedRecordIO(*write(tmp_path, RECORDS), "r")
        assert [reader.read_idx(key) for key in (5, 4, 0, 3)] == [RECORDS[key] for key in (5, 4, 0, 3)]
        assert reader.keys == list(range(6))
        assert reader.idx[2] == 20
        reader.seek(2)
        assert [reader.read(), reader.read()] == RECORDS[2:4]
        with pytest.raises(KeyError):
            reader.read_idx(6)

    def test_a_record_is_there_when_it_is_written(self, tmp_path: Path) -> None:
        idx, rec = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
        writer = recordio.MXIndexedRecordIO(idx, rec, "w")
        for key, record in enumerate(RECORDS):
            writer.write_idx(key, record)
            assert recordio.MXIndexedRecordIO(idx, rec, "r").read_idx(key) == record
            assert writer.tell() == os.path.getsize(rec)
        writer.close()

    def test_records_that_the_idx_leaves_out(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS)
        lines = Path(idx).read_text().splitlines(keepends=True)
        Path(idx).write_text(lines[0] + lines[4])
        reader = recordio.MXIndexedRecordIO(idx, rec, "r")
        assert [reader.read_idx(0), reader.read_idx(4)] == [RECORDS[0], RECORDS[4]]

    def test_keys_of_other_types(self, tmp_path: Path) -> None:
        idx, rec = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
        with recordio.MXIndexedRecordIO(idx, rec, "w", key_type=str) as writer:
            for key in ("cat/1", "dog 2", "cat/1"):
                writer.write_idx(key, key.encode() + b"%d" % writer.tell())
            for bad in ("a\tb", "a\nb", " a"):
                with pytest.raises(SpecError, match="cannot hold the key"):
                    writer.write_idx(bad, b"")
        reader = recordio.MXIndexedRecordIO(idx, rec, "r", key_type=str)
        assert reader.keys == ["cat/1", "dog 2", "cat/1"]
        assert reader.read_idx("cat/1") == b"cat/132"  # the last one
        with pytest.raises(ValueError, match="cat/1"):
            recordio.MXIndexedRecordIO(idx, rec, "r")

    def test_a_file_of_bushel(self, tmp_path: Path) -> None:
        with bushel.Writer(tmp_path / "a.rec", {"data": "bytes"}) as writer:
            for record in RECORDS:
                writer.append({"data": record})
        reader = recordio.MXIndexedRecordIO(tmp_path / "a.idx", tmp_path / "a.rec", "r")
        assert [reader.read_idx(key) for key in range(6)] == RECORDS

    def test_nothing_is_left_beside_the_files(self, tmp_path: Path) -> None:
        recordio.MXIndexedRecordIO(*write(tmp_path, RECORDS), "r").read_idx(1)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.idx", "a.rec"]

    def test_files_that_are_not_local(self, tmp_path: Path) -> None:
        idx, rec = Elsewhere(tmp_path / "a.idx"), Elsewhere(tmp_path / "a.rec")
        with recordio.MXIndexedRecordIO(idx, rec, "w") as writer:
            for key, record in enumerate(RECORDS):
                writer.write_idx(key, record)
        reader = recordio.MXIndexedRecordIO(idx, rec, "r")
        assert [reader.read_idx(key) for key in range(6)] == RECORDS

    def test_golden_files(self, golden: Path) -> None:
        folder = golden / "recordio-mxnet-1.9.1"
        for path in sorted(folder.rglob("*.rec")):
            reader, found = recordio.MXRecordIO(path, "r"), []
            while (record := reader.read()) is not None:
                found.append(record)
            if path.with_suffix(".idx").exists() and "sparse" not in str(path):
                indexed = recordio.MXIndexedRecordIO(path.with_suffix(".idx"), path, "r", key_type=str)
                assert [indexed.read_idx(key) for key in indexed.keys] == found


class TestAppending:
    def test_to_both_files(self, tmp_path: Path) -> None:
        write(tmp_path, RECORDS[:3])
        idx, rec = write(tmp_path, RECORDS[3:], "a", first=3)
        whole = tmp_path / "whole"
        whole.mkdir()
        write(whole, RECORDS)
        assert Path(rec).read_bytes() == (whole / "a.rec").read_bytes()
        assert Path(idx).read_bytes() == (whole / "a.idx").read_bytes()

    def test_to_what_is_not_there_yet(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS, "a")
        assert recordio.MXIndexedRecordIO(idx, rec, "r").read_idx(4) == RECORDS[4]
        plain = recordio.MXRecordIO(tmp_path / "b.rec", "a")
        plain.write(b"x")
        plain.reset()
        plain.write(b"y")
        plain.close()
        reader = recordio.MXRecordIO(tmp_path / "b.rec", "r")
        assert [reader.read(), reader.read(), reader.read()] == [b"x", b"y", None]

    def test_keys_and_places_are_known(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS[:3])
        writer = recordio.MXIndexedRecordIO(idx, rec, "a")
        assert (writer.keys, writer.tell()) == ([0, 1, 2], 32)
        writer.close()

    def test_missing_padding_is_made_up_for(self, tmp_path: Path) -> None:
        path = tmp_path / "a.rec"
        path.write_bytes(GOLDEN[:-3])
        with recordio.MXRecordIO(path, "a") as writer:
            writer.write(b"")
        assert path.read_bytes() == GOLDEN + GOLDEN[:8]

    @pytest.mark.parametrize("cut", [4, 6, 13])
    def test_to_a_damaged_file_is_refused(self, tmp_path: Path, cut: int) -> None:
        path = tmp_path / "a.rec"
        path.write_bytes(GOLDEN[:-cut])
        with pytest.raises(DamagedError, match=r"a\.rec@32"):
            recordio.MXRecordIO(path, "a")
        assert path.read_bytes() == GOLDEN[:-cut]

    def test_to_a_damaged_index_is_refused(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS)
        Path(idx).write_text(Path(idx).read_text()[:-3])
        with pytest.raises(DamagedError, match="cut off"):
            recordio.MXIndexedRecordIO(idx, rec, "a")

    def test_without_an_index_is_refused(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS)
        os.unlink(idx)
        with pytest.raises(FileNotFoundError):
            recordio.MXIndexedRecordIO(idx, rec, "a")


class TestWrongUse:
    def test_modes(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS)
        reader, writer = recordio.MXIndexedRecordIO(idx, rec, "r"), recordio.MXRecordIO(tmp_path / "b.rec", "w")
        calls: list[tuple[Any, ...]] = [(reader.write, b""), (reader.write_idx, 1, b""), (reader.tell,), (writer.read,)]
        for call, *arguments in calls:
            with pytest.raises(AssertionError, match="open for"):
                call(*arguments)
        writer.close()
        reader.close()
        calls = [(writer.write, b""), (reader.read,)]
        for call, *arguments in calls:
            for error in (ValueError, RuntimeError):
                with pytest.raises(error, match="closed"):
                    call(*arguments)
        with pytest.raises(ValueError, match="Invalid flag x"):
            recordio.MXRecordIO(rec, "x")

    def test_seek_and_read_idx_open_a_closed_reader_again(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS)
        reader = recordio.MXIndexedRecordIO(idx, rec, "r")
        reader.close()
        reader.seek(2)
        assert reader.read() == RECORDS[2]
        reader.close()
        assert reader.read_idx(5) == RECORDS[5]

    def test_not_a_record(self, tmp_path: Path) -> None:
        writer = recordio.MXRecordIO(tmp_path / "a.rec", "w")
        with pytest.raises(TypeError, match="str"):
            writer.write("text")  # type: ignore[arg-type]
        with pytest.raises(RecordTooLargeError, match="536870911"):
            writer.write(memoryview(bytearray(1 << 29)))
        writer.write(bytearray(b"abcd"))
        writer.close()
        assert (tmp_path / "a.rec").read_bytes() == GOLDEN[20:32]

    @pytest.mark.parametrize(
        ("data", "where"),
        [
            (GOLDEN[:-4], 32),
            (GOLDEN[:36], 32),
            (GOLDEN[:34], 32),
            (GOLDEN[:32] + b"\0" * 16, 32),
            (GOLDEN[:32] + bytes.fromhex("0a23d7ceffffff1f"), 32),
            (GOLDEN[:32] + bytes.fromhex("0a23d7ce00000020"), 40),
            (GOLDEN[:32] + bytes.fromhex("0a23d7ce00000060"), 32),
        ],
    )
    def test_damage(self, tmp_path: Path, data: bytes, where: int) -> None:
        rec, idx = tmp_path / "a.rec", tmp_path / "a.idx"
        rec.write_bytes(data)
        reader = recordio.MXRecordIO(rec, "r")
        assert [reader.read() for _ in range(3)] == RECORDS[:3]
        idx.write_text("0\t0\n1\t8\n2\t20\n3\t32\n")
        indexed = recordio.MXIndexedRecordIO(idx, rec, "r")
        for call in (reader.read, lambda: indexed.read_idx(3)):
            with pytest.raises(MXNetError) as caught:
                call()
            assert isinstance(caught.value, FormatError)
            assert caught.value.offset == where

    @pytest.mark.parametrize("line", ["3\t-8\n", "3\t18446744073709551615\n", "3\n", "\t\t\n", "3\t1.5\n"])
    def test_a_damaged_index(self, tmp_path: Path, line: str) -> None:
        idx, rec = write(tmp_path, RECORDS)
        Path(idx).write_text("0\t0\n" + line)
        with pytest.raises(DamagedError, match="line 2"):
            recordio.MXIndexedRecordIO(idx, rec, "r")

    def test_an_index_of_another_file(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS)
        Path(idx).write_text("0\t4\n1\t999999999999\n2\t40\n")
        reader = recordio.MXIndexedRecordIO(idx, rec, "r")
        for key in range(3):
            with pytest.raises(DamagedError):
                reader.read_idx(key)

    def test_missing_files(self, tmp_path: Path) -> None:
        idx, rec = write(tmp_path, RECORDS)
        with pytest.raises(FileNotFoundError):
            recordio.MXRecordIO(tmp_path / "none.rec", "r")
        with pytest.raises(FileNotFoundError):
            recordio.MXIndexedRecordIO(tmp_path / "none.idx", rec, "r")


class TestSharing:
    def test_threads(self, tmp_path: Path) -> None:
        records = [bytes([number % 251]) * (number % 97) for number in range(500)]
        reader = recordio.MXIndexedRecordIO(*write(tmp_path, records), "r")
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(reader.read_idx, list(range(500)) * 4)) == records * 4

    def test_threads_that_write(self, tmp_path: Path) -> None:
        writer = recordio.MXRecordIO(tmp_path / "a.rec", "w")
        records = [bytes([number % 251]) * (number % 97) for number in range(300)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(writer.write, records))
        writer.close()
        reader = recordio.MXRecordIO(tmp_path / "a.rec", "r")
        assert sorted(iter(reader.read, None)) == sorted(records)

    def test_a_forked_process(self, tmp_path: Path) -> None:
        reader = recordio.MXIndexedRecordIO(*write(tmp_path, RECORDS), "r")
        writer = recordio.MXRecordIO(tmp_path / "b.rec", "w")
        child = os.fork()
        if child == 0:
            fine = reader.read_idx(4) == RECORDS[4] and reader.read() == RECORDS[5]
            try:
                writer.write(b"")
            except RuntimeError:
                os._exit(0 if fine else 1)
            os._exit(2)
        assert reader.read_idx(3) == RECORDS[3]
        assert os.waitpid(child, 0)[1] == 0

    def test_pickling(self, tmp_path: Path) -> None:
        reader = recordio.MXIndexedRecordIO(*write(tmp_path, RECORDS), "r")
        reader.seek(3)
        copy = pickle.loads(pickle.dumps(reader))
        assert copy.read() == RECORDS[0]
        assert copy.read_idx(4) == RECORDS[4]
        assert reader.read() == RECORDS[3]  # which goes on as it was
        writer = recordio.MXRecordIO(tmp_path / "b.rec", "w")
        with pytest.raises(TypeError, match="open for writing"):
            pickle.dumps(writer)


class TestImageRecords:
    def test_golden_bytes(self) -> None:
        one = recordio.pack(recordio.IRHeader(0, 4.0, 2574, 0), b"IMG")
        assert one.hex() == "00000000000080400e0a0000000000000000000000000000494d47"
        two = recordio.pack(recordio.IRHeader(0, [2, 3], 2, 0), b"IMG")
        assert two.hex() == "0200000000000000020000000000000000000000000000000000004000004040494d47"

    @pytest.mark.parametrize(
        ("label", "flag", "expected"),
        [
            (3, 0, 3.0),
            (True, 0, 1.0),
            (16777217, 0, 16777216.0),
            (1e40, 0, float("inf")),
            ([], 0, 0.0),
            ([1, 2], 2, [1, 2]),
            (np.array([[1, 2], [3, 4]]), 4, [1, 2, 3, 4]),
            (np.array(7.0), 1, [7]),
        ],
    )
    def test_labels(self, label: Any, flag: int, expected: Any) -> None:
        header, image = recordio.unpack(recordio.pack((9, label, 5, 6), b"xyz"))
        assert (header.flag, header.id, header.id2, image) == (flag, 5, 6, b"xyz")
        assert np.array_equal(header.label, expected)

    def test_how_a_header_looks(self) -> None:
        header = recordio.IRHeader(0, 14.0, 20129312, 0)
        assert repr(header) == "HEADER(flag=0, label=14.0, id=20129312, id2=0)"
        assert pickle.loads(pickle.dumps(header)) == header

    def test_an_id_that_is_none(self) -> None:
        with pytest.raises(struct.error):
            recordio.pack((0, 1, -1, 0), b"")

    @pytest.mark.parametrize("record", [b"", bytes(23), struct.pack("<IfQQ", 1 << 31, 0, 0, 0) + bytes(100)])
    def test_records_that_are_too_short(self, record: bytes) -> None:
        with pytest.raises(ValueError, match="an image record"):
            recordio.unpack(record)

    def test_pixels(self) -> None:
        image = picture(3)[:, :, ::-1]  # BGR
        header, found = recordio.unpack_img(recordio.pack_img((0, 1, 2, 3), image, 9, ".png"))
        assert found is not None
        assert np.array_equal(found, image)
        assert (header.label, header.id) == (1.0, 2)
        stored = recordio.unpack(recordio.pack_img((0, 1, 2, 3), image))[1]
        assert stored == jpeg(3)
        for flag, shape in ((1, (12, 16, 3)), (0, (12, 16)), (-1, (12, 16, 3))):
            _, found = recordio.unpack_img(recordio.pack((0, 1, 2, 3), stored), flag)
            assert found is not None
            assert found.shape == shape

    def test_not_an_image(self) -> None:
        assert recordio.unpack_img(recordio.pack((0, 1, 2, 3), b"no image"))[1] is None
        with pytest.raises(ImageError):
            recordio.pack_img((0, 1, 2, 3), np.zeros((4, 4), np.float64))
        with pytest.raises(ValueError, match="xyz"):
            recordio.pack_img((0, 1, 2, 3), picture(1), img_fmt=".xyz")
        with pytest.raises(ValueError, match="flag"):
            recordio.unpack_img(recordio.pack((0, 1, 2, 3), jpeg(1)), 16)
