"""Junk and splits, by names."""

from __future__ import annotations

import pytest

from bushel._recognise.names import counted, junk_kind, may_hold_junk, split_in, split_named, splits_in, without_junk

JUNK = {
    "._a.jpg": "._*",
    "x/._a.jpg": "._*",
    ".DS_Store": ".DS_Store",
    "x/Thumbs.db": "Thumbs.db",
    "desktop.ini": "desktop.ini",
    "x/a.jpg~": "*~",
    "a.jpg:Zone.Identifier": "*:Zone.Identifier",
    "__MACOSX/x/a.jpg": "__MACOSX",
    "x/.ipynb_checkpoints/a.jpg": ".ipynb_checkpoints",
    "a.jpg": None,
    "~/a.jpg": None,
    "x/my desktop.ini.jpg": None,
    "Thumbs.db/a.jpg": None,
}


@pytest.mark.parametrize("name", JUNK)
def test_junk(name: str) -> None:
    assert junk_kind(name) == JUNK[name]
    assert JUNK[name] is None or may_hold_junk(name.encode())


def test_junk_is_counted() -> None:
    names, counts = without_junk(list(JUNK))
    assert list(names) == [name for name, kind in JUNK.items() if kind is None]
    assert counted(counts.items()).startswith("9 files (2 ._*, 1 *:Zone.Identifier, ")
    assert counted(counts.items()).endswith(", …)")
    assert counted([(".txt", 1)]) == "1 file (1 .txt)"


@pytest.mark.parametrize(
    ("name", "folder", "split"),
    [
        ("train", True, "train"),
        ("Val", True, "Val"),
        ("train.csv", False, "train"),
        ("test-00000-of-00002.parquet", False, "test"),
        ("train-000000.tar", False, "train"),
        ("dev.jsonl.gz", False, "dev"),
        ("train2017", True, "train"),
        ("train2017.csv", False, None),
        ("train_images", True, "train"),
        ("Test-imgs", True, "Test"),
        ("training_set", True, "training"),
        ("testset", True, "test"),
        ("train_images.csv", False, None),
        ("train_cat", True, None),
        ("train_", True, None),
        ("train.csv", True, None),
        ("trains", True, None),
        ("training_set.csv", False, None),
        ("my-train.csv", False, None),
        ("mnist-test.tfrecord-00000-of-00001", False, "test"),
        ("mnist-test.tfrecord-00000-of-00001", True, None),
        ("mnist-corrupted-test.tfrecord-00000-of-00001", False, None),
    ],
)
def test_names_of_splits(name: str, folder: bool, split: str | None) -> None:
    assert split_in(name, folder=folder) == split


def test_splits_are_at_least_two_and_all_there_is() -> None:
    assert splits_in(["train", "val"], []) == {"train": ["train"], "val": ["val"]}
    assert splits_in([], ["test.csv", "train-1.csv", "train-0.csv"]) == {
        "test": ["test.csv"],
        "train": ["train-0.csv", "train-1.csv"],
    }
    assert splits_in(["train"], []) == {}
    assert splits_in(["train", "val", "more"], []) == {}
    assert splits_in(["train", "val"], ["other.csv"]) == {}


def test_the_split_that_is_meant() -> None:
    splits = {"train": ["train"], "val": ["val"]}
    assert [split_named(splits, name) for name in ("val", "validation", "dev", "test")] == ["val", "val", "val", None]
