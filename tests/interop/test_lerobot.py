"""LeRobot's datasets: every value and every picture as LeRobot itself reads them."""

from __future__ import annotations

import hashlib
import random
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


@pytest.mark.parametrize("version", ["lerobot", "lerobot-0.6"])
def test_frames_are_those_of_lerobot(version: str, original: Callable[[str], Original], tmp_path: Path) -> None:
    pytest.importorskip("av")
    wanted = original(version)("lerobot_frames.py", tmp_path / "robot")
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
    order = random.Random(3).sample(range(len(wanted)), len(wanted))
    for place, sample in zip(order, near.read(order), strict=True):
        assert_window(sample, wanted[place]["window"], pictures["windows"][place], f"around frame {place}")
    places = {key: place for place, key in enumerate(near.keys)}
    seen = []
    fields = [*DELTAS, *(f"{name}_is_pad" for name in DELTAS)]
    for batch in bushel.Loader(near, 5, fields=fields, shuffle=True, seed=4, threads=2):
        for row, key in enumerate(batch["__key__"]):
            place = places[key]
            sample = {name: values[row] for name, values in batch.items() if name != "__key__"}
            assert_window(sample, wanted[place]["window"], pictures["windows"][place], f"around frame {place}")
            seen.append(place)
    assert sorted(seen) == list(range(len(wanted)))


def assert_window(sample: dict[str, Any], wanted: dict[str, Any], pictures: Any, name: str) -> None:
    """Compare the neighbours of a frame: values and flags exactly, pictures but for the conversion to RGB."""
    assert np.abs(sample[CAMERAS[0]].astype(int) - pictures).max() <= 2, name
    for field, value in wanted.items():
        if field.endswith("_is_pad"):
            assert sample[field].tolist() == value, f"{field} {name}"
        else:
            assert_same(sample[field], value, f"{field} {name}")


def test_depths_and_language_are_those_of_lerobot(original: Callable[[str], Original], tmp_path: Path) -> None:
    pytest.importorskip("av")
    wanted = original("lerobot-0.6")("lerobot_depth.py", tmp_path / "deep")
    depths = np.load(tmp_path / "deep.npz")["depths"]
    frames = bushel.open(tmp_path / "deep")
    assert len(frames) == len(wanted)
    for place, line in enumerate(wanted):
        sample = dict(frames[place])
        assert sample.pop("__key__") == str(place)
        found = np.asarray(sample.pop("observation.images.depth"), np.float64).squeeze()
        assert np.abs(found - depths[place]).max() <= 1e-6  # LeRobot computes in float32
        plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in sample.items()}
        assert plain == line
