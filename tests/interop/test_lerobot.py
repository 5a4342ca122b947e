"""LeRobot's datasets: every value and every picture as LeRobot itself reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

pytestmark = pytest.mark.interop

Original = Callable[..., list[dict[str, Any]]]
DELTAS = {
    "action": [-0.2, 0.0, 0.1, 0.5],
    "observation.state": [0.0],
    "observation.images.top": [-0.3, -0.1, 0.0],
}
CAMERAS = ("observation.images.top", "observation.images.wrist")


def assert_same(value: Any, wanted: Any, name: str) -> None:
    if isinstance(wanted, dict):
        assert (value.dtype.name, list(value.shape)) == (wanted["dtype"], wanted["shape"]), name
        assert hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest() == wanted["sha256"], name
    else:
        assert value == wanted, name


def test_frames_are_those_of_lerobot(original: Callable[[str], Original], tmp_path: Path) -> None:
    pytest.importorskip("av")
    wanted = original("lerobot")("lerobot_frames.py", tmp_path / "robot")
    pictures = np.load(tmp_path / "robot.npz")
    frames, episodes = bushel.open(tmp_path / "robot"), bushel.open(tmp_path / "robot", episodes=True)
    assert len(frames) == len(wanted)
    for place, line in enumerate(wanted):
        sample = dict(frames[place])
        assert sample.pop("__key__") == str(place)
        for camera in CAMERAS:
            difference = sample.pop(camera).astype(int) - pictures[camera][place]
            assert np.abs(difference).max() <= 2  # conversions to RGB differ by the version of FFmpeg
        assert sample.keys() == line["frame"].keys()
        for name, value in sample.items():
            assert_same(value, line["frame"][name], f"{name} of frame {place}")
        episode = episodes[sample["episode_index"]]
        assert_same(episode["action"][sample["frame_index"]], line["frame"]["action"], f"action of frame {place}")
    assert bushel.verify(tmp_path / "robot").ok
    near = bushel.open(tmp_path / "robot", delta_timestamps=DELTAS)
    assert len(near) == len(wanted)
    for place, line in enumerate(wanted):
        sample = near[place]
        difference = sample[CAMERAS[0]].astype(int) - pictures["windows"][place]
        assert np.abs(difference).max() <= 2
        for name, value in line["window"].items():
            if name.endswith("_is_pad"):
                assert sample[name].tolist() == value
            else:
                assert_same(sample[name], value, f"{name} around frame {place}")
