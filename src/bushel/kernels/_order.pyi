"""Kernels for orders: permutations. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray

def permute(
    values: NDArray[np.int64], size: int, key: int, tweak: NDArray[np.uint32] | None = None, inverse: bool = False
) -> NDArray[np.int64]:
    """Return the images of values under the keyed permutation of 0 to size - 1 that docs/order.md specifies.

    Args:
        values: int64[n], each in 0 to size - 1.
        size: Number of values that are permuted, 1 to 2**48.
        key: The key, 0 to 2**64 - 1.
        tweak: uint32[n], the member of the family of permutations to use for each value; None for 0.
        inverse: Whether to return the values whose images are given instead.

    Returns:
        int64[n].

    Raises:
        IndexError: A value is out of range.
        ValueError: ``size`` is out of range, or ``tweak`` has another length.
        TypeError: An array has another dtype or shape.
    """
