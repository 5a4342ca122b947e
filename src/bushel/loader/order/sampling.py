"""Orders of a loader that draws samples by weight, or classes equally often, or makes batches of similar samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._runtime.order import Balanced, Weighted
from bushel._runtime.shuffle import Shuffle
from bushel.loader.order.bucketed import BatchSizes, Bucketed, TooLongError, bucketed_order
from bushel.loader.order.mapped_parts import indexed


def sampled_order(
    dataset: Any, weights: str | npt.ArrayLike | None, balance: str | None, shuffle: Shuffle, seed: int
) -> Weighted | Balanced:
    """Return the order for `weights=` or `balance=` of a loader.

    Raises:
        ValueError: Both or another order are asked for, or weights or classes are unusable.
        TypeError: A column is named, but the dataset has no index.
        KeyError: The column does not exist.
    """
    if weights is not None and balance is not None:
        raise ValueError("weights= and balance= are two orders: give only one of them")
    if shuffle is not None:
        raise ValueError(f"weights= and balance= draw in an order of their own: leave out shuffle={shuffle!r}")
    if balance is not None:
        return balanced_order(_column(dataset, balance, "balance"), balance, seed)
    if isinstance(weights, str):
        found = _column(dataset, weights, "weights")
        return weighted_order(np.ma.filled(found, 0) if isinstance(found, np.ma.MaskedArray) else found, seed)
    if len(given := np.asarray(weights)) != len(dataset):
        raise ValueError(f"weights= has {len(given)} weights for {len(dataset)} samples")
    return weighted_order(given, seed)


def weighted_order(weights: npt.NDArray[Any], seed: int) -> Weighted:
    """Return the order that draws samples by weight.

    Args:
        weights: Numbers [samples], finite and not negative, at least one above 0.
        seed: The seed.
    """
    if weights.ndim != 1 or weights.dtype.kind not in "biuf":
        raise ValueError(f"weights= must be one number for each sample, not {weights.dtype} of shape {weights.shape}")
    own = weights.astype(np.float64)
    sums = np.cumsum(own)
    if len(own) and not (np.isfinite(own).all() and (own >= 0).all() and 0 < sums[-1] < np.inf):
        raise ValueError("weights must be finite and 0 or more, and one of them above 0")
    return Weighted(sums, seed)


def balanced_order(classes: npt.NDArray[Any], name: str, seed: int) -> Balanced:
    """Return the order that draws every class equally often.

    Args:
        classes: [samples], the class of each sample. Masked ones are never drawn.
        name: Name of the column, for errors.
        seed: The seed.
    """
    there = np.flatnonzero(~np.ma.getmaskarray(classes))
    _, numbers, sizes = np.unique(np.ma.getdata(classes)[there], return_inverse=True, return_counts=True)
    if len(classes) and not len(there):
        raise ValueError(f"balance={name!r}: no sample has a value in this column")
    members = there[np.argsort(numbers.reshape(-1), kind="stable")].astype(np.int64)
    return Balanced(members, tuple(sizes.tolist()), len(classes), seed)


def order_of_buckets(
    dataset: Any,
    bucket_by: str | npt.ArrayLike,
    batch_size: BatchSizes,
    batch_tokens: float | None,
    shuffle: Shuffle,
    *,
    drop_last: bool,
    seed: int,
) -> Bucketed:
    """Return the order for `bucket_by=` of a loader.

    Raises:
        ValueError: Another order is asked for, a length is missing, or a sample is too long for every batch.
        TypeError: A column is named, but the dataset has no index.
        KeyError: The column does not exist.
    """
    if shuffle not in (None, True, "exact"):
        raise ValueError(f"bucket_by= has an order of its own: leave out shuffle={shuffle!r}")
    name = bucket_by if isinstance(bucket_by, str) else "length"
    lengths = _column(dataset, name, "bucket_by") if isinstance(bucket_by, str) else np.asanyarray(bucket_by)
    if lengths.ndim != 1 or lengths.dtype.kind not in "biuf":
        raise ValueError(f"bucket_by= must be one number for each sample, not {lengths.dtype} of shape {lengths.shape}")
    if len(lengths) != len(dataset):
        raise ValueError(f"bucket_by= has {len(lengths)} lengths for {len(dataset)} samples")
    if (missing := int(np.ma.getmaskarray(lengths).sum())) > 0:
        raise ValueError(
            f"bucket_by={name!r}: {missing} samples have no value; ds.where('{name} is not None') has the others"
        )
    own = np.ma.getdata(lengths)
    if len(own) and not (np.isfinite(own).all() and (own >= 0).all()):
        raise ValueError(f"bucket_by={name!r}: lengths must be finite and 0 or more")
    try:
        return bucketed_order(own, batch_size, batch_tokens, drop_last=drop_last, seed=seed)
    except TooLongError as error:
        raise ValueError(
            f"{error} ({name}; the longest is sample {dataset.keys[error.sample]!r}), which is more than a batch may "
            f"have: leave them out with ds.where('{name} <= {error.limit:g}'), or allow larger batches"
        ) from None


def _column(dataset: Any, name: str, argument: str) -> npt.NDArray[Any]:
    if (own := indexed(dataset)) is None:
        raise TypeError(f"{argument}={name!r} names a column of an index, which {type(dataset).__name__} does not have")
    return own.column(name)
