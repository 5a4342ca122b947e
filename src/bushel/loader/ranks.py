"""The rank of this process among the training processes, from frameworks or environment variables."""

from __future__ import annotations

import os
import sys


def detect_rank(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """Return the rank of this process and the number of training processes.

    They come from the arguments; else from torch.distributed or a JAX cluster, if the program has initialised one; else
    from the environment variables `RANK` and `WORLD_SIZE`; else they are 0 and 1.

    Raises:
        ValueError: Only one of the two is given, or `rank` is not between 0 and `world_size` - 1.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(f"rank={rank}, world_size={world_size}: give both or neither")
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_jax() or _from_environment() or (0, 1)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of world_size={world_size}: expected 0 to {world_size - 1}")
    return int(rank), int(world_size)


def _from_torch() -> tuple[int, int] | None:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    # outside a cluster, jax.process_count() would initialise the devices
    if jax is None or not getattr(jax.distributed, "is_initialized", bool)():
        return None
    return jax.process_index(), jax.process_count()


def _from_environment() -> tuple[int, int] | None:
    given = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if given == (None, None):
        return None
    try:
        return int(given[0] or ""), int(given[1] or "")
    except ValueError:
        raise ValueError(
            f"the environment has RANK={given[0]!r} and WORLD_SIZE={given[1]!r}: set both to numbers, unset both, or "
            f"give Loader(rank=, world_size=)"
        ) from None
