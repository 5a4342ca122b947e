"""How many files one batch passes: what a reader has to open to follow it."""

import inspect
import sys
import threading
from pathlib import Path

import numpy as np
from tests.called_files import CalledFiles
from tests.loader.memory_dataset import MemoryDataset

import bushel
from bushel.loader.read.loadable import source_of
from bushel.loader.run.pipeline import Pipeline
from bushel.transforms import RandomResizedCrop

MOST_FILES = 18


def test_one_batch_passes_few_files(tmp_path: Path) -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    with bushel.Writer(tmp_path / "a.tar", {"image": "jpg", "label": "int"}) as writer:
        for number in range(64):
            writer.append({"image": image, "label": number}, key=f"{number:02}")
    loader = bushel.Loader(
        bushel.open(tmp_path / "a.tar"), 8, shuffle=True, transforms=RandomResizedCrop(24), threads=2, prefetch=1
    )
    passed = CalledFiles()
    before = sys.getprofile()
    threading.setprofile(passed.note)
    try:
        sys.setprofile(passed.note)
        iterator = iter(loader)
        next(iterator), next(iterator)
        passed.clear()
        next(iterator)
        next(iterator)
        sys.setprofile(before)
        iterator.close()
    finally:
        threading.setprofile(None)
        sys.setprofile(before)
    assert "loader/run/pipeline.py" in passed
    assert "transforms/fused.py" in passed
    assert len(passed) <= MOST_FILES, sorted(passed)


def test_the_pipeline_is_small_and_asks_no_dataset_what_it_is() -> None:
    methods = [
        name for name, value in vars(Pipeline).items() if inspect.isfunction(value) or isinstance(value, property)
    ]
    assert len([name for name in methods if not name.startswith("__")]) < 16
    assert "isinstance(self.source" not in Path(inspect.getfile(Pipeline)).read_text()


def test_datasets_of_others_load_with_the_narrow_protocol() -> None:
    dataset = MemoryDataset(10)
    assert not hasattr(dataset, "read_encoded")
    assert source_of(dataset).extents([0]) == []
    assert [batch["number"].tolist() for batch in bushel.Loader(dataset, 5)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
