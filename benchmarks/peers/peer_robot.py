"""Windows of robots with LeRobot: ``write FOLDER CAMERAS EPISODES FRAMES`` or ``read FOLDER CAMERAS BACKEND WORKERS``.

``tables FOLDER`` makes tables of Lance of a dataset, in ``FOLDER-lance``, if `lerobot-lancedb` is installed.

`read` prints a line of JSON for each line of standard input, which is a JSON list of batches of frame numbers: it takes
these batches from PyTorch's DataLoader, with that number of worker processes, and prints their time. The backend is a
decoder of LeRobotDataset, or `lance`: the tables of Lance, from a folder or from S3.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

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


def tables(root: str) -> None:
    """Write the same dataset as tables of Lance."""
    if find_spec("lerobot_lancedb") is not None:
        from lerobot_lancedb.convert import convert

        convert(Path(f"{root}-lance"), root=Path(root))


def processor_seconds() -> float:
    """Return the CPU time of this process and of its workers, in seconds."""
    ticks = 0
    for worker in multiprocessing.active_children():
        after_name = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(after_name[11]) + int(after_name[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def lance_dataset(root: str, deltas: dict[str, list[float]]) -> torch.utils.data.Dataset:
    """Open tables of Lance, whose pictures stay uint8."""
    from lerobot_lancedb import LanceDBDataset

    options = None
    if root.startswith("s3://"):
        options = {"aws_endpoint": os.environ["AWS_ENDPOINT_URL"], "allow_http": "true"}
    return LanceDBDataset(root=root, delta_timestamps=deltas, return_uint8=True, storage_options=options)


def read(root: str, count: int, backend: str, workers: int) -> None:
    """Read batches as they are asked for."""
    torch.set_num_threads(2)
    deltas = {"action": [number / FPS for number in range(16)], "observation.state": [0.0]}
    deltas |= dict.fromkeys(cameras(count), [-0.1, 0.0])
    if backend == "lance":
        dataset = lance_dataset(root, deltas)
    else:
        dataset = LeRobotDataset("local/robot", root=root, video_backend=backend, delta_timestamps=deltas)
    asked: list[list[int]] = []  # the batches of a round, for a DataLoader that is kept
    context = "forkserver" if workers else None
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_sampler=asked,
        num_workers=workers,
        persistent_workers=bool(workers),
        multiprocessing_context=context,
    )
    for line in sys.stdin:
        asked[:] = json.loads(line)
        wall, cpu = time.perf_counter(), processor_seconds()
        windows = sum(len(batch["action"]) for batch in loader)
        timing = {"items": windows, "wall": time.perf_counter() - wall, "cpu": processor_seconds() - cpu}
        print(json.dumps(timing), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], *map(int, sys.argv[3:]))
    elif sys.argv[1] == "tables":
        tables(sys.argv[2])
    else:
        read(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
