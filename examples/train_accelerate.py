"""Train with Accelerate: the loader is distributed already, so `prepare` gets the model and the optimizer only.

    accelerate launch --num_processes 2 examples/train_accelerate.py run                on two GPUs
    torchrun --nproc-per-node 2 examples/train_accelerate.py run --cpu                  in two processes, without a GPU
    torchrun --nproc-per-node 2 examples/train_accelerate.py run --cpu --die-after 7    the next call continues

The last line kills its processes after the seventh step, and the next call continues after the fifth, from the
checkpoint that Accelerate saved. The loader looks up rank and world size at the first batch, when `Accelerator()` has
started the process group.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
from pathlib import Path

import torch
from accelerate import Accelerator
from recorded import Recorded
from shapes import open_shapes
from torch import nn

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW

EPOCHS, BATCH, EVERY = 2, 32, 5


def save(accelerator: Accelerator, checkpoint: Path) -> None:
    """Save a checkpoint, so that a kill leaves the one before it or this one."""
    partial = checkpoint.with_suffix(".partial")
    accelerator.save_state(str(partial))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        shutil.rmtree(checkpoint, ignore_errors=True)
        os.rename(partial, checkpoint)
    accelerator.wait_for_everyone()


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="A training loop with Accelerate.")
    parser.add_argument("folder", type=Path, help="for the dataset and the checkpoint")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--record", type=Path, help="folder for what each process is given; see bushel audit")
    parser.add_argument("--die-after", type=int, help="steps after which the processes kill themselves")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    loader = bushel.Loader(
        open_shapes(options.folder / "shapes"),
        BATCH,  # of each process
        shuffle=True,
        seed=0,
        pad="wrap",  # all processes have the same number of steps
        transforms={
            "image": [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()]
        },
        to="torch",
    )
    accelerator = Accelerator(cpu=options.cpu)
    network = nn.Sequential(nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 2))
    model, optimizer = accelerator.prepare(network, torch.optim.SGD(network.parameters(), lr=0.01))
    accelerator.register_for_checkpointing(loader)
    checkpoint, steps = options.folder / "checkpoint", 0
    loss = torch.zeros(())  # of a run that has no step left
    if checkpoint.exists():
        accelerator.load_state(str(checkpoint))
    batches = Recorded(loader, options.record)
    for _ in range(loader.epoch, EPOCHS):
        for batch in batches:
            image, label = batch["image"].to(accelerator.device), batch["label"].to(accelerator.device)
            loss = nn.functional.cross_entropy(model(image), label)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            steps += 1
            if steps % EVERY == 0:
                save(accelerator, checkpoint)
            if steps == options.die_after:
                os.kill(os.getpid(), signal.SIGKILL)
    print(f"rank {accelerator.process_index} of {accelerator.num_processes}: {steps} steps, loss {loss.item():.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
