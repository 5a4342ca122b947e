"""A dataset as it was before shards were appended or samples removed, for states of loaders that are older."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.remaining import fingerprints_of_prefixes, first_of
from bushel._dataset.read.selection import Positions, Remaining
from bushel._runtime.arrays import I64

from .dataset import Dataset
from .mapped import Mapped


class BeforeAppend(Struct, frozen=True):
    """A dataset as it was before shards were appended."""

    dataset: Any  # a view of the samples that were there, without those that were removed since
    appended: int  # the number of samples that were appended, removed ones included


def before_append(dataset: Any, fingerprint: str) -> BeforeAppend | None:
    """Return a dataset as it was when it had this fingerprint; None if none of its first shards had it.

    A view of samples, of windows or of joined datasets has no earlier form.
    """
    if isinstance(dataset, Mapped):
        earlier = before_append(dataset.dataset, fingerprint)
        if earlier is None:
            return None
        return replace(earlier, dataset=replace(dataset, dataset=earlier.dataset))
    if not isinstance(dataset, Dataset) or not dataset._is_whole:
        return None
    reader, positions = dataset.reader, dataset.selection.positions
    if reader.sides or reader.windows is not None:
        return None
    for remaining in _at_each_call(positions):
        for samples, fingerprint_of_prefix in fingerprints_of_prefixes(
            reader, dataset.spec, remaining
        ):
            if fingerprint_of_prefix == fingerprint:
                earlier_view = dataset._view(first_of(positions, samples))
                return BeforeAppend(earlier_view, int(reader.starts[-1]) - samples)
    return None


def _at_each_call(positions: Positions) -> list[Positions]:
    """Return the positions that remain now, and those that remained before each call that removed some."""
    if not isinstance(positions, Remaining):
        return [positions]
    return [positions, *(_before_call(positions, number) for number in range(len(positions.by)))]


def _before_call(remaining: Remaining, number: int) -> Positions:
    return remaining.if_removed(remaining.calls < number, remaining.total)


class BeforeRemoval(Struct, frozen=True):
    """A dataset as it was before some calls removed samples."""

    dataset: Dataset  # the dataset with these samples
    removed: I64  # int64[n], their positions in it
    reason: str  # the change since then, for an error


def before_removal(dataset: Any, fingerprint: str) -> BeforeRemoval | None:
    """Return a dataset as it was when it had this fingerprint; None if it never had, or if it is a view of samples."""
    whole = dataset.selection.positions if isinstance(dataset, Dataset) else None
    if not isinstance(whole, Remaining):
        return None
    for number in range(len(whole.by)):
        earlier = dataset._view(positions=_before_call(whole, number))
        if earlier.fingerprint == fingerprint:
            since = whole.removed[whole.calls >= number]
            then = earlier.selection.positions
            if isinstance(then, Remaining):
                places = since - np.searchsorted(then.removed, since)
            else:
                places = since
            first = whole.by[number]
            when = datetime.fromtimestamp(first.time / 1e9, UTC).strftime("%d %B %Y")
            if len(whole.by) == number + 1:
                calls = ""
            else:
                calls = f" by {len(whole.by) - number} calls, first"
            return BeforeRemoval(
                earlier,
                places,
                f"{len(since):,} samples were removed from the dataset after "
                f"this state was saved,{calls} on {when} ({first.reason!r})",
            )
    return None
