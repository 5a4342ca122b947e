"""The rank of this process among the training processes, from frameworks or environment variables."""

from __future__ import annotations

import os
import sys

from bushel.loader.checks import check_count


def detect_rank(rank: int | None = None, world_size: int | None = None, *, may_change: bool = False) -> tuple[int, int]:
    """Return the rank of this process and the number of training processes.

    They come from the arguments; else from torch.distributed or a JAX cluster, if the program has initialised one; else
    from the environment variables `RANK` and `WORLD_SIZE`; else they are 0 and 1.

    Args:
        rank: The rank, if it is given.
        world_size: The number of processes, if it is given.
        may_change: Whether they will be looked up again. Then `WORLD_SIZE` alone, which Lightning sets in the processes
            that it starts, is not an error yet.

    Raises:
        TypeError: One is not a whole number.
        ValueError: Only one of the two is given, or `rank` is not between 0 and `world_size` - 1.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(f"rank={rank}, world_size={world_size}: give both or neither")
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_jax() or _from_environment(may_change=may_change) or (0, 1)
    size = check_count("world_size", world_size, least=1)
    return check_count("rank", rank, most=size - 1, instead=f" in world_size={size}"), size


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


def _from_environment(*, may_change: bool) -> tuple[int, int] | None:
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and (world_size is None or may_change):
        return None
    try:
        return int(rank or ""), int(world_size or "")
    except ValueError:
        raise ValueError(
            f"the environment has RANK={rank!r} and WORLD_SIZE={world_size!r}: set both to numbers, unset both, or "
            f"give Loader(rank=, world_size=)"
        ) from None
