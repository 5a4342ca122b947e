"""dump: any sequence of bytes into files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bushel.compat.ffrecord import FileReader
from bushel.compat.ffrecord.utils import dump


class Unpicklable(list[bytes]):
    def __reduce__(self) -> str:
        raise TypeError("this dataset cannot be pickled")


def test_the_files_of_the_original(golden: Path, tmp_path: Path) -> None:
    old = golden / "ffrecord-1.4.0/several-files/data"
    reader = FileReader(old)
    records = [one.tobytes() for one in reader.read(range(reader.n))]
    dump(records, tmp_path / "new", 3)
    names = [path.name for path in sorted((tmp_path / "new").glob("*.ffr"))]
    assert names == ["PART_00000.ffr", "PART_00001.ffr", "PART_00002.ffr"]
    for name in names:
        assert (tmp_path / "new" / name).read_bytes() == (old / name).read_bytes()


def test_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump([b"a", b"b"], str(tmp_path / "x.ffr"), 1, verbose=True)
    assert [one.tobytes() for one in FileReader(tmp_path / "x.ffr").read([0, 1])] == [b"a", b"b"]
    assert capsys.readouterr().out == f"{tmp_path}/x.ffr: 2 samples\n"


def test_a_dataset_need_not_be_picklable(tmp_path: Path) -> None:
    dump(Unpicklable([b"a", b"bb", b"c", b"d", b"e"]), tmp_path, 2)
    assert FileReader(tmp_path).get_offsets(0).tolist() == [48, 49, 51, 52]


def test_fewer_records_than_files(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Split into 3 files rather than 4 files"):
        dump([b"a", b"b", b"c"], tmp_path / "three", 4)
    with pytest.warns(UserWarning, match="Split into 1 files rather than 2 files"):
        dump([], tmp_path / "none", 2)
    assert FileReader(tmp_path / "none").n == 0


def test_an_error_in_another_process_comes_out(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="str"):
        dump([b"a", b"b", b"c", "text"], tmp_path, 2)  # type: ignore[list-item]
    assert [path.name for path in tmp_path.glob("*.ffr")] == ["PART_00000.ffr"]
    with pytest.raises(ValueError, match="not 0"):
        dump([b"a"], tmp_path, 0)
