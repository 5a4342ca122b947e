"""Which of how many training processes this one is."""

from __future__ import annotations

import os
import sys

__all__ = ["detect_rank"]


def detect_rank(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """The rank and the number of ranks.

    Arguments win; then an initialised torch.distributed, then an initialised JAX cluster (both only when the program
    has imported them already), then the environment's `RANK` and `WORLD_SIZE`; else it is rank 0 of 1.

    Raises:
        ValueError: Only one of the two arguments or variables is given, or they are no such pair.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(f"rank and world_size go together: rank={rank}, world_size={world_size}")
    if rank is None or world_size is None:
        rank, world_size = _from_torch() or _from_jax() or _from_environment() or (0, 1)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of world_size={world_size}: ranks are counted from 0")
    return rank, world_size


def _from_torch() -> tuple[int, int] | None:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    # jax.process_count() of a program that never joined a cluster would start its devices, so it is not asked
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
            f"the environment has RANK={given[0]!r} and WORLD_SIZE={given[1]!r}, no pair of numbers: set both, or "
            f"neither, or give Loader(rank=, world_size=)"
        ) from None
