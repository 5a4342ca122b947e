"""Train with PyTorch, stop at any step, and resume with the same result.

    python examples/train_torch.py run                    two epochs, a checkpoint after every tenth step
    python examples/train_torch.py run --stop-after 13    stops there, as a job that is cut short would
    python examples/train_torch.py run                    continues from the last checkpoint

The loader's state is five values in the checkpoint. After resuming, the trainer gets the same samples and the same
crops as without the stop, so both runs end with the same loss, up to rounding.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from shapes import open_shapes
from torch import nn

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW

EPOCHS, BATCH, EVERY = 2, 32, 10

torch.set_num_threads(1)  # the model is small: several threads would wait for each other


def make_loader(dataset: bushel.Dataset) -> bushel.Loader:
    """Return crop, resizing, flip and normalisation, all fused into decoding."""
    return bushel.Loader(
        dataset,
        BATCH,
        shuffle=True,
        seed=0,
        transforms=[RandomResizedCrop(32), RandomHorizontalFlip(), Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()],
        to="torch",
    )


def make_model() -> nn.Module:
    """A small convolutional network."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(2),
    )


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="A training loop with resume.")
    parser.add_argument("folder", type=Path, help="for the data set and the checkpoint")
    parser.add_argument("--stop-after", type=int, help="steps after which to stop")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    checkpoint = options.folder / "checkpoint.pt"

    loader, model, loss = make_loader(open_shapes(options.folder / "shapes")), make_model(), torch.zeros(())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    steps = 0
    if checkpoint.exists():
        saved: dict[str, Any] = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        steps = saved["steps"]
        print(f"going on at step {steps}, in epoch {loader.epoch}")

    for _ in range(loader.epoch, EPOCHS):
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if steps % EVERY == 0:
                states: dict[str, Any] = {"model": model, "optimizer": optimizer, "loader": loader}
                saved = {name: one.state_dict() for name, one in states.items()}
                torch.save({**saved, "steps": steps}, checkpoint)
            if steps == options.stop_after:
                print(f"stopped after step {steps}")
                return
    print(f"loss after {steps} steps: {loss.item():.6f}")
    print(loader.stats())


if __name__ == "__main__":
    main()
