"""The order of batches of samples of similar length.

Samples are sorted into buckets by length, and the buckets are cut into batches, in the same way in
every epoch. The samples of a bucket are permuted among its batches, and all batches are permuted,
differently in every epoch. `docs/order.md` specifies the order. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel._runtime.arrays import F64, I64, NO_NUMBERS, Array, Bools, check_count
from bushel._runtime.order import BUCKETS, LIMIT, ORDER_VERSION, TOGETHER, Permutation, derive

BatchSizes = int | Mapping[float, int] | None
"""Samples in a batch: one number; or a number for each largest length of a bucket; or as many as the tokens allow."""

_DIGITS = 4
"""Binary digits of the lengths that limit buckets. The lengths in a bucket therefore differ by less than 1/8."""


class TooLongError(ValueError):
    """Samples are too long for any batch.

    Attributes:
        sample: The longest of them.
        limit: The largest length that a sample may have.
    """

    def __init__(self, sample: int, length: float, limit: float, count: int) -> None:
        super().__init__(f"{count} samples are longer than {limit:g}, up to {length:g}")
        self.sample, self.limit = sample, limit


class EpochOfBatches(Struct, frozen=True):
    """The order of the batches in one epoch.

    Attributes:
        batches: int64[batches], the numbers of the batches as they come.
        ends: int64[batches], the position after each of them.
    """

    batches: I64
    ends: I64


class Bucketed(Struct, frozen=True, eq=False, dict=True):
    """Batches of samples of similar length, in random order.

    It keeps 4 bytes for each sample (8 beyond 2**32 samples), and 32 bytes for each batch.

    Attributes:
        members: uint32[n] or int64[n], the samples of the first bucket, then the samples of the
            second one, …
        buckets: int64[buckets + 1], where each bucket begins in `members`.
        starts: int64[batches], where each batch begins in `members`.
        stops: int64[batches], where it ends.
        checksum: CRC-32 of these arrays.
        seed: 0 to 2**64 - 1.
    """

    members: Array
    buckets: I64
    starts: I64
    stops: I64
    checksum: int
    seed: int = 0

    @property
    def samples(self) -> int:
        """Samples in an epoch."""
        return int((self.stops - self.starts).sum())

    @property
    def version(self) -> str:
        """Kind, CRC-32 of the batches, and version. A loader refuses a saved state of another version."""
        return f"bucketed({self.checksum:08x})/{ORDER_VERSION}"

    @cached_property
    def epoch(self) -> Callable[[int], EpochOfBatches]:
        """Returns the order of the batches in an epoch. The last one that was asked for is kept."""
        return lru_cache(maxsize=1)(self._epoch)

    def _epoch(self, epoch: int) -> EpochOfBatches:
        count = len(self.starts)
        key = derive(ORDER_VERSION, BUCKETS, count, self.seed, epoch)
        if count:
            batches = Permutation(count, key).take(np.arange(count))
        else:
            batches = NO_NUMBERS
        return EpochOfBatches(batches, np.cumsum((self.stops - self.starts)[batches]))

    def take(self, epoch: int, positions: I64) -> I64:
        """Return the samples at positions of an epoch: int64[n] to int64[n]."""
        return self._members_at(epoch, self._places(epoch, positions))

    def similar(self, epoch: int, position: int) -> Iterator[int]:
        """Yield all samples that are not longer than the bucket of a position allows, but the one that is there.

        Samples of the bucket come first, in their order after the position, then shorter ones.
        """
        [place] = self._places(epoch, np.array([position], np.int64)).tolist()
        bucket = int(np.searchsorted(self.buckets, place, side="right")) - 1
        first, end = self.buckets[bucket : bucket + 2].tolist()
        for places in (range(place + 1, end), range(first, place), range(first - 1, -1, -1)):
            for near in places:
                yield int(self._members_at(epoch, np.array([near], np.int64))[0])

    def _places(self, epoch: int, positions: I64) -> I64:
        """Return the places of positions in the list of buckets."""
        order = self.epoch(epoch)
        turns = np.searchsorted(order.ends, positions, side="right")
        return self.stops[order.batches[turns]] - (order.ends[turns] - positions)

    def _members_at(self, epoch: int, places: I64) -> I64:
        """Return the samples at places of the list of buckets, permuted within each bucket."""
        numbers = np.searchsorted(self.buckets, places, side="right") - 1
        permuted = np.empty_like(places)
        for bucket in np.unique(numbers).tolist():
            chosen = numbers == bucket
            first = int(self.buckets[bucket])
            permuted[chosen] = first + self._permutation(epoch, bucket).take(places[chosen] - first)
        return self.members[permuted].astype(np.int64)

    def _permutation(self, epoch: int, bucket: int) -> Permutation:
        first, end = self.buckets[bucket : bucket + 2].tolist()
        return Permutation(
            end - first, derive(ORDER_VERSION, TOGETHER, end - first, self.seed, epoch, bucket)
        )


def bucketed_order(
    lengths: Array,
    batch_size: BatchSizes,
    batch_tokens: float | None = None,
    *,
    drop_last: bool = False,
    seed: int = 0,
) -> Bucketed:
    """Return the order of batches of similar samples.

    Args:
        lengths: Numbers [samples], the length of each sample, finite and not negative.
        batch_size: Largest number of samples in a batch. A mapping makes the buckets: from the
            largest length in each to its batch size.
        batch_tokens: Largest product of the number of samples in a batch and the longest of them.
        drop_last: Whether to leave out batches to which a sample could be added.
        seed: The seed.

    Raises:
        ValueError: An argument is out of its range, or all of them allow batches of any size.
        TooLongError: A sample is longer than `batch_tokens`, or than the last bucket allows.
    """
    if len(lengths) > LIMIT:
        raise ValueError(f"an order has {len(lengths)} samples; expected 0 to 2**48")
    _check(batch_size, batch_tokens)
    sizes_of_samples = np.asarray(lengths, np.float64)
    if isinstance(batch_size, Mapping):
        limits = np.array(sorted(batch_size), np.float64)
        numbers = np.searchsorted(limits, sizes_of_samples, side="left")
        _refuse_longer(sizes_of_samples, float(limits[-1]))
        most = np.array([batch_size[limit] for limit in sorted(batch_size)], np.int64)
    else:
        numbers, most = _binary_buckets(sizes_of_samples), NO_NUMBERS
    if batch_tokens is not None:
        _refuse_longer(sizes_of_samples, batch_tokens)
    members = np.argsort(
        numbers.astype(np.int16 if len(most) < 1 << 15 else np.int64), kind="stable"
    )
    present, firsts = np.unique(numbers[members], return_index=True)
    buckets = np.append(firsts, len(members))
    if isinstance(batch_size, Mapping):
        sizes = most[present]
    else:
        sizes = np.full(len(present), LIMIT if batch_size is None else batch_size, np.int64)
    if batch_tokens is not None and len(sizes_of_samples):
        longest = np.maximum.reduceat(sizes_of_samples[members], buckets[:-1])
        sizes = np.minimum(sizes, _most_samples(batch_tokens, longest))
    starts, stops, whole = _cut(buckets, sizes, joined=not isinstance(batch_size, Mapping))
    if drop_last:
        starts, stops = starts[whole], stops[whole]
    members = members.astype(np.uint32 if len(sizes_of_samples) <= 1 << 32 else np.int64)
    checksum = 0
    for part in (members, buckets, starts, stops):
        checksum = kernels.crc32(np.ascontiguousarray(part).view(np.uint8), checksum)
    return Bucketed(members, buckets, starts, stops, checksum, seed)


def _check(batch_size: BatchSizes, batch_tokens: float | None) -> None:
    if batch_size is None and batch_tokens is None:
        raise ValueError(
            "bucket_by= makes batches of any size: give "
            "batch_tokens=, a batch size, or one per bucket"
        )
    if batch_tokens is not None and not 0 < batch_tokens < np.inf:
        raise ValueError(f"batch_tokens={batch_tokens}: expected a number above 0")
    sizes: Mapping[float, int] = (
        batch_size if isinstance(batch_size, Mapping) else {1: batch_size or 1}
    )
    if not sizes:
        raise ValueError(
            "batch_size={}: expected a batch size for each "
            "largest length, such as {128: 64, 512: 16}"
        )
    for limit, size in sizes.items():
        if (
            isinstance(limit, bool)
            or not isinstance(limit, int | float | np.integer)
            or not 0 <= limit < np.inf
        ):
            raise ValueError(f"batch_size={batch_size}: expected lengths as keys, not {limit!r}")
        check_count("batch_size", size, least=1, instead=f" of samples in {batch_size}")


def _refuse_longer(lengths: F64, limit: float) -> None:
    if len(lengths) and (longest := float(lengths.max())) > limit:
        raise TooLongError(int(lengths.argmax()), longest, limit, int((lengths > limit).sum()))


def _binary_buckets(lengths: F64) -> I64:
    """Return the bucket of each length: lengths are rounded up to four binary digits."""
    fractions, exponents = np.frexp(lengths)
    rounded: I64 = np.ceil(fractions * 2**_DIGITS).astype(np.int64)
    rounded += 8 * exponents.astype(np.int64)
    rounded[lengths == 0] = -(1 << 14)
    return rounded


def _most_samples(tokens: float, longest: F64) -> I64:
    """Return how many samples have at most `tokens` together, if each is as long as the longest of its bucket."""
    unit = np.where(longest > 0, longest, 1.0)
    # infinitely many samples of a length near 0 are cut to the limit below
    with np.errstate(over="ignore"):
        sizes = np.floor(tokens / unit)
        sizes -= sizes * unit > tokens  # the quotient was rounded up
    return np.clip(sizes, 1, float(LIMIT)).astype(np.int64)


def _cut(buckets: I64, sizes: I64, *, joined: bool) -> tuple[I64, I64, Bools]:
    """Cut buckets into batches. With `joined`, the rest of a bucket is filled up from the next one if that allows more.

    Returns:
        Where each batch begins and ends, and whether it is as large as its last bucket allows.
    """
    bounds_of_batches: list[Any] = [[0]]
    full: list[Any] = [np.zeros(0, np.bool_)]
    start = 0
    for first, end, size in zip(
        buckets[:-1].tolist(), buckets[1:].tolist(), sizes.tolist(), strict=True
    ):
        if start < first and (not joined or first - start >= size):
            bounds_of_batches.append([first])
            full.append([False])
            start = first
        ends = np.arange(start + size, end + 1, size)
        bounds_of_batches.append(ends)
        full.append(np.ones(len(ends), np.bool_))
        if len(ends):
            start = int(ends[-1])
    if start < int(buckets[-1]):
        bounds_of_batches.append(buckets[-1:])
        full.append([False])
    bounds: I64 = np.concatenate(bounds_of_batches)
    return bounds[:-1], bounds[1:], np.concatenate(full)
