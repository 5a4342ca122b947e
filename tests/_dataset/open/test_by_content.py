"""Files whose names say nothing are recognised by their first bytes."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from tests.containers.tfrecords import example, framed, int_list

import bushel

RECORDS = framed([example({"i": int_list(3)})])


def nameless(folder: Path, *names: str, data: bytes = RECORDS) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("names", [("train-00000-of-00002", "train-00001-of-00002"), ("part-00000", "part-00001")])
def test_numbered_files_of_tensorflow_and_spark(names: tuple[str, ...], tmp_path: Path) -> None:
    folder = nameless(tmp_path / "data", *names)
    nameless(folder, "_SUCCESS", ".part-00000.crc", data=b"")
    nameless(folder, "README.md", "LICENSE", data=b"of the data")
    for source in (folder, f"{folder}/*-0000*", [folder / name for name in names]):
        found = bushel.open(source)
        assert (len(found), found.info.container, found[1]["i"]) == (2, "tfrecord", 3)
    assert len(bushel.open(folder / names[0])) == 1
    assert not bushel.verify(folder).problems


def test_another_suffix(tmp_path: Path) -> None:
    assert bushel.open(nameless(tmp_path / "data", "a.tfrec", "b.tfrec")).info.container == "tfrecord"


@pytest.mark.parametrize("other", [b"\0" * 16, RECORDS[:11], RECORDS[:8] + b"\0" + RECORDS[9:], RECORDS[:14], b""])
def test_other_bytes_are_not_taken_for_records(other: bytes, tmp_path: Path) -> None:
    folder = nameless(tmp_path / "data", "train-00000-of-00002", data=other)
    with pytest.raises(bushel.errors.FormatError, match="does not belong to any container"):
        bushel.open(folder / "train-00000-of-00002")
    with pytest.raises(bushel.errors.FormatError, match="pass container='tfrecord'"):
        bushel.open(folder)


def test_one_file_of_another_kind(tmp_path: Path) -> None:
    folder = nameless(nameless(tmp_path / "data", "x-00000-of-00002"), "x-00001-of-00002", data=b"text" * 9)
    with pytest.raises(bushel.errors.FormatError, match="if these are tfrecord files, pass container='tfrecord'"):
        bushel.open(folder)


def test_compressed_records_are_named_in_the_hint(tmp_path: Path) -> None:
    folder = nameless(tmp_path / "data", "x-00000-of-00001", data=gzip.compress(RECORDS))
    with pytest.raises(bushel.errors.FormatError, match="pass container='tfrecord'"):
        bushel.open(folder)
    assert len(bushel.open(folder, container="tfrecord")) == 1


@pytest.mark.parametrize(("container", "suffix"), [("parquet", ".parquet"), ("arrow", ".arrow")])
def test_parquet_and_arrow(container: str, suffix: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table, path = pyarrow.table({"x": [1, 2, 3]}), tmp_path / f"x{suffix}"
    if container == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        with pyarrow.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    (tmp_path / "out").mkdir()
    shutil.move(path, tmp_path / "out/part-00000")
    for source in (tmp_path / "out", tmp_path / "out/part-00000"):
        found = bushel.open(source, container=container)
        assert (found.info.container, [one["x"] for one in bushel.open(source)]) == (container, [1, 2, 3])
