"""Train on several processes with PyTorch's DistributedDataParallel, on the CPU here.

    torchrun --nproc-per-node 2 examples/train_ddp.py run                  two epochs, a checkpoint every 5 steps
    torchrun --nproc-per-node 2 examples/train_ddp.py run --die-after 7    one rank kills itself there
    torchrun --nproc-per-node 4 examples/train_ddp.py run                  continues, here with more ranks
    torchrun --nproc-per-node 8 examples/train_ddp.py run --data imagenet --batch 128 --side 224 --epochs 90

The last line is for ImageNet, packed by `bushel pack ILSVRC2012/train/ imagenet/ --container bag --seek`; put a model
of its size, and `device=`, in place of the small ones here.

The loader takes rank and world size from torch.distributed. Each rank loads its part of every global batch, so every
sample of an epoch is loaded once. `pad="wrap"` gives all ranks the same number of batches, since they wait for each
other. With `--record seen`, `bushel audit seen` proves it.
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# Imported before there is a process group: the default arguments of its functions keep a group that exists by then, and
# DistributedDataParallel imports it. Threads of a group that is kept outlive destroy_process_group(), and abort the
# program if they release a tensor while Python shuts down.
import torch.distributed.nn
from recorded import Recorded
from shapes import open_shapes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW

EVERY = 5


def train(options: argparse.Namespace) -> None:
    """Train as one of the ranks."""
    torch.manual_seed(0)
    data, checkpoint = options.data or options.folder / "shapes", options.folder / "checkpoint.pt"
    options.folder.mkdir(parents=True, exist_ok=True)
    ds, side = open_shapes(data) if options.data is None else bushel.open(data), options.side
    loader = bushel.Loader(
        ds,
        options.batch,  # of one rank
        shuffle=True,
        seed=0,
        pad="wrap",
        transforms={
            "image": [RandomResizedCrop(side), RandomHorizontalFlip(), Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()]
        },
        to="torch",
        threads=1,
    )
    classes = len(ds.labels.get("label", ())) or 2
    network = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(14), nn.Flatten(), nn.Linear(8 * 14 * 14, classes)
    )
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    steps = 0
    if checkpoint.exists():
        saved: dict[str, Any] = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])  # with any number of ranks, and any batch size
        steps = saved["steps"]
        if dist.get_rank() == 0:
            print(f"going on at step {steps}, in epoch {loader.epoch}")
    batches = Recorded(loader, options.record)
    for _ in range(loader.epoch, options.epochs):
        epoch, total = loader.epoch, torch.zeros(2)
        for batch in batches:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item(), 1.0])
            steps += 1
            if steps % EVERY == 0 and dist.get_rank() == 0:
                states: dict[str, Any] = {"model": model, "optimizer": optimizer, "loader": loader}
                saved = {**{name: one.state_dict() for name, one in states.items()}, "steps": steps}
                torch.save(saved, checkpoint.with_suffix(".partial"))
                os.replace(checkpoint.with_suffix(".partial"), checkpoint)  # a kill leaves the old one or the new one
            if steps == options.die_after and dist.get_rank() == dist.get_world_size() - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: mean loss {total[0] / total[1]:.4f} over {int(total[1])} steps of all ranks")


def main() -> None:
    """Join the process group, train, and leave it."""
    parser = argparse.ArgumentParser(description="Data-parallel training.")
    parser.add_argument("folder", type=Path, help="folder of the checkpoint, and of the dataset without --data")
    parser.add_argument("--data", help="a dataset with the fields image and label, such as ImageNet")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16, help="samples of a batch of one rank")
    parser.add_argument("--side", type=int, default=32, help="height and width of the crops")
    parser.add_argument("--record", type=Path, help="folder for what each rank is given; see bushel audit")
    parser.add_argument("--die-after", type=int, help="step after which the last rank kills itself")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
