"""Kernels for orders: permutations, and the rows of packs. `_kernels` documents their rules."""

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

def pack_rows(sizes: NDArray[np.uint32], capacity: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide items among rows of one capacity by first fit decreasing, as docs/order.md specifies.

    Args:
        sizes: uint32[n], each at most ``capacity``.
        capacity: The largest sum of the sizes in a row, 1 to 2**31 - 1.

    Returns:
        int64[n], the items of the first row in ascending order, then the items of the second one, …; and
        int64[rows], the number of items up to the end of each row.

    Raises:
        ValueError: ``capacity`` is out of range, or a size is larger.
        TypeError: ``sizes`` has another dtype or shape.
    """
