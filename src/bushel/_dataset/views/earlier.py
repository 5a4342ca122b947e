"""A dataset as it was before shards were appended or samples removed, for states of loaders that are older."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.remaining import fingerprints_of_prefixes, first_of
from bushel._dataset.read.selection import Positions, Remaining
from bushel._runtime.arrays import I64, NO_NUMBERS

from .dataset import Dataset
from .mapped import Mapped


class Earlier(Struct, frozen=True):
    """A dataset as it was, and what happened to it since."""

    dataset: Any  # the dataset with the samples that it had
    appended: int  # the number of samples that were appended since, removed ones included
    positions_of: Callable[[Sequence[int]], list[int]]  # positions in it, of those that it has
    removed: I64 = NO_NUMBERS  # int64[n], the positions in it of samples that were removed since
    removal: str = ""  # their removal in words, for an error


def earlier_form(dataset: Any, fingerprint: str) -> Earlier | None:
    """Return a dataset as it was when it had this fingerprint; None if neither it nor its first shards had it.

    A view of some samples has no earlier form, and views of windows and joined datasets only have
    those before removals.
    """
    if isinstance(dataset, Mapped):
        earlier = earlier_form(dataset.dataset, fingerprint)
        if earlier is None:
            return None
        return replace(earlier, dataset=replace(dataset, dataset=earlier.dataset))
    if not isinstance(dataset, Dataset) or not dataset._is_whole:
        return None
    now = dataset.selection.positions
    stages: list[Positions] = [now]
    if isinstance(now, Remaining):
        stages += [now.if_removed(now.calls < number, now.total) for number in range(len(now.by))]
    for stage in stages:
        for samples, before in fingerprints_of_prefixes(dataset.reader, dataset.spec, stage):
            if before == fingerprint:
                return _with_changes(dataset, first_of(stage, samples), samples)
    return None


def _with_changes(dataset: Dataset, then: Positions, samples: int) -> Earlier:
    """Return the form of a dataset that had these positions of its first samples, and the changes since."""
    appended = int(dataset.reader.starts[-1]) - samples
    removed_then = then.removed if isinstance(then, Remaining) else NO_NUMBERS

    def positions_of(positions: Sequence[int]) -> list[int]:
        absolute = dataset.selection.absolute(np.array(positions, np.int64))
        absolute = absolute[absolute < samples]
        places: list[int] = (absolute - np.searchsorted(removed_then, absolute)).tolist()
        return places

    earlier = Earlier(dataset._view(then), appended, positions_of)
    now = dataset.selection.positions
    if not isinstance(now, Remaining):
        return earlier
    is_new = (now.removed < samples) & ~np.isin(now.removed, removed_then)
    if not is_new.any():
        return earlier
    since, calls = now.removed[is_new], np.unique(now.calls[is_new])
    first, by = now.by[calls[0]], ""
    if len(calls) > 1:
        by = f" by {len(calls)} calls, first"
    when = datetime.fromtimestamp(first.time / 1e9, UTC).strftime("%d %B %Y")
    return replace(
        earlier,
        removed=since - np.searchsorted(removed_then, since),
        removal=f"{len(since):,} samples were removed from the dataset after "
        f"this state was saved,{by} on {when} ({first.reason!r})",
    )
