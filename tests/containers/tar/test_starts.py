"""Where samples begin, by indexes of Energon: used to scan in parts, and never trusted."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from bushel.containers.tar import scan
from bushel.containers.tar.samples import Members, Table, tabulate
from bushel.containers.tar.scan import read_table
from bushel.errors import FormatError
from bushel.kernels import MappedFile
from bushel.storage.fileobject import FileObject

_SAMPLES = 24


def _write(path: Path, global_record: bool = False, long: bool = False) -> np.ndarray:
    """Write an archive of two files a sample, and its index."""
    starts = []
    headers = {"comment": "for the whole archive"} if global_record else {}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers=headers) as archive:
        for number in range(_SAMPLES):
            for end, size in (("cls", 1), ("bin", 90_000 + 700 * number)):
                name = f"{'long' * 40 if long else 'a'}{number:03}.{end}"
                info = tarfile.TarInfo(name)
                info.size = size
                if end == "cls":
                    starts.append(archive.offset)
                archive.addfile(info, io.BytesIO(bytes([48 + number % 10]) * size))
        starts.append(archive.offset)
    made = np.array(starts, np.int64)
    _put(path, made)
    return made


def _put(path: Path, starts: np.ndarray) -> None:
    path.with_name(path.name + ".idx").write_bytes(starts.astype("<u8").tobytes())


def _members(path: Path) -> Members:
    file = MappedFile(str(path))
    return scan.regular(scan.scan(file), file.path)


def _is_of(table: Table, path: Path) -> bool:
    """Return whether a table is that of an archive without its index."""
    plain = tabulate(_members(path), None, "")
    fields = [own for made in (table, plain) for own in made.columns.values()]
    pairs = [(one.offset, one.length) for one in fields[: len(table.columns)]]
    wanted = [(one.offset, one.length) for one in fields[len(table.columns) :]]
    return (
        list(table.columns) == list(plain.columns)
        and [table.keys[row] for row in range(table.samples)] == [plain.keys[row] for row in range(plain.samples)]
        and np.array_equal(np.array(pairs), np.array(wanted))
    )


@pytest.fixture
def energon(golden: Path, tmp_path: Path) -> Path:
    return shutil.copytree(golden / "energon-7.4.1" / "prepared" / "data", tmp_path / "energon")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets, for each archive scanned in parts, whether that gave its members."""
    found, own = [], scan.scan_parts

    def noted(file: FileObject, starts: np.ndarray) -> Members | None:
        members = own(file, starts)
        found.append(members is not None)
        return members

    monkeypatch.setattr(scan, "scan_parts", noted)
    return found


def test_what_energon_wrote_is_where_samples_begin(energon: Path, caplog: pytest.LogCaptureFixture) -> None:
    for archive in sorted((energon / "parts").glob("*.tar")):
        size = archive.stat().st_size
        starts = scan.recorded_starts(archive, size)
        assert starts is not None
        assert _is_of(read_table(archive, MappedFile(str(archive)), None)[0], archive)
        members = _members(archive)
        first = [row == 0 or members.names[row][:6] != members.names[row - 1][:6] for row in range(len(members.size))]
        assert members.header[first].tolist() == starts[:-1].tolist()
    assert not caplog.messages


@pytest.mark.parametrize("long", [False, True])
def test_parts_give_the_members_of_a_scan(tmp_path: Path, calls: list[bool], long: bool) -> None:
    path = tmp_path / "a.tar"
    _write(path, long=long)
    assert _is_of(read_table(path, FileObject(path), None)[0], path)
    assert calls == [True]


def test_records_for_the_whole_archive_are_read_from_its_front(tmp_path: Path, calls: list[bool]) -> None:
    path = tmp_path / "a.tar"
    _write(path, global_record=True)
    assert _is_of(read_table(path, FileObject(path), None)[0], path)
    assert calls == [False]


@pytest.mark.parametrize("piece", [5, 1 << 16])
@pytest.mark.parametrize("stale", ["moved", "inside", "more", "fewer", "odd", "backwards", "outside", "empty", "text"])
def test_a_wrong_index_gives_the_members_of_the_archive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, stale: str, piece: int
) -> None:
    monkeypatch.setattr(scan, "_PIECE", piece)
    path = tmp_path / "a.tar"
    right = _write(path)
    wrong = {
        "moved": right + np.append(np.full(_SAMPLES, 512), 0),
        "inside": right + 2048,  # offsets in the data of the second file of a sample
        "more": np.insert(right, 1, right[0] + 2048),
        "fewer": right[: _SAMPLES // 2],
        "odd": right + 1,
        "backwards": right[::-1],
        "outside": right + (1 << 40),
        "empty": right[:0],
    }
    if stale == "text":
        path.with_name("a.tar.idx").write_text("v1.2 24\n")
    else:
        _put(path, wrong[stale])
    for file in (MappedFile(str(path)), FileObject(path)):
        assert _is_of(read_table(path, file, None)[0], path)
    if stale in ("odd", "moved", "inside", "more", "fewer", "empty"):
        assert not caplog.text  # they may belong to the archive
    else:
        assert "a.tar.idx" in caplog.text
        assert "energon prepare" in caplog.text


def test_damage_is_found_with_an_index(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    starts = _write(path)
    data = bytearray(path.read_bytes())
    data[int(starts[_SAMPLES // 2])] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match="header checksum is wrong"):
        read_table(path, FileObject(path), None)
    data[int(starts[_SAMPLES // 2])] ^= 1
    path.write_bytes(data[: int(starts[-3])])
    _put(path, starts[:-2])
    with pytest.raises(FormatError, match="without its two empty blocks"):
        read_table(path, FileObject(path), None)
