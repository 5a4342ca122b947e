"""Two fields side by side."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.viewer.serving import client_of

import bushel
from bushel.viewer import compare


def _written(path: Path, texts: dict[str, str], container: str = "bag") -> Path:
    image = np.zeros((8, 8, 3), np.uint8)
    with bushel.Writer(path, {"text": "utf8", "image": "png"}, container=container) as writer:
        for key, text in texts.items():
            writer.append({"text": text, "image": image}, key=key)
    return path


def states(text: str) -> list[str]:
    return re.findall(r'<li class="(same|differs|missing|unreadable)">', text)


def test_samples_are_matched_by_key(tmp_path: Path) -> None:
    left = _written(tmp_path / "left", {"a": "1", "b": "2", "c": "3"})
    right = _written(tmp_path / "right", {"c": "3", "a": "9", "d": "4"}, "tar")
    with client_of(left, right) as client:
        text = client.get("/d/0/compare?left=0:text&right=1:text").text
    assert states(text) == ["differs", "missing", "same"]
    assert 'href="/d/1/s/0"' in text


def test_by_default_the_main_fields_of_two_datasets(tmp_path: Path) -> None:
    left = _written(tmp_path / "left", {"a": "1"})
    with client_of(left, left) as client:
        text = client.get("/d/0/compare").text
    assert states(text) == ["same"]
    assert text.count("<img loading") == 2


def test_two_fields_of_one_dataset(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "left", {"a": "1"})) as client:
        text = client.get("/d/0/compare?left=0:image&right=0:text").text
    assert states(text) == ["differs"]


@pytest.mark.parametrize(("side", "status"), [("5:image", 404), ("0:nothing", 404), ("image", 400), ("-1:image", 400)])
def test_sides_that_are_not_there(tmp_path: Path, side: str, status: int) -> None:
    with client_of(_written(tmp_path / "left", {"a": "1"})) as client:
        assert client.get(f"/d/0/compare?left={side}").status_code == status


def test_pages_after_the_last_are_empty(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "left", {"a": "1"})) as client:
        assert states(client.get("/d/0/compare?page=9").text) == []


def test_only_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"k{number:03}": str(number) for number in range(200)}
    left = _written(tmp_path / "left", texts)
    right = _written(tmp_path / "right", {key: text + "!" * (key in ("k003", "k150")) for key, text in texts.items()})
    address = "/d/0/compare?left=0:text&right=1:text&only=1"
    with client_of(left, right) as client:
        text = client.get(address).text
        assert states(text) == ["differs", "differs"]
        assert "Of samples 0 to 199 of 200, 2 differ." in text
        assert 'id="after"' not in text
        monkeypatch.setattr(compare, "_LOOK_AT", 100)
        text = client.get(address).text
        assert states(text) == ["differs"]
        assert 'right=1%3Atext&only=1&from=100"' in text
        assert states(client.get(f"{address}&from=100").text) == ["differs"]
        assert states(client.get(f"{address}&from=151").text) == []
        monkeypatch.setattr(compare, "_PAGE", 1)
        assert "from=4" in client.get(address).text
        monkeypatch.setattr(compare, "_SECONDS", 0)
        assert "from=1" in client.get(address).text
        assert client.get(f"{address}&from=999").status_code == 200
