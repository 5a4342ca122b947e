"""How many files the reading of one sample passes: what a reader has to open to follow it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import bushel

PACKAGE = Path(bushel.__file__).parent
MOST_FILES = {"tar": 12, "ffrecord": 12, "bag": 13, "gulp": 13, "recordio": 13}


@pytest.mark.parametrize("container", MOST_FILES)
def test_one_sample_passes_few_files(tmp_path: Path, container: str) -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    with bushel.Writer(tmp_path / "train", {"image": "jpg", "label": "int"}, container=container) as writer:
        for number in range(8):
            writer.append({"image": image, "label": number}, key=f"{number:02}")
    bushel.open(tmp_path / "train")[3]
    passed = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            passed.add(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        bushel.open(tmp_path / "train")[3]
    finally:
        sys.setprofile(before)
    assert {"core/dataset/open.py", "core/index/sidecar.py", "core/dataset/reader.py", "codecs/image.py"} <= passed
    assert len(passed) <= MOST_FILES[container], sorted(passed)
