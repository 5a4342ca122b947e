"""The options of a loader that resumes from a state older than the removal of samples."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bushel._dataset.views.before_removal import before_removal
from bushel.errors import StateError
from bushel.loader.order.mixture import Mixture
from bushel.loader.values.bad_samples import read_errors


def with_removed_samples(
    given: Mapping[str, Any], dataset: Any, fingerprint: str, *, allowed: bool
) -> dict[str, Any] | None:
    """Return the options of a loader of the dataset before samples were removed, which leaves these out.

    Returns:
        The options; None if the dataset never had this fingerprint.

    Raises:
        StateError: It had, and that is not allowed, or the dataset is a mixture.
    """
    if (found := before_removal(dataset, fingerprint)) is None:
        return None
    if isinstance(given["dataset"], Mixture):
        raise StateError(f"{found.reason}; the order of a mixture depends on its sizes: start without the state")
    if not allowed:
        again = "loader.load_state_dict(state, allow_removed=True)"
        raise StateError(f"{found.reason}. To go on in the same order without them: {again}")
    known = given["exclude"]
    exclude = read_errors(known) if isinstance(known, str | os.PathLike) else known
    return {**given, "dataset": found.dataset, "exclude": [*exclude, *found.removed.tolist()]}
