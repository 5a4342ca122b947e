"""FileWriter and FileReader: the original's bytes, and none of its accidents."""

from __future__ import annotations

import gc
import hashlib
import json
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.compat.ffrecord import (
    DamagedFileError,
    DamagedRecordError,
    FileReader,
    FileWriter,
    RecordIndexError,
    checkFsAlign,
    pack_folder,
)
from bushel.errors import CorruptError, FormatError, SpecError

GOLDEN = bytes.fromhex(
    "70bf43e4" "0300000000000000" "86a61036" "00000000" "7f895408"
    "3000000000000000" "3500000000000000" "3500000000000000" "68656c6c6f" "000102"
)  # fmt: skip


def written(path: Path, records: list[bytes]) -> Path:
    with FileWriter(path, len(records)) as writer:
        for record in records:
            writer.write_one(record)
    return path


def some(count: int) -> list[bytes]:
    return [random.Random(number).randbytes(number * 7 % 300) for number in range(count)]


class TestWriting:
    def test_the_bytes_of_the_original(self, tmp_path: Path) -> None:
        path = tmp_path / "x.ffr"
        writer = FileWriter(path, 3)
        assert (writer.n, writer.count) == (3, 0)
        for record in (b"hello", bytearray(), memoryview(b"\0\1\2")):
            writer.write_one(record)
        assert writer.count == 3
        assert not path.exists()
        writer.close()
        writer.close()
        assert path.read_bytes() == GOLDEN
        assert [path.name for path in tmp_path.iterdir()] == ["x.ffr"]

    def test_no_records(self, tmp_path: Path) -> None:
        assert written(tmp_path / "x.ffr", []).read_bytes() == bytes.fromhex("69df2265" + "00" * 8)

    @pytest.mark.parametrize("name", ["golden-56-bytes", "none", "only-empty-samples", "plain"])
    def test_golden_files_are_written_again(self, golden: Path, tmp_path: Path, name: str) -> None:
        old = golden / "ffrecord-1.4.0" / name / "data/x.ffr"
        with FileReader(old) as reader:
            written(tmp_path / "x.ffr", [one.tobytes() for one in reader.read(range(reader.n))])
        assert (tmp_path / "x.ffr").read_bytes() == old.read_bytes()

    def test_all_bytes_of_any_buffer(self, tmp_path: Path) -> None:
        wide, grid = np.arange(3), np.arange(12, dtype=np.uint8).reshape(3, 4)
        values: list[Any] = [wide, grid, grid.T, memoryview(bytes(range(9)))[::2], np.zeros((0, 4)), np.float32(1.5)]
        with FileWriter(tmp_path / "x.ffr", len(values)) as writer:
            for value in values:
                writer.write_one(value)
        with FileReader(tmp_path / "x.ffr") as reader:
            stored = [one.tobytes() for one in reader.read(range(reader.n))]
        assert stored[:2] == [wide.tobytes(), grid.tobytes()]
        assert stored[2:] == [grid.T.tobytes(), bytes([0, 2, 4, 6, 8]), b"", np.float32(1.5).tobytes()]

    def test_too_many(self, tmp_path: Path) -> None:
        writer = FileWriter(tmp_path / "x.ffr", 1)
        writer.write_one(b"a")
        with pytest.raises(RuntimeError, match="Exceed total number of samples"):
            writer.write_one(b"b")
        writer.close()
        assert FileReader(tmp_path / "x.ffr").read_one(0).tobytes() == b"a"
        with pytest.raises(RuntimeError, match="closed"):
            writer.write_one(b"c")

    def test_too_few_leave_nothing(self, tmp_path: Path) -> None:
        writer = FileWriter(tmp_path / "x.ffr", 2)
        writer.write_one(b"a")
        with pytest.raises(RuntimeError, match="to have 2 samples, and 1 were written"):
            writer.close()
        assert list(tmp_path.rglob("*")) == []
        writer.close()

    def test_the_error_in_the_body_is_the_one_that_comes_out(self, tmp_path: Path) -> None:
        def fail() -> None:
            with FileWriter(tmp_path / "x.ffr", 2) as writer:
                writer.write_one(b"a")
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            fail()
        assert list(tmp_path.rglob("*")) == []

    def test_who_forgets_to_close_gets_a_whole_file_or_a_warning(self, tmp_path: Path) -> None:
        FileWriter(tmp_path / "whole.ffr", 1).write_one(b"a")
        gc.collect()
        assert FileReader(tmp_path / "whole.ffr").n == 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            FileWriter(tmp_path / "half.ffr", 2).write_one(b"a")
            gc.collect()
        assert [warning.category for warning in caught] == [ResourceWarning]
        assert "it was not closed" in str(caught[0].message)
        assert not (tmp_path / "half.ffr").exists()

    @pytest.mark.parametrize(("n", "files"), [(1, ["x.ffr"]), (2, [])])
    def test_the_end_of_the_process_is_no_abort(self, tmp_path: Path, n: int, files: list[str]) -> None:
        code = f"from bushel.compat.ffrecord import FileWriter\nw = FileWriter('x.ffr', {n})\nw.write_one(b'a')"
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0
        assert ("it was not closed" in done.stderr) == (not files)
        assert [path.name for path in tmp_path.glob("*.ffr")] == files

    def test_a_file_that_is_there_is_replaced(self, tmp_path: Path) -> None:
        path = written(tmp_path / "x.ffr", [b"old", b"older"])
        abandoned = FileWriter(path, 3)
        abandoned.write_one(b"half")
        with pytest.raises(bushel.errors.InUseError, match="opened at .*test_fileio"):
            FileWriter(path, 3)
        with pytest.raises(RuntimeError):
            abandoned.close()
        assert written(path, [b"hello", b"", b"\0\1\2"]).read_bytes() == GOLDEN
        assert FileReader(path).n == 3

    def test_wrong_use(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"ends in \.ffr"):
            FileWriter(tmp_path / "x.bin", 1)
        with pytest.raises(TypeError, match="text or a path"):
            FileWriter(3, 1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not -1"):
            FileWriter(tmp_path / "x.ffr", -1)
        with pytest.raises(RuntimeError, match="no such folder"):
            FileWriter(tmp_path / "no" / "x.ffr", -1)
        with FileWriter(tmp_path / "x.ffr", 1) as writer:
            with pytest.raises(TypeError):
                writer.write_one("text")  # type: ignore[arg-type]
            with pytest.raises(SpecError, match="packed folder"):
                writer.write_one(b"piouhjgbr and more")
            writer.write_one(b"fine")

    def test_a_name_without_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with FileWriter("x.ffr", 1) as writer:
            writer.write_one(b"a")
        assert FileReader("x.ffr").read_one(0).tobytes() == b"a"


class TestReading:
    def test_golden_files(self, golden: Path) -> None:
        seen = 0
        for manifest in sorted((golden / "ffrecord-1.4.0").glob("*/manifest.json")):
            noted = json.loads(manifest.read_text())
            if noted.get("packed_folder"):
                continue
            seen += 1
            with FileReader(manifest.parent / noted["open"]) as reader:
                records = reader.read(range(reader.n))
                reader.validate()
                assert [hashlib.sha256(record.tobytes()).hexdigest() for record in records] == [
                    sample["fields"]["data"]["sha256"] for sample in noted["samples"]
                ]
        assert seen == 6

    def test_any_order_any_number(self, tmp_path: Path) -> None:
        records = some(50)
        with FileReader(written(tmp_path / "x.ffr", records)) as reader:
            assert reader.n == 50
            assert reader.fnames == [str(tmp_path / "x.ffr")]
            assert reader.read([]) == []
            for indices in ([3, 6, 0, 10], (49, 49, 0), np.array([7]), np.arange(5, dtype=np.uint16), [5] * 5000):
                found = reader.read(indices)
                assert all(one.dtype == np.uint8 and one.ndim == 1 and one.flags.writeable for one in found)
                assert [one.tobytes() for one in found] == [records[index] for index in indices]
            assert [reader.read_one(index).tobytes() for index in range(50)] == records
            assert reader.read_one(0).flags.writeable

    def test_offsets_and_checksums(self, tmp_path: Path) -> None:
        (tmp_path / "x.ffr").write_bytes(GOLDEN)
        reader = FileReader(tmp_path / "x.ffr")
        assert reader.get_offsets(0).tolist() == [48, 53, 53, 56]
        assert reader.get_offsets(0).dtype == np.int64
        assert reader.get_checksums(0).tolist() == [zlib.crc32(b"hello"), 0, zlib.crc32(b"\0\1\2")]
        assert reader.get_checksums(0).dtype == np.uint32
        with pytest.raises(IndexError):
            reader.get_offsets(1)

    def test_several_files_and_folders(self, tmp_path: Path) -> None:
        for name, records in (("b", [b"3", b"4"]), ("a", [b"1", b"22"]), ("c", [])):
            written(tmp_path / f"{name}.ffr", records)
        (tmp_path / "notes.txt").write_text("no record")
        folder = FileReader(str(tmp_path))
        assert [Path(name).name for name in folder.fnames] == ["a.ffr", "b.ffr", "c.ffr"]
        assert [one.tobytes() for one in folder.read(range(4))] == [b"1", b"22", b"3", b"4"]
        assert folder.get_offsets(1).tolist() == [36, 37, 38]
        listed = FileReader([tmp_path / "b.ffr", str(tmp_path / "a.ffr")])
        assert [one.tobytes() for one in listed.read([3, 0])] == [b"22", b"3"]

    def test_wrong_indices(self, tmp_path: Path) -> None:
        reader = FileReader(written(tmp_path / "x.ffr", some(9)))
        for wrong in (9, -1, 2**40, -(2**40)):
            with pytest.raises(RecordIndexError, match="0 to 8"):
                reader.read([1, wrong])
            with pytest.raises(IndexError):
                reader.read_one(wrong)
        assert issubclass(RecordIndexError, RuntimeError)
        assert [bytes(one) for one in reader.read([True])] == [
            bytes(reader.read_one(1))
        ]  # the number 1, as in a list of numbers
        for odd in ([1.5], [[1, 2]], np.array([True]), ["1"], [0, [0]]):
            with pytest.raises(TypeError):
                reader.read(odd)  # type: ignore[arg-type]

    def test_a_damaged_record(self, tmp_path: Path) -> None:
        path = written(tmp_path / "x.ffr", [b"one", b"two", b"three"])
        data = bytearray(path.read_bytes())
        data[-6] ^= 1  # the last byte of "two"
        path.write_bytes(data)
        with FileReader(path) as reader:
            with pytest.raises(DamagedRecordError, match="sample '1'") as caught:
                reader.read([0, 1, 2])
            assert isinstance(caught.value, (CorruptError, RuntimeError))
            assert caught.value.offset == 51
            assert caught.value.file == str(path)
            assert isinstance(pickle.loads(pickle.dumps(caught.value)), DamagedRecordError)
            with pytest.raises(RuntimeError):
                reader.read_one(1)
            assert [one.tobytes() for one in reader.read([0, 2])] == [b"one", b"three"]
            reader.validate()
        assert FileReader(path, check_data=False).read_one(1).tobytes() == b"twn"

    @pytest.mark.parametrize("data", [b"", b"abc", GOLDEN[:40], bytes(1) + GOLDEN[1:], bytes(56)])
    def test_a_damaged_header(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "x.ffr").write_bytes(data)
        for check in (True, False):
            with pytest.raises(DamagedFileError) as caught:
                FileReader(tmp_path / "x.ffr", check)
            assert isinstance(caught.value, FormatError)
            assert isinstance(caught.value, RuntimeError)

    def test_validate_finds_what_was_damaged_meanwhile(self, tmp_path: Path) -> None:
        path = written(tmp_path / "x.ffr", some(4))
        reader = FileReader(path)
        reader.validate()
        with open(path, "r+b") as file:
            file.seek(13)
            file.write(b"\xff")
        with pytest.raises(RuntimeError, match="should have the CRC"):
            reader.validate()

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            FileReader(tmp_path / "x.ffr")
        with pytest.raises(FileNotFoundError):
            FileReader(tmp_path)
        with pytest.raises(TypeError):
            FileReader(7)  # type: ignore[arg-type]

    def test_a_closed_reader(self, tmp_path: Path) -> None:
        with FileReader(written(tmp_path / "x.ffr", [b"a"])) as reader:
            pass
        reader.close()
        for call in (lambda: reader.read([0]), lambda: reader.read_one(0)):
            with pytest.raises(RuntimeError, match="closed"):
                call()

    def test_records_of_packed_folders_and_of_maps_are_records(self, tmp_path: Path) -> None:
        bushel.pack([{"__key__": "a/1", "data": b"A"}], tmp_path / "folder.ffr")
        bushel.pack([{"__key__": "a/1", "image": b"A", "label": 1}], tmp_path / "maps.ffr")
        folder, maps = FileReader(tmp_path / "folder.ffr"), FileReader(tmp_path / "maps.ffr")
        assert (folder.n, maps.n) == (2, 1)
        assert folder.read_one(0).tobytes() == b"A"
        assert folder.read_one(1).tobytes().startswith(b"piouhjgbr")
        assert b"__key__" in maps.read_one(0).tobytes()

    def test_nothing_is_left_beside_a_file_that_is_read(self, tmp_path: Path) -> None:
        (tmp_path / "x.ffr").write_bytes(GOLDEN)
        FileReader(tmp_path / "x.ffr").read([0, 1, 2])
        assert [path.name for path in tmp_path.iterdir()] == ["x.ffr"]

    def test_no_other_file_system_is_known(self, tmp_path: Path) -> None:
        with open(tmp_path / "x", "wb") as file:
            assert checkFsAlign(file.fileno()) is False
        with pytest.raises(OSError, match="Bad file"):
            checkFsAlign(9999)


def _sizes(reader: FileReader, indices: list[int]) -> list[int]:
    return [len(one) for one in reader.read(indices)]


class TestConcurrency:
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_processes_go_on_with_a_reader_that_was_used(self, tmp_path: Path, method: str) -> None:
        records = some(40)
        reader = FileReader(written(tmp_path / "x.ffr", records))
        wanted = [5, 39, 5, 0]
        expected = [len(records[index]) for index in wanted]
        assert _sizes(reader, wanted) == expected
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.starmap(_sizes, [(reader, wanted)] * 4) == [expected] * 4

    def test_a_forked_child_reads(self, tmp_path: Path) -> None:
        reader = FileReader(written(tmp_path / "x.ffr", some(40)))
        expected = _sizes(reader, list(range(40)))
        child = os.fork()
        if child == 0:
            os._exit(0 if _sizes(reader, list(range(40))) == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_a_forked_child_finishes_no_file_of_its_parent(self, tmp_path: Path) -> None:
        writer = FileWriter(tmp_path / "x.ffr", 2)
        writer.write_one(b"a")
        child = os.fork()
        if child == 0:
            del writer
            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        writer.write_one(b"b")
        writer.close()
        assert [one.tobytes() for one in FileReader(tmp_path / "x.ffr").read([0, 1])] == [b"a", b"b"]

    def test_a_pickled_copy_opens_the_files_again(self, tmp_path: Path) -> None:
        reader = FileReader(written(tmp_path / "x.ffr", some(40)), check_data=False)
        data = pickle.dumps(reader)
        assert len(data) < 400
        copy = pickle.loads(data)
        assert (copy.n, copy.check_data) == (40, False)
        assert copy.read_one(39).tobytes() == reader.read_one(39).tobytes()

    def test_threads_share_a_reader(self, tmp_path: Path) -> None:
        records = some(300)
        reader = FileReader(written(tmp_path / "x.ffr", records))

        def check(seed: int) -> bool:
            indices = random.Random(seed).choices(range(300), k=64)
            return [one.tobytes() for one in reader.read(indices)] == [records[index] for index in indices]

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(check, range(64)))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_file_that_somebody_else_writes_stays(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "x.ffr"
    with FileWriter(path, 1) as own:
        own.write_one(b"old")
    before = path.read_bytes()
    (tmp_path / "in").mkdir()
    with bushel.Writer(path, {"data": "bytes"}, mode=mode) as other:
        for attempt in (lambda: FileWriter(path, 1), lambda: pack_folder(tmp_path / "in", path)):
            with pytest.raises(bushel.errors.InUseError):
                attempt()
            assert path.read_bytes() == before
        other.append({"data": b"new"})
    assert FileReader(path).n == (2 if mode == "append" else 1)


def test_what_a_writer_replaces(tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    for old in (b"no records", b"", None):
        if old is not None:
            path.write_bytes(old)
        writer = FileWriter(path, 1)
        assert not path.exists()
        with pytest.raises(bushel.errors.InUseError):
            FileWriter(path, 1)
        writer.write_one(b"a")
        writer.close()
        assert FileReader(path).read_one(0).tobytes() == b"a"
        assert [each.name for each in tmp_path.iterdir()] == ["x.ffr"]
    link = tmp_path / "link.ffr"
    link.symlink_to("x.ffr")
    with FileWriter(link, 1) as writer:
        writer.write_one(b"b")
    assert (link.is_symlink(), FileReader(path).read_one(0).tobytes()) == (True, b"b")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link.ffr", "x.ffr"]
