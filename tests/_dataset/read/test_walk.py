"""How many files the reading of one sample passes: what a reader has to open to follow it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.called_files import CalledFiles

import bushel

MOST_FILES = {"tar": 11, "ffrecord": 11, "bag": 11, "gulp": 15, "recordio": 11}
MOST_SWITCHES = {"tar": 29, "ffrecord": 28, "bag": 32, "gulp": 39, "recordio": 29}


@pytest.mark.parametrize("container", MOST_FILES)
def test_one_sample_passes_few_files(tmp_path: Path, container: str) -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    with bushel.Writer(tmp_path / "train", {"image": "jpg", "label": "int"}, container=container) as writer:
        for number in range(8):
            writer.append({"image": image, "label": number}, key=f"{number:02}")
    bushel.open(tmp_path / "train")[3]
    passed = CalledFiles()
    before = sys.getprofile()
    sys.setprofile(passed.note)
    try:
        bushel.open(tmp_path / "train")[3]
    finally:
        sys.setprofile(before)
    assert {"_dataset/open/open.py", "_index/sidecar.py", "_dataset/read/reader.py", "codecs/image.py"} <= passed
    assert len(passed) <= MOST_FILES[container], sorted(passed)
    assert passed.switches <= MOST_SWITCHES[container]
