"""Datasets with several steps: frames and channels, and episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import bushel

__all__ = ["write_episodes", "write_sequences"]


def write_sequences(path: Path, samples: int = 3) -> Path:
    """Write samples of 12, 13, … frames of the grey levels 0, 10, …, with two channels for each frame."""
    with bushel.Writer(path, {"frames": "png[]", "actions": "array", "label": "int"}, container="bag") as writer:
        for number in range(samples):
            steps = 12 + number
            actions = np.stack([np.arange(steps), np.full(steps, number)], axis=1).astype(np.float32)
            frames = [np.full((16, 24, 3), 10 * step, np.uint8) for step in range(steps)]
            writer.append({"frames": frames, "actions": actions, "label": number}, key=f"clip{number}")
    return path


def write_episodes(path: Path) -> Path:
    """Write frames of two episodes, of 5 and 7 samples, 20 in a second."""
    spec = {"camera": "png", "state": "array", "episode_index": "int", "timestamp": "float"}
    with bushel.Writer(path, spec, container="bag") as writer:
        for episode, steps in enumerate((5, 7)):
            for step in range(steps):
                state = np.array([step, np.nan if step == 2 else episode], np.float32)
                camera = np.full((16, 24, 3), 100 * episode + 10 * step, np.uint8)
                values = {"camera": camera, "state": state, "episode_index": episode, "timestamp": step / 20}
                writer.append(values, key=f"e{episode}-{step}")
    bushel.index(path, columns="auto").close()
    return path
