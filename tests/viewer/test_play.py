"""What plays along one play head, and the windows of sequences."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.viewer.played import write_episodes, write_sequences
from tests.viewer.serving import client_of

import bushel


def level(client: Any, query: str) -> int:
    """Return the grey level of a thumbnail."""
    return int(np.asarray(Image.open(io.BytesIO(client.get(f"/d/0/thumb?{query}").content)))[4, 4, 0])


def test_frames_and_channels_of_a_sample_play_together(tmp_path: Path) -> None:
    with client_of(write_sequences(tmp_path / "data")) as client:
        found = client.get("/api/0/tracks/1").json()
        assert (found["title"], found["steps"], found["first"], found["errors"]) == ("clip1", 13, None, [])
        frames, actions = found["tracks"]
        assert frames == {"field": "frames", "kind": "pictures", "count": 13}
        assert (actions["kind"], actions["values"][3]) == ("channels", [3, 1])
        assert "/d/0/play/1" in client.get("/d/0/s/1").text
        assert "clip1" in client.get("/d/0/play/1").text
        assert client.get("/api/0/tracks/3").status_code == 404


def test_an_episode_plays_from_the_sample_on(tmp_path: Path) -> None:
    with client_of(write_episodes(tmp_path / "data")) as client:
        found = client.get("/api/0/tracks/8").json()
        assert (found["title"], found["first"], found["start"], found["steps"]) == ("episode 1", 5, 3, 7)
        assert found["rate"] == pytest.approx(20, rel=1e-3)
        camera, state = found["tracks"]
        assert (camera["kind"], camera["count"]) == ("pictures", 7)
        assert state["values"][1:3] == [[1, 1], [2, None]]  # NaN
        assert client.get("/api/0/tracks/12").status_code == 404


def test_a_dataset_with_episodes_opens_by_episodes(tmp_path: Path) -> None:
    path = write_episodes(tmp_path / "data")
    with client_of(path) as client:
        assert client.get("/", follow_redirects=False).headers["location"] == "/d/0?by=episodes"
        assert 'href="/d/0?by=episodes"' in client.get("/d/0/s/3").text
        assert '<option value="episodes" selected>' in client.get("/d/0?by=episodes").text
        found = client.get("/api/0/rows?by=episodes").json()
        assert (found["total"], [row["position"] for row in found["rows"]]) == (2, [0, 5])
        assert found["rows"][1]["values"][0] == ["episode", "episode 1, 7 samples"]
        some = client.get("/api/0/rows?by=episodes&where=timestamp>0.1&sort=-timestamp").json()["rows"]
        assert [row["position"] for row in some] == [11, 4]
        assert client.get("/api/0/rows").json()["total"] == 12
    with client_of(bushel.open(path)[[0, 5, 1, 6, 2]]) as client:  # steps that are apart
        assert client.get("/", follow_redirects=False).headers["location"] == "/d/0"
        assert client.get("/api/0/rows?by=episodes").status_code == 400


def test_pictures_come_before_curves(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"state": "array", "frames": "png[]"}, container="bag") as writer:
        writer.append({"state": np.zeros((2, 3), np.float32), "frames": [np.zeros((4, 4, 3), np.uint8)] * 2}, key="a")
    with client_of(tmp_path / "data") as client:
        tracks = client.get("/api/0/tracks/0").json()["tracks"]
        assert [track["kind"] for track in tracks] == ["pictures", "channels"]
        text = client.get("/d/0/s/0").text
        assert text.index('">frames <small>') < text.index('">state <small>')


def test_a_sample_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"frames": "png[]", "state": "array"}, container="bag") as writer:
        writer.append({"frames": [np.zeros((4, 4, 3), np.uint8)] * 2, "state": b"no array"}, key="a")
    with client_of(tmp_path / "data") as client:
        found = client.get("/api/0/tracks/0").json()
        assert [each["field"] for each in found["tracks"]] == ["frames"]
        assert found["errors"][0].startswith("state: ")


def test_windows_have_their_own_elements(tmp_path: Path) -> None:
    windows = bushel.open(write_sequences(tmp_path / "data")).windows("frames", 4, hop=4, also=["actions"])
    with client_of(windows) as client:
        rows = client.get("/api/0/rows").json()["rows"]
        assert [row["key"] for row in rows[:4]] == ["clip0@0", "clip0@4", "clip0@8", "clip1@0"]
        assert rows[1]["values"][0] == ["window", "frames 4 to 7 (4), actions 4 to 7 (4)"]
        text = client.get("/d/0/s/1").text
        assert "window: frames 4 to 7 (4)" in text
        assert "4 elements" in text
        assert "<dd>4 × 2</dd>" in text
        assert level(client, "i=1&f=frames&e=0") == 40
        assert client.get("/d/0/thumb?i=1&f=frames&e=4").status_code in (404, 422)
        found = client.get("/api/0/tracks/2").json()
        assert [each["count"] for each in found["tracks"]] == [4, 4]
        assert found["tracks"][1]["values"][0] == [8, 0]
        assert client.get("/api/0/export?as=keys").text.split()[:2] == ["clip0@0", "clip0@4"]


def test_views_of_windows_have_their_own_elements(tmp_path: Path) -> None:
    windows = bushel.open(write_sequences(tmp_path / "data")).windows("frames", 4, hop=4)
    with client_of(windows[2:]) as client:
        assert client.get("/api/0/rows").json()["rows"][0]["key"] == "clip0@8"
        assert level(client, "i=0&f=frames&e=0") == 80


def test_what_pads_windows_has_no_size(tmp_path: Path) -> None:
    windows = bushel.open(write_sequences(tmp_path / "data")).windows("frames", 4, hop=4, pad=True)
    with client_of(windows) as client:
        rows = client.get("/api/0/rows?columns=1").json()["rows"]
        assert "label" in rows[0]["columns"]
        assert client.get("/d/0?view=table").status_code == 200
        assert client.get("/d/0/s/3").status_code == 200
