"""How many files one batch passes: what a reader has to open to follow it."""

import sys
import threading
from pathlib import Path

import numpy as np
from tests.called_files import CalledFiles

import bushel
from bushel.transforms import RandomResizedCrop

MOST_FILES = 18


def test_one_batch_passes_few_files(tmp_path: Path) -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    with bushel.Writer(tmp_path / "a.tar", {"image": "jpg", "label": "int"}) as writer:
        for number in range(64):
            writer.append({"image": image, "label": number}, key=f"{number:02}")
    loader = bushel.Loader(
        bushel.open(tmp_path / "a.tar"), 8, shuffle=True, transforms=RandomResizedCrop(24), workers=2, prefetch=1
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
    assert "loader/pipeline.py" in passed
    assert "transforms/fused.py" in passed
    assert len(passed) <= MOST_FILES, sorted(passed)
