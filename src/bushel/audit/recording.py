"""Record what a loader gives to a rank: a file for each rank and epoch, and for each time that it is resumed.

After the header (`HEADER`, little-endian: magic, rank, number of ranks, epoch, first step), each step has its number of
samples (uint32) and eight bytes for each sample (`identify.digest`). `END` in the place of a number says that
the loader had no more batches.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from bushel.loader.base import detect_rank
from bushel.storage.names import inside

from .identify import Key, digests

Batch = TypeVar("Batch")

MAGIC = b"BUAUDIT1"
HEADER = struct.Struct("<8sIIQQ")
COUNT = struct.Struct("<I")
END = 0xFFFFFFFF
SUFFIX = ".audit"


def record(
    loader: Iterable[Batch],
    folder: str | os.PathLike[str],
    *,
    epoch: int = 0,
    step: int = 0,
    key: Key = None,
    rank: int | None = None,
    world_size: int | None = None,
) -> Iterator[Batch]:
    """Yield the batches of a loader, and note which samples each of them has.

    Args:
        loader: Any iterable of batches.
        folder: The folder of the run, which all its ranks share; made if it does not exist.
        epoch: The number of the epoch.
        step: The step of the first batch: how many the epoch had before the loader was resumed.
        key: The name of the field that identifies samples, or a function that takes a batch and
            returns the keys of its samples. Without it, the field `__key__` is used, and without
            that the contents: then the loader must give a sample with the same bytes each time,
            without random augmentation.
        rank: The rank of this process; by default that of torch.distributed, of JAX or of the
            environment (`RANK`), else 0.
        world_size: The number of ranks; found as the rank is.

    Raises:
        FileExistsError: This rank has recorded the same epoch from the same step before.
        TypeError: The samples of a batch cannot be distinguished: give `key`.
        KeyError: A batch has no field of the name `key`.

    Examples:
        >>> import bushel.audit
        >>> loader = bushel.Loader(ds, 4, shuffle=True, seed=0)
        >>> for batch in bushel.audit.record(loader, "runs/a"):
        ...     pass
        >>> print(bushel.audit.examine("runs/a"))
        runs/a: 1 rank, 1 epoch
        epoch 0: 3 steps, 12 samples, each of them once
        no problems
    """
    rank, world_size = detect_rank(rank, world_size)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    name = f"epoch{epoch:04d}-step{step:08d}-rank{rank:05d}-of-{world_size:05d}{SUFFIX}"
    path = inside(place, name)
    if path.exists():
        raise FileExistsError(
            f"{path}: rank {rank} has recorded epoch {epoch} from step {step} before: record each"
            " run in a folder of its own"
        )
    with open(path, "xb", buffering=0) as file:
        file.write(HEADER.pack(MAGIC, rank, world_size, epoch, step))
        for batch in loader:
            samples = digests(batch, key)
            file.write(COUNT.pack(len(samples) // 8) + samples)
            yield batch
        file.write(COUNT.pack(END))
