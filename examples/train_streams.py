"""Learn from streams of different rates: pictures at 24 to 30 Hz by episode, joints at 100 Hz, read at one time.

python examples/train_streams.py run                    trains twelve epochs, with a checkpoint after every tenth step
python examples/train_streams.py run --stop-after 25    stops there; the next call continues from the checkpoint

A window is half a second: five pictures, ten in a second, and the 50 joints of that time. The model sees the pictures
and says how fast the arm moves, which it can only learn if both are of the same time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from resuming import Run, train
from torch import nn

import bushel
from bushel.loader import RandomWindow

EPISODES, NEW, PIXELS, SECONDS, EPOCHS = 96, 16, 24, 4, 12
SPEC = {"camera": f"array(uint8,-1,{PIXELS})", "camera.time": "array(float64,-1)", "joints": "array(float32,-1,1)"}


def write(path: Path) -> None:
    """Write episodes of an arm that swings: pictures of one line with their time stamps, and the speed of the arm."""
    rng = np.random.default_rng(0)
    with bushel.Writer(path, SPEC, container="bag") as writer:
        for number in range(EPISODES + NEW):
            rate, pace, phase = (24, 25, 30)[number % 3], rng.uniform(2, 5), rng.uniform(0, 6)
            jitter = rng.uniform(0, 0.3 / rate, SECONDS * rate)
            shown, felt = np.arange(SECONDS * rate) / rate + jitter, np.arange(SECONDS * 100) / 100
            places = (np.sin(pace * shown + phase) + 1) / 2 * (PIXELS - 1)
            away = np.abs(np.arange(PIXELS) - places[:, None])
            pictures = (255 * np.clip(1.5 - away, 0, 1)).astype(np.uint8)
            speeds = (np.cos(pace * felt + phase) * pace / 5).astype(np.float32)[:, None]
            writer.append({"camera": pictures, "camera.time": shown, "joints": speeds}, key=f"episode/{number:03d}")


def main() -> None:
    """Train."""
    run = Run.asked("Streams of different rates.")
    episodes = bushel.open(run.made("streams", write))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(5 * PIXELS, 64), nn.ReLU(), nn.Linear(64, 5))

    def loss_of(batch: dict[str, Any]) -> torch.Tensor:
        speeds = batch["joints"].reshape(-1, 5, 10).mean(2)
        return nn.functional.mse_loss(model(batch["camera"] / 255.0), speeds)

    loader = bushel.Loader(
        episodes[:EPISODES],
        8,
        shuffle=True,
        seed=0,
        fields={
            "camera": RandomWindow(5, fps=10, times="camera.time"),
            "joints": RandomWindow(50, like="camera", times=100.0),
        },
        to="torch",
    )
    if train(run, model, loader, loss_of, EPOCHS, 0.01):
        times: dict[str, float | str] = {"camera": "camera.time", "joints": 100.0}
        windows = episodes[EPISODES:].windows("camera", 5, fps=10, times=times, take={"joints": "all"})
        [batch] = bushel.Loader(windows, len(windows), to="torch")
        with torch.no_grad():
            wrong = loss_of(batch).item()
        spread = batch["joints"].var().item()
        print(f"{1 - wrong / spread:.2f} of the speed in {len(windows)} windows of new episodes is explained")


if __name__ == "__main__":
    main()
