"""The loader of a dataset as it was before shards were appended, for states of loaders that are older."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bushel._dataset.views.before_append import BeforeAppend, before_append
from bushel.errors import StateError
from bushel.loader.order.mixture import Mixture
from bushel.loader.state import LoaderState

__all__ = ["loader_before_append"]


def loader_before_append(loader: Any, state: Mapping[str, object], *, allow_appended: bool, allow_removed: bool) -> Any:
    """Return a loader of the samples that a dataset had when a state was saved, at the place of the state.

    Returns:
        The loader; None if the dataset did not begin with the samples of the state.

    Raises:
        StateError: They are, but that is not allowed; or the loader refuses the state for another reason.
    """
    given = loader._given
    earlier = before_append(loader.dataset, LoaderState.from_dict(state).fingerprint)
    if earlier is None:
        return None
    if isinstance(given["dataset"], Mixture):
        message = f"{_reason(earlier)}; the order of a mixture depends on its sizes: start without the state"
        raise StateError(message)
    if not allow_appended:
        raise StateError(
            f"{_reason(earlier)}. To end the epoch with the samples that it began with, and to have all of them from "
            "the next one on: loader.load_state_dict(state, allow_appended=True)"
        )
    options: Mapping[str, Any] = {**given, "dataset": earlier.dataset}
    before = type(loader)(**options)
    before.load_state_dict(state, allow_removed=allow_removed)
    return before


def _reason(earlier: BeforeAppend) -> str:
    return f"{earlier.appended:,} samples were appended to the dataset after this state was saved"
