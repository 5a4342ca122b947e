"""Resume with another schedule, which may differ only after the samples that were already drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bushel._runtime.scheduled import Scheduled, first_difference, scheduled_of
from bushel.errors import StateError
from bushel.loader.order.packed import Packed
from bushel.loader.state import LoaderState


def accept_future(state: LoaderState, own: Any) -> LoaderState:
    """Return a state for this loader's order if only the draws after it differ; any other state unchanged.

    Raises:
        StateError: The order belongs to a mixture whose schedule differs in samples that were drawn.
    """
    order = own.base if isinstance(own, Packed) else own
    if not isinstance(order, Scheduled) or state.version == own.version:
        return state
    version, consumed = state.version, state.samples
    if isinstance(own, Packed):
        if version.partition(";")[0] != own.version.partition(";")[0]:
            return state
        version = version.partition(";")[2].rpartition(")/")[0]
        consumed = min(order.samples, -(-consumed // own.window) * own.window)  # a window is packed as a whole
    if (old := scheduled_of(version, state.seed)) is None:
        return state
    if state.epoch and old.samples != order.samples:
        raise StateError(
            f"an epoch of the mixture had {old.samples} samples when the state was saved, and has {order.samples} now, "
            f"which moves the draws of epoch {state.epoch}: give until={old.samples}"
        )
    drawn = state.epoch * old.samples + consumed
    if (place := first_difference(old, replace(order, seed=state.seed), drawn)) is not None:
        raise StateError(
            f"the mixture differs from the state's from sample {place} on, and {drawn} were drawn: its past must stay "
            f"the same. The state has the schedule {_said(old)}, and the loader {_said(order)}"
        )
    return replace(state, version=own.version)


def _said(order: Scheduled) -> str:
    points = ", ".join(f"({at}, {', '.join(f'{weight:g}' for weight in weights)})" for at, weights in order.points)
    return f"{points}{' as ramps' if order.ramp else ''}"
