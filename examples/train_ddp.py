"""Train on several processes with PyTorch's DistributedDataParallel, on the CPU here.

    torchrun --nproc-per-node 2 examples/train_ddp.py run

The loader takes rank and world size from torch.distributed. Each rank loads its part of every global batch, so every
sample of an epoch is loaded once. `pad="wrap"` gives all ranks the same number of batches, since they wait for each
other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.distributed as dist

# Imported before there is a process group: the default arguments of its functions keep a group that exists by then, and
# DistributedDataParallel imports it. Threads of a group that is kept outlive destroy_process_group(), and abort the
# program if they release a tensor while Python shuts down.
import torch.distributed.nn
from shapes import open_shapes, write_shapes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW

EPOCHS, BATCH = 2, 16


def train(folder: Path) -> None:
    """Train as one of the ranks."""
    torch.manual_seed(0)
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        write_shapes(folder / "shapes")
    dist.barrier()

    loader = bushel.Loader(
        open_shapes(folder / "shapes"),
        BATCH,  # of one rank
        shuffle=True,
        pad="wrap",
        transforms={
            "image": [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()]
        },
        to="torch",
        workers=1,
    )
    network = nn.Sequential(nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 2))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(EPOCHS):
        epoch, keys, total = loader.epoch, [], torch.zeros(2)
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
            keys += batch["__key__"]
        dist.all_reduce(total)
        everyone: list[list[str]] = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(everyone, keys)
        if dist.get_rank() == 0:
            seen = {key for part in everyone for key in part}
            parts = ", ".join(str(len(part)) for part in everyone)
            print(f"epoch {epoch}: loss {total[0] / total[1]:.4f}, {len(seen)} different samples; by rank {parts}")


def main() -> None:
    """Join the process group, train, and leave it."""
    parser = argparse.ArgumentParser(description="Data-parallel training.")
    parser.add_argument("folder", type=Path, help="folder of the dataset")
    folder = parser.parse_args().folder
    dist.init_process_group("gloo")
    train(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
