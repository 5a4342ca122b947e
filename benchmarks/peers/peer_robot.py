"""Windows of robots with LeRobot: ``write FOLDER CAMERAS EPISODES FRAMES`` or ``read FOLDER CAMERAS BACKEND``.

`read` prints a line of JSON for each line of standard input, which is a JSON list of batches of frame numbers: it takes
these batches from LeRobotDataset as PyTorch's DataLoader would, in this process, and prints their time.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

FPS = 10


def cameras(count: int) -> list[str]:
    """Return the names of the cameras."""
    return [f"observation.images.camera{number}" for number in range(count)]


def write(root: str, count: int, episodes: int, frames: int) -> None:
    """Write a dataset with cameras of 320 × 240 pixels, a state and an action."""
    video = {"dtype": "video", "shape": (240, 320, 3), "names": ["height", "width", "channels"]}
    features = dict.fromkeys(cameras(count), video) | {
        "observation.state": {"dtype": "float32", "shape": (14,), "names": [f"j{number}" for number in range(14)]},
        "action": {"dtype": "float32", "shape": (14,), "names": [f"a{number}" for number in range(14)]},
    }
    written = LeRobotDataset.create("local/robot", FPS, features, root=root, use_videos=True, video_backend="pyav")
    rng = np.random.default_rng(7)
    for episode in range(episodes):
        scene = np.kron(rng.integers(0, 255, (15, 20, 3)), np.ones((16, 16, 1))).astype(np.uint8)
        for frame in range(frames):
            picture = np.roll(scene, (frame, 3 * frame), (0, 1))
            state = rng.normal(size=14).astype(np.float32)
            sample = {"observation.state": state, "action": state + 1, "task": f"task {episode % 3}"}
            pictures = {name: np.roll(picture, 40 * number, 1) for number, name in enumerate(cameras(count))}
            written.add_frame(sample | pictures)
        written.save_episode()
    written.finalize()


def read(root: str, count: int, backend: str) -> None:
    """Read batches as they are asked for."""
    torch.set_num_threads(2)
    deltas = {"action": [number / FPS for number in range(16)], "observation.state": [0.0]}
    deltas |= dict.fromkeys(cameras(count), [-0.1, 0.0])
    dataset = LeRobotDataset("local/robot", root=root, video_backend=backend, delta_timestamps=deltas)
    for line in sys.stdin:
        batches = json.loads(line)
        wall, cpu = time.perf_counter(), time.process_time()
        loader = torch.utils.data.DataLoader(dataset, batch_sampler=batches)
        windows = sum(len(batch["action"]) for batch in loader)
        timing = {"items": windows, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps(timing), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        read(sys.argv[2], int(sys.argv[3]), sys.argv[4])
