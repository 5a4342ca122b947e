"""The dataset as it was before samples were removed, for states of loaders that are older."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._dataset.read.selection import Remaining
from bushel._dataset.views.dataset import Dataset


@dataclass(frozen=True, slots=True)
class BeforeRemoval:
    """A dataset as it was before some calls removed samples."""

    dataset: Dataset  # the dataset with these samples
    removed: npt.NDArray[np.int64]  # int64[n], their positions in it
    reason: str  # the change since then, for an error


def before_removal(dataset: Any, fingerprint: str) -> BeforeRemoval | None:
    """Return a dataset as it was when it had this fingerprint; None if it never had, or if it is a view of samples."""
    whole = dataset._selection.positions if isinstance(dataset, Dataset) else None
    if not isinstance(whole, Remaining):
        return None
    for number in range(len(whole.by)):
        earlier = dataset._view(positions=whole.before_call(number))
        if earlier.fingerprint == fingerprint:
            since = whole.removed[whole.calls >= number]
            then = earlier._selection.positions
            places = (
                since - np.searchsorted(then.removed, since)
                if isinstance(then, Remaining)
                else since
            )
            first = whole.by[number]
            when = datetime.fromtimestamp(first.time / 1e9, UTC).strftime("%d %B %Y")
            calls = (
                "" if len(whole.by) == number + 1 else f" by {len(whole.by) - number} calls, first"
            )
            return BeforeRemoval(
                earlier,
                places,
                f"{len(since):,} samples were removed from the dataset after this state was"
                f" saved,{calls} on {when} "
                f"({first.reason!r})",
            )
    return None
