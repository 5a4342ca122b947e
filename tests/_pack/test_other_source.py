"""An interrupted run goes on with the source that it began with, and with no other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import bushel
from bushel.errors import StateError


def write(path: Path, factor: int) -> Path:
    with bushel.Writer(path, {"x": "int"}, container="bag", shard_samples=4) as writer:
        for number in range(12):
            writer.append({"x": number * factor}, key=str(number))
    return path


def interrupted(source: Any, target: Path) -> None:
    """Convert a dataset, and fail at its ninth sample."""

    def key(text: str) -> str:
        if text == "9":
            raise KeyboardInterrupt
        return text

    with pytest.raises(KeyboardInterrupt):
        bushel.convert(source, target, container="tar", shard_samples=4, keys=key)


def test_a_run_of_a_dataset_goes_on_with_the_same_data_wherever_they_lie(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a", 1), tmp_path / "out"
    interrupted(source, target)
    with pytest.raises(StateError, match="another source"):
        bushel.convert(write(tmp_path / "b", -1), target, container="tar", shard_samples=4, mode="resume")
    shutil.move(source, tmp_path / "moved")
    bushel.convert(tmp_path / "moved", target, container="tar", shard_samples=4, mode="resume")
    assert [sample["x"] for sample in bushel.open(target)] == list(range(12))
