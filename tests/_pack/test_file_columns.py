"""Files that are stored as they are: read in batches, they give the files of single samples, and the same errors."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._pack.pack_sources import files_of
from tests.sources.folders import jpeg

import bushel
from bushel._pack.encoder import Encoder
from bushel.errors import CodecError, TooManyErrors
from bushel.sources import Files, LabelledFolder, files

TARGETS = {"bag": "x", "tar": "x.tar", "ffrecord": "x.ffr", "recordio": "x.rec", "gulp": "x"}


class OneByOne(LabelledFolder):
    """The same samples, one by one."""

    def __getitem__(self, position: int) -> Any:
        return super().__getitem__(position)


class FilesOneByOne(Files):
    """The same samples, one by one."""

    def __getitem__(self, position: int) -> Any:
        return super().__getitem__(position)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Small and large photos in folders of classes, with an empty file, a text, a PNG, and a link without a file."""
    folder = tmp_path / "photos"
    for number in range(23):
        path = folder / f"{'abc'[number % 3]}" / f"{number:03d} ü.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number) + bytes(number * 2500))
    head = jpeg(7)
    words = bytes.fromhex("0a23d7ce") * 2  # RecordIO's magic word, which splits a record if it is aligned
    (folder / "a" / "1234567890.jpg").write_bytes(head + bytes(-len(head) % 4) + words + bytes(50_000))
    (folder / "b" / "007.jpg").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    (folder / "b" / "008.jpg").write_bytes(b"")
    (folder / "c" / "009.jpg").write_text("no photo")
    (folder / "c" / "010.jpg").symlink_to(folder / "gone")
    return folder


def packed(source: Any, target: Path, **options: Any) -> tuple[dict[str, bytes], int]:
    target.parent.mkdir()
    done = bushel.pack(source, target, max_errors=9, **options)
    assert bushel.verify(target).ok
    found = files_of(target.parent)
    log = {name: data for name, data in found.items() if name.endswith(".errors.jsonl")}
    return {name: data for name, data in found.items() if ".bushel" not in name} | log, done.errors


@pytest.mark.parametrize("container", TARGETS)
@pytest.mark.parametrize("shard_bytes", [None, 100_000])
def test_files_are_the_same(photos: Path, tmp_path: Path, container: str, shard_bytes: int | None) -> None:
    name = TARGETS[container] if shard_bytes is None else "x"
    options = {"container": container, "shard_bytes": shard_bytes}
    fast, errors = packed(LabelledFolder(photos), tmp_path / "fast" / name, **options)
    slow, _ = packed(OneByOne(photos), tmp_path / "slow" / name, **options)
    assert {path: data.replace(b"/slow/", b"/fast/") for path, data in slow.items()} == fast
    assert errors == 3  # a link that leads nowhere is no file


@pytest.mark.parametrize("container", ["bag", "ffrecord", "recordio"])
def test_any_files_are_the_same(photos: Path, tmp_path: Path, container: str) -> None:
    fast, errors = packed(Files(photos), tmp_path / "fast" / TARGETS[container], container=container)
    slow, _ = packed(FilesOneByOne(photos), tmp_path / "slow" / TARGETS[container], container=container)
    assert fast == slow
    assert errors == 1


