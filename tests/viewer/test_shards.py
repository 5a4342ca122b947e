"""The page of shards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.viewer.serving import client_of

import bushel


def _written(path: Path) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (6, 96, 96, 3), np.uint8)
    with bushel.Writer(path, {"image": "png"}, container="tar", shard_samples=2) as writer:
        for number, image in enumerate(noise):
            writer.append({"image": image}, key=f"k{number}")
    return path


def test_the_map_lists_the_shards(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "data")) as client:
        text = client.get("/d/0/shards").text
    assert text.count("<rect") == text.count('<li class="ok"') == 3
    assert "shard-000002.tar" in text
    assert f"bushel verify {tmp_path / 'data'}" in text
    assert 'href="/d/0/s/4"' in text


def test_shards_without_checksums_are_marked(tmp_path: Path) -> None:
    folder = _written(tmp_path / "data")
    shutil.rmtree(folder / ".bushel")
    with client_of(folder) as client:
        assert client.get("/d/0/shards").text.count('<li class="partly"') == 3


def test_a_damaged_structure_is_on_the_map(tmp_path: Path) -> None:
    folder = _written(tmp_path / "data")
    [*_, last] = sorted(folder.glob("*.tar"))
    with open(last, "r+b") as file:
        file.seek(0, os.SEEK_END)
        file.truncate(file.tell() // 2)
    with pytest.warns(bushel.errors.DamagedWarning):
        dataset = bushel.open(folder)
    with client_of(dataset) as client:
        text = client.get("/d/0/shards").text
        assert 'class="damaged"' in text
        assert "structure damaged" in text
        assert client.get("/d/0").status_code == 200


def test_many_shards_share_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel.viewer import samples

    monkeypatch.setattr(samples, "_BOXES", 2)
    with client_of(_written(tmp_path / "data")) as client:
        text = client.get("/d/0/shards").text
    assert text.count("<rect") == 2
    assert "0–1" in text
