"""Imitation learning on LeRobot data: a policy that plans four steps learns from episodes of a noisy teacher.

python examples/train_robot.py run                    trains three epochs, with a checkpoint after every tenth step
python examples/train_robot.py run --stop-after 25    stops there; the next call continues from the checkpoint

A hand has to move to a goal. `delta_timestamps` gives with each frame the state before it and the next actions; beyond
the end of an episode its last action is repeated, and `action_is_pad` says where.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet
from resuming import Run, train
from torch import nn

import bushel

FPS, EPISODES, STEPS, PLAN, EPOCHS = 10, 60, 40, 4, 3


def write(root: Path) -> None:
    """Write a LeRobot dataset, version 3: the hand and its goal as state, the velocity as action."""
    rng, rows, lengths = np.random.default_rng(0), list[dict[str, Any]](), list[int]()
    for episode in range(EPISODES):
        hand, goal = rng.uniform(-1, 1, (2, 2))
        lengths.append(int(rng.integers(STEPS // 2, STEPS)))
        for frame in range(lengths[-1]):
            action = np.clip(goal - hand, -0.1, 0.1) + rng.normal(0, 0.02, 2)
            row = {"observation.state": np.concatenate([hand, goal]), "action": action, "timestamp": frame / FPS}
            rows.append(row | {"frame_index": frame, "episode_index": episode, "index": len(rows), "task_index": 0})
            hand = hand + action
    features = {"observation.state": {"dtype": "float32", "shape": [4]}, "action": {"dtype": "float32", "shape": [2]}}
    types = {"observation.state": pa.list_(pa.float32(), 4), "action": pa.list_(pa.float32(), 2)}
    columns = {name: pa.array([row[name] for row in rows], types.get(name)) for name in rows[0]}
    episodes: dict[str, Any] = {"episode_index": range(EPISODES), "length": lengths}
    episodes |= dict.fromkeys(("data/chunk_index", "data/file_index"), [0] * EPISODES)
    for folder, table in {"data": columns, "meta/episodes": episodes}.items():
        (root / folder / "chunk-000").mkdir(parents=True)
        parquet.write_table(pa.table(table), root / folder / "chunk-000/file-000.parquet")
    parquet.write_table(pa.table({"task_index": [0], "__index_level_0__": ["move"]}), root / "meta/tasks.parquet")
    info: dict[str, Any] = {"codebase_version": "v3.0", "fps": FPS, "total_frames": len(rows), "features": features}
    info["data_path"] = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    (root / "meta/info.json").write_text(json.dumps(info))


def main() -> None:
    """Train."""
    run = Run.asked("Imitation learning on LeRobot data.")
    wanted = {"observation.state": [-1 / FPS, 0], "action": [step / FPS for step in range(PLAN)]}
    frames = bushel.open(run.made("robot", write), delta_timestamps=wanted)
    loader = bushel.Loader(frames, 64, shuffle=True, seed=0, to="torch")
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2 * PLAN), nn.Unflatten(1, (PLAN, 2))
    )

    def loss_of(batch: dict[str, Any]) -> torch.Tensor:
        wrong = (model(batch["observation.state"].float()) - batch["action"]) ** 2
        return wrong[~batch["action_is_pad"]].mean()

    if train(run, model, loader, loss_of, EPOCHS, 0.01):
        torch.manual_seed(1)
        states = [torch.rand(100, 4) * 2 - 1] * 2
        for _ in range(STEPS // PLAN):
            plan = model(torch.stack(states[-2:], 1)).detach()
            states += [states[-1] + nn.functional.pad(part, (0, 2)) for part in plan.cumsum(1).unbind(1)]
        away = (states[-1][:, :2] - states[-1][:, 2:]).norm(dim=1)
        print(f"{int((away < 0.1).sum())} of {len(away)} new goals are reached")


if __name__ == "__main__":
    main()
