"""Divide the samples of a dataset by shares, optionally within each class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction
from itertools import accumulate, pairwise
from numbers import Real
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64, NO_NUMBERS, chunks, refuse_bools
from bushel._runtime.order import Shuffle, make_order
from bushel.errors import SpecError

_CHUNK = 1024  # number of samples that are read at once


def divided(
    dataset: Any,
    shares: Mapping[str, float | None] | None,
    named: Mapping[str, float | None],
    *,
    shuffle: Shuffle,
    seed: int,
    stratify: str | None,
) -> dict[str, I64]:
    """Return the positions of the samples of each share of a dataset, which may be `Mapped`, ascending.

    `Dataset.split` documents the arguments.

    Raises:
        TypeError: `shares` is not a mapping.
        ValueError: The shares do not add up to 1, or the numbers not to the number of samples.
        KeyError, SpecError: The field `stratify` does not exist, or its values are neither numbers
            nor text.
    """
    if not isinstance(shares or {}, Mapping):
        raise TypeError(f"split takes shares such as {{'train': 0.9, 'val': 0.1}}, not {shares!r}")
    whole_shares = with_rest(len(dataset), {**(shares or {}), **named})
    counts = share_out(len(dataset), whole_shares)
    positions = make_order(shuffle, len(dataset), seed).take(0, np.arange(len(dataset)))
    if stratify is not None:
        return stratified(classes_of(dataset, stratify), positions, whole_shares)
    ends = np.cumsum(list(counts.values()))[:-1]
    return dict(zip(counts, map(np.sort, np.split(positions, ends)), strict=True))


def classes_of(dataset: Any, field: str) -> I64:
    """Return int64[samples], a number for the class of each sample. Samples without the field are a class.

    If the field is a column of the index, no data are read.

    Raises:
        KeyError: The dataset has no such field.
        SpecError: The values of the field are not single numbers or texts.
    """
    if field in dataset.columns:
        values = dataset.column(field)
        # values that a column lacks may be too long for it: then the field is read
        if not isinstance(values, np.ma.MaskedArray):
            return np.unique(values, return_inverse=True)[1].reshape(-1)
    numbers: dict[Hashable, int] = {}
    classes = np.empty(len(dataset), np.int64)
    for positions in chunks(range(len(dataset)), _CHUNK):
        for position, sample in zip(positions, dataset.read(positions, [field]), strict=True):
            value = sample.get(field)
            if not isinstance(value, str | int | float | None):
                raise SpecError(
                    f"cannot stratify by field {field!r}: its values must be numbers or "
                    f"text, but sample {sample['__key__']!r} has a {type(value).__name__}"
                )
            classes[position] = numbers.setdefault(value, len(numbers))
    return classes


def _exact(samples: int, shares: Mapping[str, float]) -> list[Fraction]:
    """Return the exact number of samples of each share, of shares that add up to anything."""
    whole = sum(Fraction(share) for share in shares.values())
    return [Fraction(share) * samples / whole for share in shares.values()]


def largest_remainders(samples: int, shares: Mapping[str, float]) -> list[int]:
    """Return the number of samples of each share by the method of the largest remainder.

    Each share gets its exact number, rounded down. The samples left over go, one each, to the
    shares with the largest remainders, the earlier one where two are equal.
    """
    exact = _exact(samples, shares)
    counts = [int(share_exact) for share_exact in exact]
    largest = sorted(range(len(exact)), key=lambda number: (counts[number] - exact[number], number))
    for number in largest[: samples - sum(counts)]:
        counts[number] += 1
    return counts


def stratified(classes: I64, order: I64, shares: Mapping[str, float]) -> dict[str, I64]:
    """Divide samples so that every class is divided by `largest_remainders`.

    Args:
        classes: int64[n], the class of each sample.
        order: int64[n], the order in which the samples of a class are given to the first share, the
            second, …
        shares: Name of each part to its share.

    Returns:
        Name of each part to the positions of its samples, ascending.
    """
    by_class = order[np.argsort(classes[order], kind="stable")]
    ends = np.cumsum(np.bincount(classes))
    counts: dict[int, list[int]] = {}
    parts: list[list[I64]] = [[] for _ in shares]
    start = 0
    for end in ends.tolist():
        size = end - start
        if size not in counts:
            counts[size] = largest_remainders(size, shares)
        for part, count in zip(parts, counts[size], strict=True):
            part.append(by_class[start : start + count])
            start += count
    return {
        name: np.sort(np.concatenate([NO_NUMBERS, *part]))
        for name, part in zip(shares, parts, strict=True)
    }


def with_rest(samples: int, shares: Mapping[str, float | None]) -> dict[str, float]:
    """Return the shares, with the rest as the share of the one whose value is None.

    Raises:
        TypeError: A share is not a number.
        ValueError: Several are None, no shares are given, or the others leave less than nothing.
    """
    refuse_bools(shares=[*shares.values()])
    named = {name: share for name, share in shares.items() if share is not None}
    if not shares or len(shares) - len(named) > 1:
        raise ValueError(
            "expected shares such as {'train': 0.9, 'val': "
            f"0.1}}, at most one of them None: {dict(shares)}"
        )
    for share in named.values():
        if not isinstance(share, Real):
            raise TypeError(f"a share must be a number, not {share!r}")
    whole = samples if named and all(isinstance(share, int) for share in named.values()) else 1
    rest = whole - sum(named.values())
    if rest < 0 and len(named) < len(shares):
        raise ValueError(f"{named} are more than {whole}, and leave no rest")
    return {name: rest if share is None else share for name, share in shares.items()}


def share_out(samples: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return the number of samples of each share. Each is within one of its exact value, and all samples are used.

    Raises:
        ValueError: The shares do not add up to 1, or numbers of samples not to `samples`.
    """
    total = sum(shares.values())
    if all(isinstance(share, int) for share in shares.values()) and total != 1:
        if min(shares.values()) < 0 or total != samples:
            raise ValueError(
                f"numbers of samples must be 0 or more and add up to the {samples} samples "
                f"of the dataset, not to {total}: {dict(shares)}. One of them can be the rest"
            )
        return {name: int(share) for name, share in shares.items()}
    if any(not 0 <= share <= 1 for share in shares.values()) or abs(total - 1) > 1e-6:
        raise ValueError(
            f"shares must be between 0 and 1 and add up to 1, not to {total}: "
            f"{dict(shares)}. For numbers of samples, give whole numbers only"
        )
    ends = [round(end) for end in accumulate(_exact(samples, shares), initial=Fraction(0))]
    counts = (end - start for start, end in pairwise(ends))
    return dict(zip(shares, counts, strict=True))
