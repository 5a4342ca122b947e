"""Shards to samples."""

import bz2
import gzip
import io
import json
import lzma
import sys
import tarfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.compat.webdataset.shards import archive, numbered, write_shards

import bushel.compat.webdataset as wds
from bushel.compat.webdataset.tariterators import (
    base_plus_ext,
    group_by_keys,
    tar_file_expander,
    tar_file_iterator,
    url_opener,
    valid_sample,
)
from bushel.errors import FormatError


def dataset(urls: Any, **options: Any) -> wds.WebDataset:
    return wds.WebDataset(urls, **{"shardshuffle": False, **options})


def keys(samples: Any) -> list[str]:
    return [sample["__key__"] for sample in samples]


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("a.left.JPG", ("a", "left.JPG")),
        ("dir.x/a.b", ("dir.x/a", "b")),
        ("dir/.foo", ("dir/", "foo")),
        ("a.", ("a", "")),
        ("README", (None, None)),
        (".foo", (None, None)),
        ("dir.e/.foo", (None, None)),
    ],
)
def test_base_plus_ext(path: str, split: tuple[str | None, str | None]) -> None:
    assert base_plus_ext(path) == split


def test_a_sample_has_key_url_path_and_fields_in_lower_case(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive([("d.x/a.left.JPG", b"1"), ("d.x/a.cls", b"2"), ("__m__/b.x", b""), ("README", b"")]))
    assert list(dataset(str(path))) == [
        {"__key__": "d.x/a", "__url__": str(path), "__local_path__": str(path), "left.jpg": b"1", "cls": b"2"}
    ]
    [sample] = dataset(f"file:{path}")
    assert (sample["__url__"], sample["__local_path__"]) == (f"file:{path}", str(path))


def test_equal_keys_in_two_shards_do_not_merge(tmp_path: Path) -> None:
    for name, field in (("a", "x"), ("b", "y")):
        (tmp_path / f"{name}.tar").write_bytes(archive([(f"k.{field}", b"")]))
    found = list(dataset([str(tmp_path / "a.tar"), str(tmp_path / "b.tar")]))
    assert [sorted(sample)[2:] for sample in found] == [["__url__", "x"], ["__url__", "y"]]


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_shards(tmp_path: Path, suffix: str, pack: Any) -> None:
    path = tmp_path / f"a.tar.{suffix}"
    path.write_bytes(pack(archive(numbered(0, 5))))
    assert keys(dataset(str(path))) == [f"s{i:03d}" for i in range(5)]


@pytest.mark.parametrize("name", ["shards", "compressed", "pax-long", "float-mtime", "encoders", "member-gz"])
def test_golden_shards(golden: Path, name: str) -> None:
    import hashlib

    folder = golden / "webdataset-1.0.2" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    found = list(dataset(str(folder / manifest["open"])))
    assert keys(found) == [sample["key"] for sample in manifest["samples"]]
    for sample, wanted in zip(found, manifest["samples"], strict=True):
        stored = {field: value for field, value in sample.items() if not field.startswith("__")}
        assert {field: hashlib.sha256(value).hexdigest() for field, value in stored.items()} == {
            field: entry["sha256"] for field, entry in wanted["fields"].items()
        }


@pytest.mark.parametrize("name", ["gnu-longname", "posix-longname", "sort-name", "ustar-prefix", "v7"])
def test_shards_of_gnu_tar(golden: Path, name: str) -> None:
    folder = golden / "gnu-tar-1.34" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    assert keys(dataset(str(folder / manifest["open"]))) == [sample["key"] for sample in manifest["samples"]]


def test_files_are_selected_and_renamed_first(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path, 1)
    found = dataset(pattern, select_files=lambda n: n.endswith(".n"), rename_files=lambda n: n.replace("cls", "n"))
    assert [sample["n"] for sample in found] == [b"%d" % i for i in range(10)]
    assert all("txt" not in sample for sample in found)


def test_errors_of_the_functions_go_to_the_handler(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path, 2)

    def refuse(name: str) -> bool:
        if name == "s003.txt":
            raise ValueError("refused")
        return True

    with pytest.raises(ValueError, match="refused"):
        list(dataset(pattern, select_files=refuse))
    left_out = list(dataset(pattern, select_files=refuse, handler=wds.ignore_and_continue))
    assert len(left_out) == 20
    assert "txt" not in left_out[3]
    stopped = keys(dataset(pattern, select_files=refuse, handler=wds.ignore_and_stop))
    assert stopped == ["s000", "s001", "s002"]


def test_two_files_for_one_field(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive([("a.x", b"1"), ("a.X", b"2"), ("a.y", b"3"), ("b.x", b"4")]))
    with pytest.raises(ValueError, match=r"a\.X: duplicate file name in tar file x"):
        list(dataset(str(path)))
    first, second = dataset(str(path), handler=wds.ignore_and_continue)
    assert (first["x"], first["y"], second["x"]) == (b"1", b"3", b"4")

    [stopped] = dataset(str(path), handler=wds.ignore_and_stop)
    assert (stopped["__key__"], stopped["x"], "y" in stopped) == ("a", b"1", False)


