"""Configurations and splits by the names of files and the front matter of README.md."""

from __future__ import annotations

from typing import Any

import pytest

from bushel._dataset.open.data_files import Configuration, configurations, front_matter, splits_of


def _splits(names: list[str], **options: Any) -> dict[str, list[str]]:
    return splits_of(Configuration("default", **options), names)


def test_front_matter() -> None:
    assert front_matter("---\nlicense: mit\n---\n# Photos\n---\n") == "license: mit\n"
    assert front_matter("\ufeff---\r\na: 1\r\n---\r\n") == "a: 1\r\n"
    assert front_matter("# Photos\n---\na: 1\n---\n") is None
    assert front_matter("---\nnever ends\n") is None


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (
            ["README.md", "data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "x/test.csv"],
            {"train": ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]},
        ),
        (
            ["data/random.split-00000-of-00001-abc.parquet", "data/test-00000-of-00001.parquet"],
            {
                "random.split": ["data/random.split-00000-of-00001-abc.parquet"],
                "test": ["data/test-00000-of-00001.parquet"],
            },
        ),
        (["training/a.jpg", "val/b.jpg", "other/c.jpg"], {"train": ["training/a.jpg"], "validation": ["val/b.jpg"]}),
        (["my_train_file.csv", "eval.csv", "rows.csv"], {"train": ["my_train_file.csv"], "test": ["eval.csv"]}),
        (["constrained.csv", "latest.csv"], {"train": ["constrained.csv", "latest.csv"]}),
        ([".gitattributes", "README.md", "load.py", "__pycache__/x", "dataset_infos.json"], {}),
    ],
)
def test_splits_by_names(names: list[str], wanted: dict[str, list[str]]) -> None:
    assert _splits(names) == wanted


def test_patterns() -> None:
    names = ["a/1.csv", "a/b/2.csv", "a/b/3.txt", "c-0.csv", "c-1.csv", "c-x.csv", ".hidden/4.csv"]
    for pattern, wanted in {
        "a/*.csv": ["a/1.csv"],
        "a/**/*.csv": ["a/1.csv", "a/b/2.csv"],
        "**/*.csv": ["a/1.csv", "a/b/2.csv", "c-0.csv", "c-1.csv", "c-x.csv"],
        "a/**": ["a/1.csv", "a/b/2.csv", "a/b/3.txt"],
        "a": ["a/1.csv", "a/b/2.csv", "a/b/3.txt"],
        "./c-[0-9].csv": ["c-0.csv", "c-1.csv"],
        "c-[!0-9].csv": ["c-x.csv"],
        "c-?.csv": ["c-0.csv", "c-1.csv", "c-x.csv"],
        ".hidden/*": [".hidden/4.csv"],
    }.items():
        assert _splits(names, patterns={"train": (pattern,)}) == {"train": wanted}, pattern
    with pytest.raises(ValueError, match=r"configuration 'default': no file matches 'x/\*'"):
        _splits(names, patterns={"train": ("x/*",)})


def test_a_folder_of_a_configuration() -> None:
    names = ["en/train.csv", "en/test.csv", "de/train.csv"]
    assert _splits(names, folder="en") == {"train": ["en/train.csv"], "test": ["en/test.csv"]}
    assert _splits(names, folder="de", patterns={"all": ("*.csv",)}) == {"all": ["de/train.csv"]}


@pytest.mark.parametrize(
    ("described", "wanted"),
    [
        ("a.csv", {"train": ("a.csv",)}),
        (["a.csv", "b.csv"], {"train": ("a.csv", "b.csv")}),
        ({"test": "a.csv", "train": ["b.csv"]}, {"test": ("a.csv",), "train": ("b.csv",)}),
        (
            [{"split": "test", "path": "a.csv"}, {"split": "test", "path": ["b.csv"]}, {"path": "c"}],
            {"test": ("a.csv", "b.csv"), "train": ("c",)},
        ),
    ],
)
def test_data_files(described: Any, wanted: dict[str, tuple[str, ...]]) -> None:
    [found] = configurations({"configs": [{"config_name": "en", "data_files": described}]})
    assert (found.name, found.patterns, found.is_default) == ("en", wanted, False)


def test_configurations() -> None:
    assert configurations(None) == configurations({"license": "mit"}) == [Configuration("default", True)]
    two = configurations({"configs": [{"config_name": "en", "default": True}, {"config_name": 7, "data_dir": "./d/"}]})
    assert [(each.name, each.is_default, each.folder) for each in two] == [("en", True, ""), ("7", False, "d")]
    shapes: list[Any] = [{"configs": {}}, {"configs": ["en"]}, {"configs": [{"data_dir": 5}]}]
    for wrong in shapes:
        with pytest.raises(ValueError, match="is not a list of mappings|not the name of a folder"):
            configurations(wrong)
    files: list[Any] = [5, [], [{"split": "x"}], {"x": [1]}]
    for each in files:
        with pytest.raises(ValueError, match="in the place of a path"):
            configurations({"configs": [{"config_name": "en", "data_files": each}]})