@pytest.mark.parametrize("room", [1000, 40_000])
def test_files_that_do_not_fit_into_the_buffer(
    photos: Path, tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = packed(OneByOne(photos), tmp_path / "slow" / "x", container="bag")
    monkeypatch.setattr(files, "_ROOM", room)
    found, _ = packed(LabelledFolder(photos), tmp_path / "fast" / "x", container="bag", threads=3)
    assert found == expected


def test_samples_that_cannot_be_written_as_columns_are_found_one_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(9):
        (folder / f"{number}.jpg").write_bytes(jpeg(number))
    with bushel.Writer(tmp_path / "x", {"image": "jpg"}, container="bag") as writer:
        writer.append({"image": jpeg(0)}, key="3")
    options: dict[str, Any] = {"container": "bag", "shard_samples": 1}
    with pytest.raises(TooManyErrors, match=r"3\.jpg.*already"):
        bushel.pack(LabelledFolder(folder), tmp_path / "x", threads=1, mode="append", **options)
    with pytest.warns(bushel.errors.IncompleteWarning):
        assert list(bushel.open(tmp_path / "x").keys) == ["3", "0", "1", "2"]
    done = bushel.pack(LabelledFolder(folder), tmp_path / "x", mode="resume", max_errors=1, **options)
    assert done.errors == 1
    assert list(bushel.open(tmp_path / "x").keys) == ["3", "0", "1", "2", "4", "5", "6", "7", "8"]


def test_a_run_that_is_resumed_gives_the_same_files(photos: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"container": "bag", "shard_samples": 5}
    expected, _ = packed(LabelledFolder(photos), tmp_path / "whole" / "x", **options)
    target = tmp_path / "part" / "x"
    target.parent.mkdir()
    with pytest.raises(TooManyErrors):
        bushel.pack(LabelledFolder(photos), target, max_errors=1, threads=1, **options)
    bushel.pack(LabelledFolder(photos), target, max_errors=9, mode="resume", **options)
    found = {name: data for name, data in files_of(target.parent).items() if ".bushel" not in name}
    assert {name: data.replace(b"/whole/", b"/part/") for name, data in expected.items()} == found


def test_threads_and_memory_end_with_the_run(photos: Path, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(TooManyErrors):
        bushel.pack(LabelledFolder(photos), tmp_path / "x.tar", threads=4)
    assert set(threading.enumerate()) <= before
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    bushel.pack(LabelledFolder(photos), tmp_path / "y.tar", threads=4, max_errors=9)
    assert not descriptors or len(os.listdir("/proc/self/fd")) <= descriptors
    assert np.array_equal(bushel.open(tmp_path / "y.tar").column("label"), [0] * 9 + [1] * 8 + [2] * 7)


SPECS = {
    "photos": {"image": "jpg", "label": "int"},
    "texts": {"text": "utf8", "note": "json", "number": "float"},
    "arrays": {"x": "array", "raw": "bytes"},
    "sparse": {"text": "utf8", "label": "int"},
}


def dataset_of(kind: str, folder: Path) -> Path:
    """A dataset in shards; `sparse` lacks fields in some samples, and all have empty and odd values."""
    rng = np.random.default_rng(5)
    with bushel.Writer(folder, SPECS[kind], container="tar", shard_samples=7) as writer:
        for number in range(23):
            values = {
                "image": jpeg(number),
                "label": number % 5 - 1,
                "text": "ü" * (number % 4),
                "note": None if number % 6 == 5 else {"n": [number]},
                "number": number / 3,
                "x": rng.random((number % 3, 2)).astype(np.float32),
                "raw": bytes(number * 900),
            }
            lacks = {"label"} if kind == "sparse" and number % 4 == 0 else set()
            writer.append({name: values[name] for name in SPECS[kind] if name not in lacks}, key=f"k{number}")
    return folder


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("container", ["bag", "tar", "recordio"])
@pytest.mark.parametrize("changed", [{}, {"shuffle": True}, {"keys": False}])
def test_columns_of_a_dataset_give_the_files_of_single_samples(
    tmp_path: Path, kind: str, container: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = dataset_of(kind, tmp_path / "source")
    # a record of recordio is one field or an image with labels, and a bag needs every field
    if (container == "recordio" and kind != "photos") or (container, kind) == ("bag", "sparse"):
        changed = {**changed, "fields": list(SPECS[kind])[:1]}
    results = []
    for by_columns in (True, False):
        if not by_columns:
            monkeypatch.setattr(Encoder, "by_columns", False)
        target = tmp_path / str(by_columns) / "x"
        target.parent.mkdir()
        done = bushel.convert(source, target, container=container, shard_bytes=9000, **changed)
        files = {name: data for name, data in files_of(target.parent).items() if ".bushel" not in name}
        results.append((files, done.samples, done.bytes, bushel.open(target).fingerprint))
    assert results[0] == results[1]


@pytest.mark.parametrize("container", ["bag", "tar"])
def test_a_damaged_value_of_a_column_is_one_error(tmp_path: Path, container: str) -> None:
    with bushel.Writer(tmp_path / "a", {"text": "bytes", "label": "int"}, container="bag") as writer:
        for number in range(9):
            writer.append({"text": b"\xff" if number == 4 else b"ok", "label": number}, key=f"k{number}")
    options: dict[str, Any] = {"container": container, "spec": {"text": "utf8"}}
    with pytest.raises(CodecError, match="sample 'k4', field 'text'"):
        bushel.convert(tmp_path / "a", tmp_path / "b", **options)
    done = bushel.convert(tmp_path / "a", tmp_path / "c", max_errors=1, **options)
    assert (done.samples, done.errors) == (8, 1)
    assert list(bushel.open(tmp_path / "c").keys) == [f"k{number}" for number in range(9) if number != 4]
