"""A shuffle buffer and batching for iterables that can only be read forward. `bushel.compat` uses them too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def shuffle_buffer(
    samples: Iterable[T], size: int, draw: Callable[[int], int], *, initial: int | None = None
) -> Iterator[T]:
    """Shuffle samples through a buffer: each sample that leaves is drawn at random from those in the buffer.

    The buffer is filled with `initial` samples before the first one leaves. Then it grows by one sample for each that
    leaves, until it holds `size` samples. At the end of the input it is emptied, still at random.

    Args:
        samples: The input.
        size: Number of samples in the buffer.
        draw: Returns a random integer from 0 to its argument - 1, such as `random.Random(0).randrange`.
        initial: Number of samples to wait for; at most `size`, which is the default.

    Examples:
        >>> import random
        >>> from bushel.loader import shuffle_buffer
        >>> list(shuffle_buffer(range(8), 4, random.Random(0).randrange))
        [3, 4, 0, 2, 7, 1, 6, 5]
    """
    least = size if initial is None else min(initial, size)
    source, held = iter(samples), list[T]()
    for sample in source:
        held.append(sample)
        if len(held) < size:
            held.extend(islice(source, 1))
        if len(held) >= least:
            yield _take(held, draw)
    while held:
        yield _take(held, draw)


def _take(held: list[T], draw: Callable[[int], int]) -> T:
    """Take a random sample out of a list; the last sample moves to its place."""
    place, last = draw(len(held)), held.pop()
    if place == len(held):
        return last
    taken, held[place] = held[place], last
    return taken


def in_batches(items: Iterable[T], size: int, *, drop_last: bool = False) -> Iterator[list[T]]:
    """Yield items in lists of `size`; the last list may be shorter, unless `drop_last` leaves it out.

    Examples:
        >>> from bushel.loader import in_batches
        >>> list(in_batches(range(5), 2))
        [[0, 1], [2, 3], [4]]
    """
    source = iter(items)
    while batch := list(islice(source, size)):
        if len(batch) == size or not drop_last:
            yield batch
