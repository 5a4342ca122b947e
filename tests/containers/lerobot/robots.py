"""Small LeRobot datasets, version 3, for tests: rows by pyarrow, videos of `tests.codecs.coded_clips`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.codecs.coded_clips import FRAMES, clip

__all__ = ["FPS", "Robot", "write_robot"]

FPS = 25


@dataclass(frozen=True, slots=True)
class Robot:
    """What a dataset consists of.

    Attributes:
        lengths: The frames of each episode.
        files: For each episode the number of the file with its rows.
        videos: Camera to the name of a clip of 60 frames.
        of_video: For each episode the number of its video; every video is the same clip.
        shift: Seconds that are added to the time of every row.
    """

    lengths: Sequence[int] = (20, 15, 25, 30, 30)
    files: Sequence[int] = (0, 0, 1, 1, 1)
    videos: Sequence[tuple[str, str]] = (("cam.left", "h264"), ("cam.right", "h264 with B-frames"))
    of_video: Sequence[int] = (0, 0, 0, 1, 1)
    shift: float = 0.0


def write_robot(root: Path, robot: Robot = Robot(), version: str = "v3.0") -> Path:
    """Write a dataset, and return its folder."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    first = np.cumsum([0, *robot.lengths])
    episodes: dict[str, list[Any]] = {name: [] for name in ("episode_index", "length")}
    rows: dict[int, list[dict[str, Any]]] = {}
    used: dict[int, int] = {}
    for episode, length in enumerate(robot.lengths):
        episodes["episode_index"].append(episode)
        episodes["length"].append(length)
        begin = used.get(robot.of_video[episode], 0)
        used[robot.of_video[episode]] = begin + length
        own: dict[str, float] = {"data/chunk_index": 0, "data/file_index": robot.files[episode]}
        for camera, _ in robot.videos:
            own |= {f"videos/{camera}/chunk_index": 0, f"videos/{camera}/file_index": robot.of_video[episode]}
            own |= {
                f"videos/{camera}/from_timestamp": begin / FPS,
                f"videos/{camera}/to_timestamp": used[robot.of_video[episode]] / FPS,
            }
        for name, value in own.items():
            episodes.setdefault(name, []).append(value)
        for frame in range(length):
            rows.setdefault(robot.files[episode], []).append(
                {
                    "action": [float(episode), float(frame)],
                    "timestamp": np.float32(frame / FPS + robot.shift),
                    "frame_index": frame,
                    "episode_index": episode,
                    "index": int(first[episode]) + frame,
                    "task_index": episode % 2,
                }
            )
    types = {"action": pa.list_(pa.float32(), 2), "timestamp": pa.float32()}
    for number, own_rows in rows.items():
        path = root / f"data/chunk-000/file-{number:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {name: [row[name] for row in own_rows] for name in own_rows[0]}
        parquet.write_table(pa.table({name: pa.array(each, types.get(name)) for name, each in columns.items()}), path)
    folder = root / "meta/episodes/chunk-000"
    folder.mkdir(parents=True)
    parquet.write_table(pa.table(episodes), folder / "file-000.parquet")
    tasks = pa.table({"task_index": [0, 1], "__index_level_0__": ["pick up the cube", "put it down"]})
    parquet.write_table(tasks, root / "meta/tasks.parquet")
    features: dict[str, Any] = {"action": {"dtype": "float32", "shape": [2]}}
    for camera, name in robot.videos:
        features[camera] = {"dtype": "video", "shape": [64, 96, 3]}
        for number in used:
            path = root / f"videos/{camera}/chunk-000/file-{number:03d}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(clip(name)[1])
    info = {
        "codebase_version": version,
        "fps": FPS,
        "total_frames": sum(robot.lengths),
        "features": features,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    assert max(used.values()) <= FRAMES
    return root
