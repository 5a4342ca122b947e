"""Train a Lightning module: the loader goes into `fit`, and its state into Lightning's checkpoints.

    python examples/train_lightning.py run                two epochs, with a checkpoint after every fifth step
    python examples/train_lightning.py run --die-after 7  kills itself there; the next call continues
    python examples/train_lightning.py run --devices 2    two processes that Lightning starts
    srun --ntasks 2 python examples/train_lightning.py run --devices 2    two that Slurm starts

With several devices, Lightning must not add a sampler of its own: `use_distributed_sampler=False`. The loader looks up
rank and world size at the first batch, when Lightning has made the process group.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from recorded import Recorded
from shapes import open_shapes
from torch import nn

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW

EPOCHS, BATCH = 2, 32


class Classifier(lightning.LightningModule):  # type: ignore[misc] # Lightning is not installed where types are checked
    """A small convolutional network.

    Args:
        die_after: The step after which the process kills itself, or None.
    """

    def __init__(self, die_after: int | None = None) -> None:
        super().__init__()
        self.die_after = die_after
        self.network = nn.Sequential(nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 2))
        self.keys: list[str] = []

    def training_step(self, batch: dict[str, Any], number: int) -> torch.Tensor:
        """Return the loss of a batch."""
        self.keys += batch["__key__"]
        return nn.functional.cross_entropy(self.network(batch["image"]), batch["label"])

    def on_train_batch_end(self, *batch: Any) -> None:
        """Die, if it is time."""
        if self.global_step == self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_fit_end(self) -> None:
        """Say what this process was given."""
        print(f"{self.global_step} steps, {len(self.keys)} samples here, {len(set(self.keys))} different ones")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="A Lightning module.")
    parser.add_argument("folder", type=Path, help="for the dataset and the checkpoint")
    parser.add_argument("--devices", type=int, default=1, help="number of processes")
    parser.add_argument("--strategy", default="ddp", help="how Lightning starts them: ddp, ddp_spawn")
    parser.add_argument("--record", type=Path, help="folder for what each process is given; see bushel audit")
    parser.add_argument("--die-after", type=int, help="steps after which the processes kill themselves")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    checkpoint = options.folder / "last.ckpt"

    lightning.seed_everything(0, verbose=False)
    loader = bushel.Loader(
        open_shapes(options.folder / "shapes"),
        BATCH,
        shuffle=True,
        seed=0,
        pad="wrap",  # all processes have the same number of steps
        transforms={
            "image": [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()]
        },
        to="torch",
    )
    model = Classifier(options.die_after)
    saving = ModelCheckpoint(
        dirpath=options.folder, filename="last", every_n_train_steps=5, enable_version_counter=False
    )
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=options.devices,
        strategy=options.strategy if options.devices > 1 else "auto",
        use_distributed_sampler=False,
        logger=False,
        callbacks=[saving],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, Recorded(loader, options.record), ckpt_path=str(checkpoint) if checkpoint.exists() else None)


if __name__ == "__main__":
    main()
