"""Write a dataset with a depth camera and columns of language with LeRobot, read it with LeRobot, and print the values.

    python lerobot_depth.py OUT

Each line is a frame; the depths of all frames, in metres, are in OUT.npz.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lerobot.datasets import language
from lerobot.datasets.lerobot_dataset import LeRobotDataset

FPS, LENGTHS = 10, (7, 5)
CAMERA = "observation.images.depth"


def depth(episode: int, frame: int) -> np.ndarray:
    """Return depths in millimetres, whose quantised values change slowly from pixel to pixel."""
    return (np.add.outer(np.arange(64) * 20, np.arange(96) * 15) + 300 + 100 * frame + 500 * episode)[..., None].astype(
        np.uint16
    )


def write(root: Path) -> None:
    """Write the dataset, and add the columns of language to it as LeRobot's annotations do."""
    features: dict[str, Any] = {
        "action": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
        CAMERA: {
            "dtype": "video",
            "shape": (64, 96, 1),
            "names": ["height", "width", "channels"],
            "info": {"is_depth_map": True},
        },
    }
    made = LeRobotDataset.create("local/deep", FPS, features, root=root, use_videos=True, video_backend="pyav")
    for episode, length in enumerate(LENGTHS):
        for frame in range(length):
            action = np.array([episode, frame, 0.5], np.float32)
            made.add_frame({"action": action, CAMERA: depth(episode, frame), "task": "reach"})
        made.save_episode()
    made.finalize()
    for path in sorted((root / "data").rglob("*.parquet")):
        add_language(path)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"] |= language.language_feature_info()
    (root / "meta/info.json").write_text(json.dumps(info))


def add_language(path: Path) -> None:
    """Add both columns of language to a file of rows."""
    table = pq.read_table(path)
    persistent, events = [], []
    for row in range(table.num_rows):
        plan = {"role": "assistant", "content": f"plan {row % 2}", "style": "plan", "camera": None, "tool_calls": None}
        persistent.append([plan | {"timestamp": 0.5}])
        asked = {"role": "user", "content": f"what is at {row}?", "style": "interjection", "camera": None}
        events.append([asked | {"tool_calls": None}] if row % 3 == 0 else [])
    table = table.append_column(language.LANGUAGE_PERSISTENT, pa.array(persistent))
    table = table.append_column(language.LANGUAGE_EVENTS, pa.array(events))
    pq.write_table(table, path)


def main() -> None:
    """Write, read and print."""
    root = Path(sys.argv[1])
    write(root)
    dataset = LeRobotDataset("local/deep", root=root, video_backend="pyav", depth_output_unit="m")
    depths = []
    for place in range(len(dataset)):
        frame = dataset[place]
        depths.append(np.asarray(frame.pop(CAMERA)).squeeze())
        plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in frame.items()}
        print(json.dumps(plain))
    np.savez(f"{root}.npz", depths=np.stack(depths))


if __name__ == "__main__":
    main()
