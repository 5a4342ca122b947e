"""Classify clips: a part of each clip is decoded, another one in every epoch, and never the rest.

python examples/train_video.py run                    trains six epochs, with a checkpoint after every tenth step
python examples/train_video.py run --stop-after 13    stops there; the next call continues from the checkpoint

The clips are stored unchanged (`mp4`). `RandomWindow(8, step=2)` is eight of their frames, which the loader decodes
from the nearest keyframe. `windows` makes samples of all parts of the clips that the model has not seen.
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

CLIPS, NEW, HEIGHT, WIDTH, EPOCHS, BATCH = 48, 12, 48, 64, 6, 8
CLASSES = ("left", "right")


def write_clips(path: Path) -> None:
    """Write clips of a bar that moves to one side, and where their frames are."""
    rng = np.random.default_rng(0)
    with bushel.Writer(path, {"video": "mp4", "label": "int"}, container="tar", labels={"label": CLASSES}) as writer:
        for number in range(CLIPS + NEW):
            label, start = number % 2, int(rng.integers(WIDTH))
            frames = rng.integers(0, 60, (int(rng.integers(24, 48)), HEIGHT, WIDTH, 3), dtype=np.uint8)
            for time in range(len(frames)):
                at = (start + (2 * label - 1) * 2 * time) % WIDTH
                frames[time, :, at : at + 8] = 220
            writer.append({"video": frames, "label": label}, key=f"clip/{number:03d}")
    bushel.index(path, frames=True)


def make_model() -> nn.Module:
    """A network from clips (N, frames, height, width, 3) to scores of classes."""
    torch.manual_seed(0)
    layers = (nn.Conv3d(3, 8, (3, 5, 5), stride=(1, 4, 4)), nn.ReLU(), nn.AdaptiveMaxPool3d((6, 1, 15)))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 6 * 15, len(CLASSES)))


def main() -> None:
    """Train."""
    run, model = Run.asked("A classifier of clips."), make_model()
    clips = bushel.open(run.made("clips", write_clips))

    def scores(batch: dict[str, Any]) -> torch.Tensor:
        result: torch.Tensor = model(batch["video"].permute(0, 4, 1, 2, 3) / 128.0 - 1)
        return result

    loader = bushel.Loader(
        clips[:CLIPS],
        BATCH,
        shuffle=True,
        seed=0,
        fields={"video": RandomWindow(8, step=2), "label": True},
        to="torch",
    )
    if train(run, model, loader, lambda batch: nn.functional.cross_entropy(scores(batch), batch["label"]), EPOCHS):
        windows = clips[CLIPS:].windows("video", 8, step=2, hop=8)
        with torch.no_grad():
            right = sum(
                int((scores(batch).argmax(1) == batch["label"]).sum())
                for batch in bushel.Loader(windows, BATCH, to="torch")
            )
        print(f"{right} of {len(windows)} windows of new clips are right")


if __name__ == "__main__":
    main()
