"""Views whose samples also have fields of their partners in another dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

import numpy as np

from bushel._dataset.read.joined import joined_readers
from bushel._dataset.read.sides import Joined
from bushel._dataset.views.samples import Samples
from bushel._runtime.arrays import I64

S = TypeVar("S", bound=Samples)


def with_partners(
    first: S,
    other: Samples,
    partners: I64,
    joined: Joined,
    *,
    names: Collection[str],
    others: Mapping[str, str],
) -> S:
    """Return a view of a dataset whose samples also have fields of their partners in another one.

    Args:
        first: The dataset. The view has its samples, in its order; with `how="inner"` only those
            that have a partner.
        other: The other dataset.
        partners: int64[n], for each sample of the whole first dataset the position of its partner
            in the whole other one; -1 for none.
        joined: The description of the join.
        names: The fields of the first dataset that the view has.
        others: The fields of the other dataset that it has, with their new names.
    """
    reader = joined_readers(
        first._reader, other._reader, partners, joined, names=names, others=others
    )
    positions = first._selection.positions
    if joined.how == "inner":
        chosen = np.asarray(positions, np.int64)
        chosen = chosen[partners[chosen] >= 0]
        positions = positions if len(chosen) == len(positions) else chosen
    return type(first)((), reader=reader)._view(positions, [*names, *others.values()])
