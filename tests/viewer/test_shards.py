"""The page of shards, and the verification that is run from it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.viewer.serving import client_of, damage

import bushel
from bushel.integrity import Problem, VerifyResult
from bushel.viewer.shards import state_of_shard


def _written(path: Path, damaged: bool = False) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (6, 96, 96, 3), np.uint8)
    with bushel.Writer(path, {"image": "png"}, container="tar", shard_samples=2) as writer:
        for number, image in enumerate(noise):
            writer.append({"image": image}, key=f"k{number}")
    if damaged:
        damage(path, 14_000, bytes(20))
    return path


def _verified(client: Any, number: int = 0) -> dict[str, Any]:
    """Run the verification, and return its last message."""
    assert client.post(f"/api/{number}/verify").json()["state"] in ("running", "done", "failed")
    with client.stream("GET", f"/api/{number}/verify") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    last: dict[str, Any] = json.loads(lines[-1])
    return last


def test_the_map_lists_the_shards(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "data")) as client:
        text = client.get("/d/0/shards").text
    assert text.count("<rect") == 3
    assert "shard-000002.tar" in text
    assert text.count("not checked") >= 3
    assert 'href="/d/0/s/4"' in text


def test_a_verification_colours_the_map(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "data")) as client:
        last = _verified(client)
        assert (last["state"], last["ok"], last["problems"]) == ("done", True, [])
        assert last["checked"] > 0
        text = client.get("/d/0/shards").text
        assert text.count('<li class="ok"') == 3


def test_problems_lead_to_their_samples(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "data", damaged=True)) as client:
        last = _verified(client)
        [problem] = last["problems"]
        assert (problem["kind"], problem["key"], problem["position"]) == ("checksum", "k3", 3)
        text = client.get("/d/0/shards").text
        assert text.count('<li class="bad"') == 1
        assert text.count('<li class="ok"') == 2


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


def test_a_verification_can_be_stopped(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "data")) as client:
        client.post("/api/0/verify")
        client.post("/api/0/verify?stop=1")
        with client.stream("GET", "/api/0/verify") as answer:  # which ends with the verification
            *_, last = [line for line in answer.iter_lines() if line]
        assert json.loads(last.removeprefix("data: "))["state"] in ("stopped", "done")


def test_a_verification_that_fails_says_why(tmp_path: Path) -> None:
    folder = _written(tmp_path / "data")
    with client_of(folder) as client:
        for path in folder.rglob("*"):
            if path.is_file():
                path.unlink()
        last = _verified(client)
        assert last["state"] == "failed"
        assert str(folder) in last["error"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_of_a_dataset_that_is_not_there(tmp_path: Path, method: str) -> None:
    with client_of(_written(tmp_path / "data")) as client:
        assert client.request(method, "/api/7/verify").status_code == 404


def test_many_shards_share_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel.viewer import shards

    monkeypatch.setattr(shards, "_BOXES", 2)
    with client_of(_written(tmp_path / "data")) as client:
        text = client.get("/d/0/shards").text
    assert text.count("<rect") == 2
    assert "0–1" in text


@pytest.mark.parametrize(
    ("kind", "more", "checksums", "expected"),
    [
        ("checksum", 0, True, "bad"),
        ("stale", 0, True, "ok"),
        ("stale", 0, False, "partly"),
        ("stale", 5, True, "unknown"),
    ],
)
def test_states(kind: Any, more: int, checksums: bool, expected: str) -> None:
    result = VerifyResult((Problem("a.tar", None, None, None, kind, ""),), 1, 1, 1, True, more)
    assert state_of_shard(result, ["a.tar"], checksums=checksums) == expected
    assert state_of_shard(None, ["a.tar"], checksums=True) == "unknown"
