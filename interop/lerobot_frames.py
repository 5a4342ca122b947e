"""Write a dataset with LeRobot, read it with LeRobot, and print the values.

    python lerobot_frames.py OUT

Each line is a frame: its numbers and its task, with the digests of arrays; the place of its pictures in OUT.npz; and
what `delta_timestamps` gives around it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

FPS, LENGTHS = 10, (9, 14, 1, 12)
CAMERAS = ("observation.images.top", "observation.images.wrist")
DELTAS = {
    "action": [-0.2, 0.0, 0.1, 0.5],
    "observation.state": [0.0],
    CAMERAS[0]: [-0.3, -0.1, 0.0],
}


def picture(episode: int, frame: int, camera: int) -> np.ndarray:
    """Return a picture that is told from all others by its colours."""
    made = np.zeros((96, 128, 3), np.uint8)
    made[..., 0] = 40 * episode + 60 * camera
    made[..., 1] = np.arange(128) + 4 * frame
    made[..., 2] = 16 * frame
    return made


def write(root: Path) -> None:
    """Write the dataset."""
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": (6,), "names": [f"j{number}" for number in range(6)]},
        "action": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
        "reward": {"dtype": "float32", "shape": (1,), "names": None},
        "done": {"dtype": "bool", "shape": (1,), "names": None},
    }
    for camera in CAMERAS:
        features[camera] = {"dtype": "video", "shape": (96, 128, 3), "names": ["height", "width", "channels"]}
    made = LeRobotDataset.create("local/robot", FPS, features, root=root, use_videos=True, video_backend="pyav")
    rng = np.random.default_rng(7)
    for episode, length in enumerate(LENGTHS):
        for frame in range(length):
            own = {
                "observation.state": rng.normal(size=6).astype(np.float32),
                "action": rng.normal(size=3).astype(np.float32),
                "reward": np.array([episode + frame / 8], np.float32),
                "done": np.array([frame + 1 == length]),
                "task": f"task {episode % 2}",
            }
            made.add_frame(own | {camera: picture(episode, frame, number) for number, camera in enumerate(CAMERAS)})
        made.save_episode()
    made.finalize()


def shown(value: Any) -> Any:
    """Return a value as JSON: an array by its shape and digest."""
    if not hasattr(value, "numpy"):
        return value
    array = value.numpy()
    if not array.ndim:
        return array.item()
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": digest}


def pixels(value: Any) -> np.ndarray:
    """Return pictures as uint8, with colours last."""
    return np.moveaxis(np.rint(value.numpy() * 255).astype(np.uint8), -3, -1)


def main() -> None:
    """Write, read and print."""
    root = Path(sys.argv[1])
    write(root)
    plain = LeRobotDataset("local/robot", root=root, video_backend="pyav")
    around = LeRobotDataset("local/robot", root=root, video_backend="pyav", delta_timestamps=DELTAS)
    pictures: dict[str, list[np.ndarray]] = {camera: [] for camera in CAMERAS}
    windows = []
    for place in range(len(plain)):
        frame, window = plain[place], around[place]
        for camera in CAMERAS:
            pictures[camera].append(pixels(frame.pop(camera)))
        windows.append(pixels(window.pop(CAMERAS[0])))
        line = {name: shown(value) for name, value in frame.items()}
        told = {name: shown(window[name]) for name in window if name in DELTAS or name.endswith("_is_pad")}
        pads = {name: window[name].tolist() for name in window if name.endswith("_is_pad")}
        print(json.dumps({"frame": line, "window": told | pads}))
    np.savez(f"{root}.npz", windows=np.stack(windows), **{name: np.stack(each) for name, each in pictures.items()})


if __name__ == "__main__":
    main()
