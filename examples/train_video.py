"""Classify clips: short parts of videos are decoded, and never the rest.

    python examples/train_video.py run

The clips are stored unchanged (`mp4`). `fields={"video": slice(8, 24, 2)}` asks for eight of their frames, which the
loader decodes from the nearest keyframe.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

import bushel

CLIPS, FRAMES, HEIGHT, WIDTH, EPOCHS, BATCH = 24, 40, 48, 64, 4, 8
CLASSES = ("left", "right")


def write_clips(path: Path) -> None:
    """Write clips of a bar that moves to one side, if the dataset does not exist."""
    if path.exists():
        return
    rng = np.random.default_rng(0)
    with bushel.Writer(path, {"video": "mp4", "label": "int"}, container="tar", labels={"label": CLASSES}) as writer:
        for number in range(CLIPS):
            label, start = number % 2, int(rng.integers(WIDTH))
            frames = rng.integers(0, 60, (FRAMES, HEIGHT, WIDTH, 3), dtype=np.uint8)
            for time in range(FRAMES):
                at = (start + (2 * label - 1) * 2 * time) % WIDTH
                frames[time, :, at : at + 8] = 220
            writer.append({"video": frames, "label": label}, key=f"clip/{number:03d}")


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="A classifier of clips.")
    parser.add_argument("folder", type=Path, help="for the dataset")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    write_clips(folder / "clips")

    loader = bushel.Loader(
        bushel.open(folder / "clips"),
        BATCH,
        shuffle=True,
        seed=0,
        fields={"video": slice(8, 24, 2), "label": True},
        to="torch",
    )
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv3d(3, 8, (3, 5, 5), stride=(1, 4, 4)),
        nn.ReLU(),
        nn.AdaptiveMaxPool3d((6, 1, 15)),
        nn.Flatten(),
        nn.LazyLinear(2),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(EPOCHS):
        losses, shape = list[float](), (0,)
        for batch in loader:
            shape = tuple(batch["video"].shape)
            video = batch["video"].permute(0, 4, 1, 2, 3) / 128.0 - 1  # N, frames, height, width, 3 → N, 3, frames, …
            loss = nn.functional.cross_entropy(model(video), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: mean loss {np.mean(losses):.4f}; frames {shape}")


if __name__ == "__main__":
    main()