@pytest.mark.parametrize("cut", [512 * 4 * 3, 512 * 4 * 3 + 100, 512 * 4 * 3 + 512 + 100])
def test_a_cut_shard_is_an_error_after_its_whole_samples(tmp_path: Path, cut: int) -> None:
    """The original ends a shard in silence when it is cut, or damaged, at a header."""
    (tmp_path / "cut.tar").write_bytes(archive([(n, d * 200) for n, d in numbered(0, 9)])[:cut])
    (tmp_path / "whole.tar").write_bytes(archive(numbered(50, 52)))
    urls = [str(tmp_path / "cut.tar"), str(tmp_path / "whole.tar")]
    found: list[Any] = []
    with pytest.raises(FormatError, match=r"cut\.tar@\d+"):
        found.extend(dataset(urls))
    assert keys(found) == [f"s{i:03d}" for i in range(len(found))]
    assert keys(dataset(urls, handler=wds.ignore_and_continue)) == [*keys(found), "s050", "s051"]
    assert keys(dataset(urls, handler=wds.ignore_and_stop)) == keys(found)


def test_a_damaged_header_is_an_error(tmp_path: Path) -> None:
    content = bytearray(archive(numbered(0, 9)))
    content[512 * 8 + 3] ^= 1
    (tmp_path / "bad.tar").write_bytes(content)
    with pytest.raises(FormatError, match="checksum"):
        list(dataset(str(tmp_path / "bad.tar")))


@pytest.mark.parametrize("content", [b"", b"garbage" * 200])
def test_no_archive_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.tar").write_bytes(content)
    with pytest.raises(FormatError, match="not a tar archive"):
        list(dataset(str(tmp_path / "bad.tar")))


def test_missing_shards_go_to_the_handler(tmp_path: Path) -> None:
    urls = [str(tmp_path / "nowhere.tar"), write_shards(tmp_path, 1).replace("{0000..0000}", "0000")]
    with pytest.raises(FileNotFoundError):
        list(dataset(urls))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(list(dataset(urls, handler=wds.warn_and_continue))) == 10
    assert "FileNotFoundError" in str(caught[0].message)
    assert list(dataset(urls, handler=wds.ignore_and_stop, empty_check=False)) == []


def test_no_samples_are_an_error_unless_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive([]))
    with pytest.raises(ValueError, match="No samples found"):
        list(dataset(str(tmp_path / "a.tar")))
    assert list(dataset(str(tmp_path / "a.tar"), empty_check=False)) == []


def test_zero_length_files_are_empty_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive([("a.x", b"")]))
    [sample] = dataset(str(tmp_path / "a.tar"))
    assert sample["x"] == b""


def test_standard_input(tmp_path: Path) -> None:
    import subprocess

    code = "import bushel.compat.webdataset as w; print([s['__key__'] for s in w.WebDataset('-', shardshuffle=False)])"
    done = subprocess.run([sys.executable, "-c", code], input=archive(numbered(0, 2)), capture_output=True, check=True)
    assert done.stdout == b"['s000', 's001']\n"


def test_the_steps_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive([("a.X", b"1"), ("a.y", b"2")]))
    url = str(tmp_path / "a.tar")
    files = list(tar_file_expander(url_opener([{"url": url}])))
    assert files == [
        {"fname": "a.X", "data": b"1", "__url__": url},
        {"fname": "a.y", "data": b"2", "__url__": url},
        {},
    ]
    assert list(group_by_keys(files)) == [{"__key__": "a", "__url__": url, "x": b"1", "y": b"2"}]
    assert list(group_by_keys(files, lcase=False, suffixes={"X"})) == [{"__key__": "a", "__url__": url, "X": b"1"}]
    assert list(wds.tarfile_samples([{"url": url}])) == [{"__key__": "a", "__url__": url, "x": b"1", "y": b"2"}]
    assert list(wds.tarfile_samples([{"url": "elsewhere", "local_path": url}])) == [
        {"__key__": "a", "__url__": "elsewhere", "__local_path__": url, "x": b"1", "y": b"2"}
    ]
    stream = io.BytesIO(archive([("a.x", b"1")], tarfile.PAX_FORMAT))
    assert list(tar_file_iterator(stream)) == [{"fname": "a.x", "data": b"1"}]
    assert [valid_sample(sample) for sample in ({"x": 1}, {}, None, {"__bad__": True})] == [True, False, False, False]


def test_a_cut_stream_loses_only_the_sample_that_is_cut(tmp_path: Path) -> None:
    stream = io.BytesIO(archive(numbered(0, 3))[: 512 * 10])
    errors: list[Exception] = []

    def note(error: Exception) -> bool:
        errors.append(error)
        return True

    files = tar_file_expander([{"url": "x", "stream": stream}], handler=note)
    assert keys(group_by_keys(files)) == ["s000", "s001"]
    assert [(isinstance(error, FormatError), isinstance(error, tarfile.ReadError)) for error in errors] == [
        (True, True)
    ]


def test_names_that_are_skipped(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as made:
        for name in ("__meta__", "_x.txt", "b.txt"):
            made.addfile(tarfile.TarInfo(name))
    cases: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({}, ["_x.txt", "b.txt"]),
        ({"skip_meta": "_"}, ["b.txt"]),
        ({"skip_meta": None}, ["__meta__", "_x.txt", "b.txt"]),
    )
    for skip, wanted in cases:
        with open(tmp_path / "a.tar", "rb") as opened:
            assert [file["fname"] for file in tar_file_iterator(opened, **skip)] == wanted
