"""Kernels for orders: permutations, and the rows of packs. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray

def permute(
    values: NDArray[np.int64],
    size: int,
    key: int,
    tweak: NDArray[np.uint32] | None = None,
    inverse: bool = False,
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

def look_up(table: NDArray[np.uint32], first: int, count: int, key: int) -> NDArray[np.uint32]:
    """Return the entries of a table at the images of neighbouring values under the permutation that `permute` computes.

    Args:
        table: uint32[size], 1 to 2**48 entries.
        first: The first value, 0 to size - 1.
        count: Number of values. The last one is below size.
        key: The key of the permutation of 0 to size - 1, 0 to 2**64 - 1.

    Returns:
        uint32[count].

    Raises:
        IndexError: A value is out of range.
        TypeError: ``table`` has another dtype or shape.
    """

def window_sums(
    table: NDArray[np.uint32], items: NDArray[np.int32], window: int
) -> NDArray[np.int64]:
    """Return the sum of the entries of a table for each window of items.

    Args:
        table: uint32[size].
        items: int32[n], each in 0 to size - 1.
        window: Number of items in a window, 1 or more; the last window may have fewer.

    Returns:
        int64[windows].

    Raises:
        IndexError: An item is out of range.
        ValueError: ``window`` is out of range.
        TypeError: An array has another dtype or shape.
    """

def shuffle_mt19937(
    items: NDArray[np.int32], key: NDArray[np.uint32], position: int
) -> tuple[NDArray[np.uint32], int]:
    """Shuffle items in place exactly as NumPy's ``RandomState.shuffle`` does, which never changes (NEP 19).

    Args:
        items: int32[n], fewer than 2**32, writable and contiguous.
        key: uint32[624], the key of the state of MT19937, as ``RandomState.get_state()`` returns it.
        position: The position in it, 0 to 624.

    Returns:
        The key and the position afterwards.

    Raises:
        ValueError: The state has another form.
        TypeError: An array has another dtype or shape.
    """

def count_rows(sizes: NDArray[np.uint32], window: int, capacity: int) -> NDArray[np.int64]:
    """Return how many rows `pack_rows` makes of each window of items, without dividing the items among them.

    Args:
        sizes: uint32[n], each at most ``capacity``.
        window: Number of items in a window, 1 or more; the last window may have fewer.
        capacity: The largest sum of the sizes in a row, 1 to 2**31 - 1.

    Returns:
        int64[windows].

    Raises:
        ValueError: ``window`` or ``capacity`` is out of range, or a size is larger than ``capacity``.
        TypeError: ``sizes`` has another dtype or shape.
    """

def mixed_draws(
    draws: NDArray[np.int64], shares: NDArray[np.int64], state: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sets of draws of the order `balanced` of docs/order.md. It is fast for draws that ascend.

    Args:
        draws: int64[n], the draws, 0 to 2**62 - 1.
        shares: int64[sets], the draws from each set in a block, 1 or more; at most 2**48 in all.
        state: The hash of the words of `derive` before the number of the block.

    Returns:
        int64[n], the set of each draw; and int64[n], the number of earlier draws from that set.

    Raises:
        IndexError: A draw is out of range.
        ValueError: ``shares`` is out of range.
        TypeError: An array has another dtype or shape.
    """

def draw_samples(
    sets: NDArray[np.int64],
    numbers: NDArray[np.int64],
    sizes: NDArray[np.int64],
    state: int,
    seed: int,
) -> NDArray[np.int64]:
    """Return the samples of draws from sets, which are numbered one after another; each pass has its own permutation.

    Args:
        sets: int64[n], the set of each draw.
        numbers: int64[n], the number of earlier draws from that set, 0 to 2**62 - 1.
        sizes: int64[sets], the samples of each set, 1 to 2**48.
        state: The hash of the words of `derive` before the size of the set, the seed, and the numbers of pass and set.
        seed: The seed, 0 to 2**64 - 1.

    Returns:
        int64[n].

    Raises:
        IndexError: A set is out of range.
        ValueError: Another argument is out of range, or lengths differ.
        TypeError: An array has another dtype or shape.
    """

def even_draws(
    draws: NDArray[np.int64],
    starts: NDArray[np.int64],
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
    ramp: int,
    next: int,
    drawn: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], int, NDArray[np.int64]]:
    """Return the sets of draws of a segment of the order `scheduled` of docs/order.md.

    Draws far from each other are found without all that are between them: the time depends on the smallest weight.

    Args:
        draws: int64[n], draws of the segment, each above the one before it; from ``next`` to 2**48 - 1.
        starts: int64[sets], what each set lacks at the start of the segment, in units of 2**-52 draw; or below 0.
        firsts: int64[sets], its weight at the start, 0 to 2**52; the sum of all is 2**52.
        lasts: int64[sets], its weight at the end of the ramp.
        ramp: Number of draws of the ramp, after which weights stay as they are; 0 to 2**36.
        next: The draw before which ``drawn`` is known.
        drawn: int64[sets], the draws of the segment from each set before it.

    Returns:
        int64[n], the set of each draw; int64[n], the number of earlier draws of the segment from that set; the number
        of the draw after the last one; and int64[sets], the draws from each set before it.

    Raises:
        IndexError: A draw is out of range.
        ValueError: Another argument is out of range, or lengths differ.
        TypeError: An array has another dtype or shape.
    """

def guide_sums(sums: NDArray[np.float64], buckets: int) -> NDArray[np.int64]:
    """Return, for equal parts of the range from 0 to the last sum, the first sum that is in the part or after it.

    Args:
        sums: float64[n], ascending from 0 or more; the last one is above 0.
        buckets: Number of parts, 1 to 2**48.

    Returns:
        int64[buckets + 2], for `draw_by_weight`.

    Raises:
        ValueError: An argument is out of range.
        TypeError: ``sums`` has another dtype or shape.
    """

def draw_by_weight(
    sums: NDArray[np.float64], guide: NDArray[np.int64], key: int, positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the places that the order `weighted` of docs/order.md draws at positions.

    Args:
        sums: float64[n], the sums of the weights.
        guide: What `guide_sums` returns for them.
        key: The key of the epoch.
        positions: int64[draws], 0 or more.

    Returns:
        int64[draws], the place of the first sum above the number drawn; n if all sums are smaller.

    Raises:
        ValueError: ``sums`` or ``guide`` is out of range.
        TypeError: An array has another dtype or shape.
    """

def pack_rows(
    sizes: NDArray[np.uint32], capacity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
