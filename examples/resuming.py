"""The training loop of other examples: a checkpoint after every tenth step, from which the next call continues."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import bushel

EVERY = 10

torch.set_num_threads(1)  # the models are small: several threads would wait for each other


@dataclass(frozen=True)
class Run:
    """What a user asks for: `python examples/train_….py FOLDER --stop-after 25`."""

    folder: Path
    stop_after: int | None

    @classmethod
    def asked(cls, description: str) -> Run:
        """Read the command line, and create the folder."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("folder", type=Path, help="for the dataset and the checkpoint")
        parser.add_argument("--stop-after", type=int, help="steps after which to stop")
        options = parser.parse_args()
        options.folder.mkdir(parents=True, exist_ok=True)
        return cls(options.folder, options.stop_after)

    def made(self, name: str, write: Callable[[Path], None]) -> Path:
        """Return the path of a dataset, which is written if it does not exist."""
        if not (self.folder / name).exists():
            write(self.folder / name)
        return self.folder / name


def train(
    run: Run,
    model: nn.Module,
    loader: bushel.Loader[Any],
    loss_of: Callable[[dict[str, Any]], torch.Tensor],
    epochs: int,
    rate: float = 0.003,
) -> bool:
    """Train a model for a number of epochs. Return whether they are complete; otherwise the user's stop was reached."""
    optimizer = torch.optim.Adam(model.parameters(), rate)
    states: dict[str, Any] = {"model": model, "optimizer": optimizer, "loader": loader}
    checkpoint, steps, losses = run.folder / "checkpoint.pt", 0, list[float]()
    if checkpoint.exists():
        saved: dict[str, Any] = torch.load(checkpoint)
        for name, one in states.items():
            one.load_state_dict(saved[name])
        steps = saved["steps"]
        print(f"going on at step {steps}, in epoch {loader.epoch}")
    for _ in range(loader.epoch, epochs):
        for batch in loader:
            loss = loss_of(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            steps += 1
            if steps % EVERY == 0:
                torch.save({name: one.state_dict() for name, one in states.items()} | {"steps": steps}, checkpoint)
            if steps == run.stop_after:
                print(f"stopped after step {steps}")
                return False
    if losses:
        print(f"loss {losses[0]:.4f} at first, {losses[-1]:.6f} after {steps} steps")
    return True
