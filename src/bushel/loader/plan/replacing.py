"""Replacement of bad samples in a batch: they are found one by one, and others take their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._runtime.order import Balanced, Mixed, Weighted
from bushel._runtime.scheduled import Scheduled
from bushel.errors import TooManyErrors
from bushel.loader.values.bad_samples import ErrorReport, Failure
from bushel.loader.values.collate import Sample
from bushel.loader.values.rows import Rows

from .plan import BatchPlan

if TYPE_CHECKING:
    from .plan import AnyOrder


def one_by_one(
    items: Sequence[Any],
    work: Callable[[int], Sample],
    fail: Callable[[Exception, int], Failure],
    *,
    stop: bool = False,
) -> list[Sample | Failure]:
    """Read or decode samples one by one, and find the bad ones.

    Args:
        items: The samples of a batch in any form; the `Failure` of one that is known to be bad.
        work: Makes the sample at a place of the batch.
        fail: Makes the failure of a bad one, given its error and place.
        stop: Whether to leave out what comes after the first bad one, whose error will be raised:
            each other sample may wait for unused bytes.
    """
    samples: list[Sample | Failure] = []
    for place, sample in enumerate(items):
        if isinstance(sample, Failure):
            samples.append(sample)
            continue
        try:
            samples.append(work(place))
        except Exception as error:
            samples.append(fail(error, place))
            if stop:
                break
    return samples + [Failure(None)] * (len(items) - len(samples))


def following(order: AnyOrder, epoch: int, position: int) -> Iterator[BatchPlan]:
    """Yield the samples that may replace the one at a position of an epoch, each as a batch."""
    from bushel.loader.order.bucketed import Bucketed
    from bushel.loader.order.chunks import Chunked, MegatronChunks
    from bushel.loader.order.packed import Packed

    if isinstance(order, Packed):
        for piece in order.smaller(epoch, position):
            samples, begins = order.pieces.documents(np.array([piece], np.int64))
            rows = Rows(
                np.ones(1, np.int64), begins, np.full(1, order.pieces.limit, np.int64), position
            )
            yield BatchPlan(epoch, np.array([position], np.int64), samples, 0, rows)
        return
    if isinstance(order, Bucketed):
        for sample in order.similar(epoch, position):
            yield BatchPlan(epoch, np.array([position], np.int64), np.array([sample], np.int64), 0)
        return
    if isinstance(order, Chunked | MegatronChunks):
        raise TypeError(
            "documents of chunks cannot be replaced, which a loader refuses when it is made"
        )
    for number in range(position + 1, position + order.samples):
        positions = np.array([number % order.samples], np.int64)
        yield BatchPlan(epoch, positions, order.take(epoch, positions), 0)


def nothing_left(order: AnyOrder, epoch: int, report: ErrorReport) -> TooManyErrors:
    """Return the error that no sample is left to replace another."""
    from bushel.loader.order.bucketed import Bucketed

    if isinstance(order, Bucketed):
        which = "samples that are not longer"
    else:
        which = f"samples of epoch {epoch}"
    if isinstance(order, Weighted | Balanced | Mixed | Scheduled):
        which = f"samples that epoch {epoch} draws"
    first = f", such as {bad[0]}" if (bad := report.bad_samples()) else ""
    return TooManyErrors(
        f"all {which} are bad{first}, so none can replace another: see the loader's `errors`"
    )
