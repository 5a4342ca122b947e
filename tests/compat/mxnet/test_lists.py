"""Lists and record files of im2rec, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sources.folders import image_folder

import bushel
from bushel.compat.mxnet.lists import ListPlan, find_images, list_parts, write_lists
from bushel.containers import Shard
from bushel.containers.ffrecord import CONTAINER as FFRECORD
from bushel.sources import Files, ListFile
from bushel.sources.lists import ListLine

LISTS = ("default", "recursive", "no-shuffle", "chunks", "ratios", "exts", "chunks-ratios")


@pytest.mark.parametrize("case", LISTS)
def test_the_lists_of_im2rec(golden: Path, tmp_path: Path, case: str) -> None:
    folder = golden / "im2rec-lists-mxnet-1.9.1"
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["tree"]:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).touch()
    arguments = manifest["cases"][case]["args"]
    options = {name: arguments[at + 1] for at, name in enumerate(arguments[:-1]) if name.startswith("--")}
    plan = ListPlan(
        chunks=int(options.get("--chunks", 1)),
        train_ratio=float(options.get("--train-ratio", 1)),
        test_ratio=float(options.get("--test-ratio", 0)),
        shuffle="--no-shuffle" not in arguments,
        im2rec_order=True,
    )
    suffixes = [options["--exts"]] if "--exts" in options else [".jpeg", ".jpg", ".png"]
    found = list(find_images(tmp_path / "tree", suffixes=suffixes, recursive="--recursive" in arguments))
    written = write_lists(tmp_path / "out/set", list_parts(found, plan))
    assert sorted(path.name for path in written) == sorted(manifest["cases"][case]["files"])
    for path in written:
        assert Path(str(path)).read_bytes() == (folder / case / path.name).read_bytes()


@given(
    st.integers(0, 200),
    st.integers(1, 9),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
    st.integers(0, 5),
    st.booleans(),
)
def test_no_image_is_lost(
    images: int, chunks: int, one: float, other: float, shuffle: bool, seed: int, old: bool
) -> None:
    train, test = min(one, 1 - other), other
    lines = [ListLine(number, (0.0,), f"{number}.jpg") for number in range(images)]
    lists = list_parts(lines, ListPlan(chunks, train, test, shuffle, seed, old))
    assert sorted(line.index for part in lists.values() for line in part) == list(range(images))


def test_three_quarters_and_one_quarter_of_ten_are_ten() -> None:
    lines = [ListLine(number, (0.0,), f"{number}.jpg") for number in range(10)]
    lists = list_parts(lines, ListPlan(train_ratio=0.75, test_ratio=0.25, shuffle=False))
    assert {name: len(part) for name, part in lists.items()} == {"_test": 2, "_train": 8}


def test_seeds_give_orders() -> None:
    lines = [ListLine(number, (0.0,), f"{number}.jpg") for number in range(30)]
    orders = [list_parts(lines, ListPlan(seed=seed))[""] for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != lines


def test_links_that_lead_back_are_not_followed(tmp_path: Path) -> None:
    image_folder(tmp_path / "a", 1)
    (tmp_path / "a/class0/up").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert [line.path for line in find_images(tmp_path, recursive=True)] == ["a/class0/0000.jpg", "b/class0/0000.jpg"]


def test_wrong_plans(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="chunks=0 is too small"):
        ListPlan(chunks=0)
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        ListPlan(train_ratio=0.7, test_ratio=0.4)
    with pytest.raises(NotADirectoryError):
        list(find_images(tmp_path / "missing"))


def test_a_record_file_of_im2rec(golden: Path, tmp_path: Path) -> None:
    old = golden / "recordio-mxnet-1.9.1/im2rec/data"
    images = {str(sample["id"]): bytes(sample["image"]) for sample in _stored(old / "set.rec")}
    for line in (old / "set.lst").read_text().splitlines():
        index, _, name = line.split("\t")
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(images[index])
    source = ListFile(old / "set.lst", root=tmp_path / "photos")
    bushel.pack(source, tmp_path / "set.rec")
    assert (tmp_path / "set.rec").read_bytes() == (old / "set.rec").read_bytes()
    assert (tmp_path / "set.idx").read_bytes() == (old / "set.idx").read_bytes()


def _stored(path: Path) -> list[dict[str, Any]]:
    dataset = bushel.open(path)
    images = dataset.read(range(len(dataset)), ["image"], decode=False)
    return [{"id": dataset[at, ["id"]]["id"], "image": one["image"]} for at, one in enumerate(images)]


def test_a_packed_folder_of_ffrecord(golden: Path, tmp_path: Path) -> None:
    old = golden / "ffrecord-1.4.0/packed-folder/data/packed.ffr"
    dataset = bushel.open(old)
    for sample in dataset:
        (tmp_path / "folder" / sample["__key__"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / sample["__key__"]).write_bytes(sample["data"])
    for empty in FFRECORD.empty_folders(Shard.of(old)):
        (tmp_path / "folder" / empty).mkdir()
    bushel.pack(Files(tmp_path / "folder"), tmp_path / "new.ffr")
    assert (tmp_path / "new.ffr").read_bytes() == old.read_bytes()
    new = bushel.open(tmp_path / "new.ffr")
    assert list(new.keys) == list(dataset.keys)
    assert new.read(range(len(new)), decode=False) == dataset.read(range(len(dataset)), decode=False)
