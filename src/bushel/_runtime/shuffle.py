"""The order that `shuffle=` and `seed=` choose."""

from __future__ import annotations

from typing import Literal, Protocol, TypeVar

from .order import Blocks, Exact, Mixed, Order, Sequential

Shuffle = bool | Literal["exact", "blocks"] | Sequential | Exact | Blocks | None
"""The values of `shuffle=`, which mean the same in `Loader`, `pack` and `split`:

- False or None: as stored;
- True or `"exact"`: a permutation of all samples;
- `"blocks"`: blocks of neighbouring samples in random order, mixed within a window;
- an order object, such as `Blocks(len(dataset), seed=7, size=1024, window=8)`.
"""


class _Seeded(Protocol):
    @property
    def seed(self) -> int: ...


OrderT = TypeVar("OrderT", bound=_Seeded)

_WRITE = 'write False, True, "exact", "blocks" or an order such as Blocks(len(dataset), size=1024)'

_KINDS: dict[object, type[Sequential | Exact | Blocks]] = {
    None: Sequential,
    False: Sequential,
    True: Exact,
    "exact": Exact,
    "blocks": Blocks,
}


def make_order(shuffle: Shuffle, samples: int, seed: int = 0) -> Order:
    """Return the order that a user asks for with `shuffle=` and `seed=`.

    Args:
        shuffle: See `Shuffle`.
        samples: Number of samples to order.
        seed: 0 to 2**64 - 1. An order object has its own seed, so `seed` must then be 0 or equal to
            it.

    Raises:
        TypeError: `shuffle` is neither a bool, a str, None nor an order; or it is the order of a
            mixture.
        ValueError: The name of the order is unknown, or an order object has another number of
            samples or another seed than the arguments.
    """
    if shuffle is None or isinstance(shuffle, bool | str):
        if shuffle not in _KINDS:
            raise ValueError(f"unknown order shuffle={shuffle!r}: {_WRITE}")
        return _KINDS[shuffle](samples, seed)
    if isinstance(shuffle, Mixed):
        raise TypeError(
            "a Mixed order is for mixtures only: write Loader(bushel.mix(...)) without shuffle="
        )
    if not isinstance(shuffle, Sequential | Exact | Blocks):
        if isinstance(shuffle, int):
            hint = f"to give a seed, write shuffle=True, seed={shuffle}"
        else:
            hint = _WRITE
        raise TypeError(f"shuffle={shuffle!r} is not an order: {hint}")
    if shuffle.samples != samples:
        raise ValueError(
            f"shuffle= is an order of {shuffle.samples} samples, but there are {samples}"
        )
    if seed not in (0, shuffle.seed):
        raise ValueError(
            f"shuffle= is an order with seed {shuffle.seed}, but seed={seed}: leave out seed="
        )
    return shuffle


def check_mixed(order: OrderT, shuffle: Shuffle, seed: int) -> OrderT:
    """Return the order of a mixture, unless `shuffle` or `seed` asks for another one.

    Raises:
        ValueError: `shuffle` is not True or None, or `seed` is neither 0 nor the mixture's seed.
    """
    if shuffle not in (None, True):
        raise ValueError(f"a mixture has its own order: leave out shuffle={shuffle!r}")
    if seed not in (0, order.seed):
        raise ValueError(f"the mixture has seed {order.seed}, but seed={seed}: leave out seed=")
    return order
