"""Tables stay bound to their files through copies, touches and archives, and are not used for files that changed."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.formats import each_format
from tests.integrity.small import flip, key, overwrite, reading, sample, write

import bushel
from bushel._dataset.open.binding import stamp_of
from bushel._dataset.open.tables import stored_table
from bushel._index.sidecar import load_index
from bushel.storage import open_file


def data_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and ".bushel" not in path.parts]


def cp(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)


def touch(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        os.utime(path)


def rsync(source: Path, target: Path) -> None:
    """`rsync -a` and `tar` keep times, some in whole seconds."""
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        os.utime(path, (int(path.stat().st_atime), int(path.stat().st_mtime)))


def rsync_without_times(source: Path, target: Path) -> None:
    shutil.copytree(source, target, copy_function=shutil.copyfile)


def untar(source: Path, target: Path) -> None:
    archive = target.with_suffix(".archive")
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(source, arcname=target.name)
    with tarfile.open(archive) as tar:
        tar.extractall(target.parent, filter="data")


def clone(source: Path, target: Path) -> None:
    """A checkout writes every file, sidecars first or last, with the time of now."""
    for path in sorted(source.rglob("*"), reverse=True):
        if path.is_file():
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


@each_format
@pytest.mark.parametrize("copy", [cp, touch, rsync, rsync_without_times, untar, clone])
def test_the_checksums_survive_copies(
    tmp_path: Path,
    container: str,
    generation: str | None,
    copy: Callable[[Path, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = write(tmp_path / "a", container, generation)  # type: ignore[arg-type]
    copy(folder, tmp_path / "b")
    dataset = reading(tmp_path / "b", index="memory")
    assert dataset.info.checksums
    assert bushel.verify(tmp_path / "b").problems == ()
    assert bushel.verify(tmp_path / "b").checksums_checked
    assert reading(tmp_path / "b").info.checksums  # notes the new times
    monkeypatch.setattr("bushel._dataset.open.binding.stamp_of", None)  # so now no file is read
    assert reading(tmp_path / "b", index="require").info.checksums
    for number in range(7):
        assert reading(tmp_path / "b")[number]["label"] == sample(number)["label"]


@each_format
def test_a_touched_dataset_is_not_indexed_again(tmp_path: Path, container: str, generation: str | None) -> None:
    folder = write(tmp_path / "a", container, generation)  # type: ignore[arg-type]
    before = {path: load_index(path).files for path in folder.rglob("*.safetensors")}
    for path in data_files(folder):
        os.utime(path, ns=(5, 5))
    bushel.index(folder)
    for path, files in before.items():
        found = load_index(path).files
        assert [(each.name, each.size, each.crc32) for each in found] == [
            (each.name, each.size, each.crc32) for each in files
        ]
        assert {each.mtime_ns for each in found} == {5}
        assert None not in {each.crc32 for each in found}


def test_times_that_cannot_be_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "a", "tar")
    for path in data_files(folder):
        os.utime(path, ns=(5, 5))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bushel._index.saving.save_index", refuse)
    for _ in range(2):
        dataset = reading(folder)
        assert dataset.info.checksums
        assert dataset[6]["label"] == sample(6)["label"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "tar")
    for path in data_files(folder):
        os.utime(path, ns=(5, 5))
    (folder / ".bushel").chmod(0o555)
    assert reading(folder).info.checksums


@pytest.mark.parametrize("container", ["tar", "recordio"])
@pytest.mark.parametrize("place", ["first", "last"])
def test_one_flipped_byte_in_the_first_or_last_block(tmp_path: Path, container: str, place: str) -> None:
    folder = write(tmp_path / "a", container, shard_samples=None)
    file = max(data_files(folder), key=lambda path: path.stat().st_size)
    shard = reading(folder).shards[0].shard
    size = file.stat().st_size
    flip(file, 100 if place == "first" else size - 100)
    table = stored_table(shard)
    assert table is not None
    assert table.fits, "the same time: the file is not read"
    os.utime(file, ns=(5, 5))
    table = stored_table(shard)
    assert table is not None
    assert not table.fits
    assert table.index.has_checksums
    with pytest.raises(bushel.errors.FormatError):
        bushel.open(folder, index="require")


def test_stamps_depend_on_size_and_blocks(tmp_path: Path) -> None:
    import zlib

    path = tmp_path / "x"
    for size in (0, 1, 4096, 8192, 8193, 100_000, (1 << 20) - 1, 1 << 20, 3_000_001):
        data = bytes(number * 7 % 251 for number in range(size))
        path.write_bytes(data)
        blocks = [data]
        if size > 8192:
            blocks = [data[:4096], data[-4096:]]
            if size >= 1 << 20:
                starts = [size * k // 7 // 4096 * 4096 for k in range(1, 7)]
                blocks[1:1] = [data[start : start + 4096] for start in starts]
        assert stamp_of(open_file(path)) == zlib.crc32(b"".join(blocks)), size


@pytest.mark.parametrize(
    ("name", "whole"), [("x.csv", True), ("x.jsonl", True), ("x.tar", False), ("x.tar.gz", False), ("x.csv.gz", False)]
)
def test_only_files_of_lines_are_hashed_whole(tmp_path: Path, name: str, *, whole: bool) -> None:
    stamps = set[int]()
    for middle in (b"a", b"b"):
        (tmp_path / name).write_bytes(bytes(50_000) + middle + bytes(50_000))
        stamps.add(stamp_of(open_file(tmp_path / name)))
    assert len(stamps) == (2 if whole else 1)


def test_what_a_stamp_cannot_see(tmp_path: Path) -> None:
    """A change in the middle of a large file, with the same size: only checksums find it."""
    with bushel.Writer(tmp_path / "x.tar", {"data": "bytes"}, sync=False) as writer:
        writer.append({"data": bytes(300_000)}, key="a")
    flip(tmp_path / "x.tar", 150_000)
    os.utime(tmp_path / "x.tar", ns=(5, 5))
    assert reading(tmp_path / "x.tar", index="require").info.checksums
    with pytest.raises(bushel.errors.CorruptError):
        reading(tmp_path / "x.tar", verify=True)[0]
    assert not bushel.verify(tmp_path / "x.tar").ok


# A table that does not fit


def changed(tmp_path: Path, container: str = "tar") -> tuple[Path, Path]:
    """A dataset of one shard of which one image was changed, with another time and another stamp."""
    folder = write(tmp_path / "data", container, shard_samples=None)
    dataset = reading(folder)
    file, offset = dataset.location(0, "image")
    dataset.close()
    overwrite(Path(file), offset + 200, b"changed", keep_time=False)
    os.utime(file, ns=(5, 5))
    return folder, Path(file)


@pytest.mark.parametrize("container", ["tar", "recordio", "gulp", "bag"])
def test_open_keeps_the_checksums_on_record(tmp_path: Path, container: str, caplog: pytest.LogCaptureFixture) -> None:
    folder, file = changed(tmp_path, container)
    before = {path: path.read_bytes() for path in folder.rglob("*.safetensors")}
    with caplog.at_level(logging.WARNING, "bushel"):
        dataset = reading(folder)
    assert not dataset.info.checksums
    assert len(dataset) == 7
    assert str(file.parent) in caplog.text
    assert "bushel verify" in caplog.text
    assert "bushel index --force" in caplog.text
    assert before == {path: path.read_bytes() for path in folder.rglob("*.safetensors")}


@pytest.mark.parametrize("container", ["tar", "recordio", "gulp", "bag"])
def test_index_refuses_other_checksums(tmp_path: Path, container: str) -> None:
    folder, file = changed(tmp_path, container)
    offset = int(reading(folder, index="memory").location(0, "image")[1])
    before = {path: path.read_bytes() for path in folder.rglob("*.safetensors")}
    with pytest.raises(bushel.errors.CorruptError, match="--force") as caught:
        bushel.index(folder)
    error = caught.value
    assert (error.key, error.field, error.file, error.offset) == (key(0), "image", str(file), offset)
    assert error.message.startswith("the data differ from the recorded checksums (values with other bytes: 1)")
    with pytest.raises(bushel.errors.FormatError, match="would lose their checksums"):
        bushel.index(folder, checksums=False)
    assert before == {path: path.read_bytes() for path in folder.rglob("*.safetensors")}
    bushel.index(folder, force=True)
    assert bushel.verify(folder).problems == ()
    assert bushel.verify(folder).checksums_checked


def test_index_takes_what_was_added(tmp_path: Path) -> None:
    write(tmp_path / "a", "tar", count=4, shard_samples=None)
    write(tmp_path / "b", "tar", count=6, shard_samples=None)
    file = tmp_path / "a" / "shard-000000.tar"
    file.write_bytes((tmp_path / "b" / "shard-000000.tar").read_bytes())
    assert len(reading(tmp_path / "a")) == 6
    assert len(bushel.index(tmp_path / "a")) == 6
    assert bushel.verify(tmp_path / "a").checksums_checked


def test_index_refuses_to_forget_samples(tmp_path: Path) -> None:
    write(tmp_path / "a", "tar", count=6, shard_samples=None)
    write(tmp_path / "b", "tar", count=4, shard_samples=None)
    file = tmp_path / "a" / "shard-000000.tar"
    file.write_bytes((tmp_path / "b" / "shard-000000.tar").read_bytes())
    with pytest.raises(bushel.errors.FormatError, match="checksums: 4"):
        bushel.index(tmp_path / "a")
    assert len(bushel.index(tmp_path / "a", force=True)) == 4


def test_declared_types_keep_the_checksums(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x.tar", {"txt": "utf8", "cls": "int"}, sync=False) as writer:
        writer.append({"txt": "a", "cls": 3}, key="a")
    assert reading(tmp_path / "x.tar", spec={"txt": "bytes", "cls": "int"}).info.checksums
    assert bushel.index(tmp_path / "x.tar", spec={"txt": "bytes", "cls": "int"}).info.checksums
    assert reading(tmp_path / "x.tar")[0]["txt"] == b"a"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_an_edit_in_the_middle_of_a_large_file_of_lines_is_found(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    rows = [f"{number:07}" for number in range(300_000)]
    lines = ["n", *rows] if suffix == "csv" else [f'{{"n": "{row}"}}' for row in rows]
    path.write_text("\n".join(lines))
    assert bushel.open(path)[150_001]["n"] in (150_001, "0150001")
    data = path.read_bytes()
    os.utime(path, ns=(1, 1))
    assert bushel.open(path).shards[0].stored  # it was touched only: the index is used as before
    path.write_bytes(data.replace(b"0150001", b"0999999"))
    assert bushel.open(path)[150_001]["n"] in (999_999, "0999999")
