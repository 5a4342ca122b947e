"""Windows of robots' episodes with LeRobot: ``peer_robot.py write FOLDER EPISODES FRAMES`` or ``read FOLDER BACKEND``.

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

FPS, CAMERA = 10, "observation.images.top"
DELTAS = {"action": [number / FPS for number in range(16)], CAMERA: [-0.1, 0.0], "observation.state": [0.0]}


def write(root: str, episodes: int, frames: int) -> None:
    """Write a dataset with a camera of 320 × 240 pixels, a state and an action."""
    features = {
        "observation.state": {"dtype": "float32", "shape": (14,), "names": [f"j{number}" for number in range(14)]},
        "action": {"dtype": "float32", "shape": (14,), "names": [f"a{number}" for number in range(14)]},
        CAMERA: {"dtype": "video", "shape": (240, 320, 3), "names": ["height", "width", "channels"]},
    }
    made = LeRobotDataset.create("local/robot", FPS, features, root=root, use_videos=True, video_backend="pyav")
    rng = np.random.default_rng(7)
    for episode in range(episodes):
        scene = np.kron(rng.integers(0, 255, (15, 20, 3)), np.ones((16, 16, 1))).astype(np.uint8)
        for frame in range(frames):
            picture = np.roll(scene, (frame, 3 * frame), (0, 1))
            state = rng.normal(size=14).astype(np.float32)
            own = {"observation.state": state, "action": state + 1, CAMERA: picture, "task": f"task {episode % 3}"}
            made.add_frame(own)
        made.save_episode()
    made.finalize()


def read(root: str, backend: str) -> None:
    """Read batches as they are asked for."""
    torch.set_num_threads(2)
    dataset = LeRobotDataset("local/robot", root=root, video_backend=backend, delta_timestamps=DELTAS)
    for line in sys.stdin:
        batches = json.loads(line)
        wall, cpu = time.perf_counter(), time.process_time()
        loader = torch.utils.data.DataLoader(dataset, batch_sampler=batches)
        count = sum(len(batch["action"]) for batch in loader)
        timing = {"items": count, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps(timing), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        read(sys.argv[2], sys.argv[3])
