"""Repositories that Hugging Face `datasets` writes, read by it and by Bushel: the same rows, in the same splits."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

datasets = pytest.importorskip("datasets")


def _photo(level: int) -> bytes:
    from PIL import Image

    data = io.BytesIO()
    Image.fromarray(np.full((8, 9, 3), level, np.uint8)).save(data, "PNG")
    return data.getvalue()


def _same(own: bushel.Dataset, theirs: Any) -> None:
    """Assert that rows are equal: media as bytes, everything else as values."""
    media = [name for name, each in theirs.features.items() if isinstance(each, datasets.Image | datasets.Audio)]
    for name in media:
        theirs = theirs.cast_column(name, type(theirs.features[name])(decode=False))
    assert len(own) == len(theirs)
    stored = own.read(range(len(own)), decode=False)
    for number, row in enumerate(theirs):
        sample = own[number]
        for name, value in row.items():
            if value is None:
                assert name not in sample
            elif name in media:
                data = value["bytes"] or Path(value["path"]).read_bytes()
                assert bytes(stored[number][name]) == data
            else:
                found = sample[name]
                assert (found.tolist() if isinstance(found, np.ndarray) else found) == value


def test_what_to_parquet_and_push_to_hub_write(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "text": datasets.Value("string"),
            "numbers": datasets.List(datasets.Value("int32")),
            "score": datasets.Value("float64"),
        }
    )
    for split, count in (("train", 30), ("test", 5)):
        rows = {
            "image": [{"bytes": _photo(number), "path": None} for number in range(count)],
            "label": [number % 2 for number in range(count)],
            "text": [None if number % 7 == 3 else f"text {number}" for number in range(count)],
            "numbers": [list(range(number % 4)) for number in range(count)],
            "score": [number / 7 for number in range(count)],
        }
        whole = datasets.Dataset.from_dict(rows, features=features)
        (tmp_path / "data").mkdir(exist_ok=True)
        for shard in range(2):
            whole.shard(2, shard, contiguous=True).to_parquet(tmp_path / f"data/{split}-{shard:05}-of-00002.parquet")
    for split in ("train", "test"):
        own = bushel.open(tmp_path, split=split, index="memory")
        theirs = datasets.load_dataset(str(tmp_path), split=split, cache_dir=str(tmp_path / "cache"))
        _same(own, theirs)
        assert list(own.labels["label"]) == theirs.features["label"].names


def test_folders_of_photos_with_metadata(tmp_path: Path) -> None:
    for split in ("train", "test"):
        folder = tmp_path / "photos" / split
        folder.mkdir(parents=True)
        lines = []
        for number in range(6):
            (folder / f"{number}.png").write_bytes(_photo(number))
            lines.append({"file_name": f"{number}.png", "text": f"{split} {number}", "stars": number})
        (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for split in ("train", "test"):
        theirs = datasets.load_dataset(str(tmp_path / "photos"), split=split, cache_dir=str(tmp_path / "cache"))
        _same(bushel.open(tmp_path / "photos", split=split), theirs)


def test_classes_in_folders(tmp_path: Path) -> None:
    for split, label, number in (("train", "cat", 1), ("train", "dog", 2), ("test", "dog", 3)):
        folder = tmp_path / "photos" / split / label
        folder.mkdir(parents=True)
        (folder / f"{number}.png").write_bytes(_photo(number))
    theirs = datasets.load_dataset(str(tmp_path / "photos"), split="train", cache_dir=str(tmp_path / "cache"))
    own = bushel.open(tmp_path / "photos", split="train")
    _same(own, theirs)
    assert list(own.labels["label"]) == theirs.features["label"].names


@pytest.mark.parametrize(
    "names",
    [
        ["data/train-00000-of-00001.parquet", "data/extra.split-00000-of-00001.parquet"],
        ["train/a.parquet", "validation/b.parquet", "notes/c.parquet"],
        ["my_training_rows.parquet", "dev.parquet", "other.parquet"],
        ["evaluation-1.parquet", "testing.parquet", "val_2.parquet"],
        ["constrained.parquet", "x.parquet"],
        ["a/train_x/1.parquet", "a/2-test/2.parquet"],
        ["training.parquet", "sub/test.parquet"],
        ["trainer.parquet", "train1.parquet", "1test.parquet"],
    ],
)
def test_splits_are_those_of_datasets(tmp_path: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_dict({"n": [number]}).to_parquet(tmp_path / "set" / name)
    found = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    for split, theirs in found.items():
        own = bushel.open(tmp_path / "set", split=split, index="memory")
        assert sorted(sample["n"] for sample in own) == sorted(theirs["n"]), split
    with pytest.raises(bushel.errors.SpecError, match="no split 'nothing'.*it has"):
        bushel.open(tmp_path / "set", split="nothing")
    listed = set()
    try:
        bushel.open(tmp_path / "set", split="nothing")
    except bushel.errors.SpecError as error:
        listed = set(str(error).partition("it has ")[2].partition(";")[0].split(", "))
    assert listed == {str(split) for split in found}


def test_configurations_are_those_of_datasets(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    for number, name in enumerate(("en/a.parquet", "en/b.parquet", "de/a.parquet", "all/1/x.parquet")):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_dict({"n": [number]}).to_parquet(tmp_path / "set" / name)
    card = """---
configs:
- config_name: en
  default: true
  data_files:
  - split: train
    path: en/a.parquet
  - split: test
    path: ["en/b*"]
- config_name: de
  data_dir: de
- config_name: deep
  data_files: "all/**/*.parquet"
---
# Set
"""
    (tmp_path / "set/README.md").write_text(card)
    for config in (None, "en", "de", "deep"):
        found = datasets.load_dataset(str(tmp_path / "set"), config, cache_dir=str(tmp_path / "cache"))
        for split, theirs in found.items():
            own = bushel.open(tmp_path / "set", config=config, split=split, index="memory")
            assert [sample["n"] for sample in own] == theirs["n"][:]
