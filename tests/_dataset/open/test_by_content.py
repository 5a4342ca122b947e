"""Files whose names say nothing are recognised by their first bytes."""

from __future__ import annotations

import gzip
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.containers.tfrecords import example, framed, int_list
from tests.paths import ROOT

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


def _file_of(container: str, folder: Path) -> Path:
    """Write a file of two samples of a container, with its own suffix if that matters."""
    path = folder / f"data.{container}"
    if container in ("bag", "tar", "ffrecord", "recordio"):
        with bushel.Writer(folder / "written", {"n": "int"}, container=container) as writer:
            writer.append({"n": 0}, key="a")
            writer.append({"n": 1}, key="b")
        names = sorted((folder / "written").glob("*.*"))
        return next(name for name in names if name.suffix in SUFFIXES)
    if container in ("parquet", "arrow", "stream"):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        table = pa.table({"n": [0, 1]})
        new = {"arrow": pa.ipc.new_file, "stream": pa.ipc.new_stream}.get(container)
        if new is None:
            pq.write_table(table, path)
        else:
            with new(str(path), table.schema) as writer:
                writer.write_table(table)
    elif container == "npy":
        with path.open("wb") as file:
            np.save(file, np.arange(2))
    elif container == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "x")
            archive.writestr("b.txt", "y")
    elif container == "arrayrecord":
        pytest.importorskip("array_record")
        return next(ROOT.glob("tests/golden/foreign/**/*.array_record"))
    else:
        texts = {"jsonl": b'{"n": 0}\n{"n": 1}\n', "csv": b"n\n0\n1\n", "tfrecord": RECORDS * 2}
        path.write_bytes(texts[container])
    return path


SUFFIXES = (".bag", ".tar", ".ffr", ".rec")
ONE_FILE = ["bag", "tar", "ffrecord", "recordio", "parquet", "arrow", "stream", "arrayrecord"]
ONE_FILE += ["zip", "npy", "tfrecord", "jsonl", "csv"]


@pytest.mark.parametrize("name", ["x.stream", "x", "part-00000", "x.txt", "x.jpg"])
@pytest.mark.parametrize("container", ONE_FILE)
def test_the_container_of_the_caller_wins_over_a_name_that_does_not_tell(
    container: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    path = shutil.copy(_file_of(container, tmp_path / "made"), tmp_path / name)
    named = "arrow" if container == "stream" else container
    ds = bushel.open(path, container=named, index="memory")
    assert (ds.info.container, len(ds) >= 2, len(ds[1]) >= 2) == (named, True, True)


@pytest.mark.parametrize("container", ["gulp", "megatron"])
def test_a_container_of_two_files_needs_their_names(container: str, tmp_path: Path) -> None:
    path = nameless(tmp_path, "x.stream") / "x.stream"
    with pytest.raises(bushel.errors.FormatError, match="2 files, which are found by their names"):
        bushel.open(path, container=container)


@pytest.mark.parametrize("container", ["parquet", "arrow", "tar", "zip", "npy", "tfrecord", "recordio"])
def test_a_wrong_word_of_the_caller_is_found_by_the_container(container: str, tmp_path: Path) -> None:
    path = nameless(tmp_path, "x.stream", data=b"text of a person, " * 99) / "x.stream"
    with pytest.raises(bushel.errors.FormatError, match=r"x\.stream"):
        bushel.open(path, container=container)


def test_a_dataset_of_lance_says_how_it_is_packed(tmp_path: Path) -> None:
    for name in ("data/0.lance", "_versions/1.manifest"):
        (tmp_path / "photos.lance" / name).parent.mkdir(parents=True)
        (tmp_path / "photos.lance" / name).write_bytes(b"lance")
    with pytest.raises(
        bushel.errors.FormatError, match=r"bushel\.pack\(lance\.dataset\('.*photos\.lance'\), 'out\.tar'\)"
    ):
        bushel.open(tmp_path / "photos.lance")


@pytest.mark.parametrize("name", ["x.h5", "data.mdb", "a.mat", "batch_1"])
def test_files_of_other_programs_are_packed_by_their_own_package(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x89HDF or another format")
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(
            bushel.errors.FormatError, match=r"their own package .* bushel\.pack\(samples, 'out\.tar'\)"
        ):
            bushel.open(path)
    (tmp_path / "a.jpg").write_bytes(b"a photo")
    with pytest.raises(bushel.errors.FormatError, match="of plain files, open or pack the folder"):
        bushel.open(tmp_path / "a.jpg")
