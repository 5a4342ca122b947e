"""Places in a training run: a loader goes on from a state, and skips steps.

The state may be older than shards that were appended, samples that were removed, or a change of the
schedule of a mixture after the samples that were drawn.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.earlier import BeforeAppend, before_append, before_removal
from bushel._runtime.scheduled import Scheduled, first_difference, scheduled_of
from bushel.errors import StateError
from bushel.loader.order.mixture import Mixture
from bushel.loader.order.packed import Packed
from bushel.loader.read.costs import blocks_of_state
from bushel.loader.values.bad_samples import read_errors

from .state import LoaderState, Progress


def loader_before_append(
    loader: Any, state: Mapping[str, object], *, allow_appended: bool, allow_removed: bool
) -> Any:
    """Return a loader of the samples that a dataset had when a state was saved, at the place of the state.

    Returns:
        The loader; None if the dataset did not begin with the samples of the state.

    Raises:
        StateError: They are, but that is not allowed; or the loader refuses the state for another
            reason.
    """
    options_given = loader._given
    earlier = before_append(loader.dataset, LoaderState.from_dict(state).fingerprint)
    if earlier is None:
        return None
    if isinstance(options_given["dataset"], Mixture):
        message = (
            f"{_reason(earlier)}; the order of a mixture depends on its sizes: start"
            " without the state"
        )
        raise StateError(message)
    if not allow_appended:
        raise StateError(
            f"{_reason(earlier)}. To end the epoch with the samples that it began with, and to"
            " have all of them from "
            "the next one on: loader.load_state_dict(state, allow_appended=True)"
        )
    options: Mapping[str, Any] = {**options_given, "dataset": earlier.dataset}
    before = type(loader)(**options)
    before.load_state_dict(state, allow_removed=allow_removed)
    return before


def _reason(earlier: BeforeAppend) -> str:
    return f"{earlier.appended:,} samples were appended to the dataset after this state was saved"


def accept_future(state: LoaderState, own: Any) -> LoaderState:
    """Return a state for this loader's order if only the draws after it differ; any other state unchanged.

    Raises:
        StateError: The order belongs to a mixture whose schedule differs in samples that were
            drawn.
    """
    order = own.base if isinstance(own, Packed) else own
    if not isinstance(order, Scheduled) or state.version == own.version:
        return state
    version, consumed = state.version, state.samples
    if isinstance(own, Packed):
        if version.partition(";")[0] != own.version.partition(";")[0]:
            return state
        version = version.partition(";")[2].rpartition(")/")[0]
        # a window is packed as a whole
        consumed = min(order.samples, -(-consumed // own.window) * own.window)
    if (old := scheduled_of(version, state.seed)) is None:
        return state
    if state.epoch and old.samples != order.samples:
        raise StateError(
            f"an epoch of the mixture had {old.samples} samples when the state was saved, and has"
            f" {order.samples} now, "
            f"which moves the draws of epoch {state.epoch}: give until={old.samples}"
        )
    drawn = state.epoch * old.samples + consumed
    if (place := first_difference(old, replace(order, seed=state.seed), drawn)) is not None:
        raise StateError(
            f"the mixture differs from the state's from sample {place} on, and {drawn} were"
            " drawn: its past must stay "
            f"the same. The state has the schedule {_said(old)}, and the loader {_said(order)}"
        )
    return replace(state, version=own.version)


def _said(order: Scheduled) -> str:
    points = ", ".join(
        f"({at}, {', '.join(f'{weight:g}' for weight in weights)})" for at, weights in order.points
    )
    return f"{points}{' as ramps' if order.ramp else ''}"


def with_removed_samples(
    given: Mapping[str, Any], dataset: Any, fingerprint: str, *, allowed: bool
) -> dict[str, Any] | None:
    """Return the options of a loader of the dataset before samples were removed, which leaves these out.

    Returns:
        The options; None if the dataset never had this fingerprint.

    Raises:
        StateError: It had, and that is not allowed, or the dataset is a mixture.
    """
    if (earlier := before_removal(dataset, fingerprint)) is None:
        return None
    if isinstance(given["dataset"], Mixture):
        raise StateError(
            f"{earlier.reason}; the order of a mixture depends on its sizes: start without the"
            " state"
        )
    if not allowed:
        again = "loader.load_state_dict(state, allow_removed=True)"
        raise StateError(f"{earlier.reason}. To go on in the same order without them: {again}")
    excluded_before = given["exclude"]
    if isinstance(excluded_before, str | os.PathLike):
        exclude = read_errors(excluded_before)
    else:
        exclude = excluded_before
    return {**given, "dataset": earlier.dataset, "exclude": [*exclude, *earlier.removed.tolist()]}


def resume(
    loader: Any, state: Mapping[str, object], *, allow_appended: bool, allow_removed: bool
) -> None:
    """Let a loader continue from a state: see `Loader.load_state_dict`. A state that is refused changes nothing.

    Raises:
        StateError: It is of other data or of another order, or is not a state; or that is not
            allowed.
    """
    loaded = LoaderState.from_dict(state)
    if loaded.fingerprint != loader._fingerprint:
        options = with_removed_samples(
            loader._given, loader.dataset, loaded.fingerprint, allowed=allow_removed
        )
        if options is not None:
            without_removed = type(loader)(**options)
            without_removed.load_state_dict(state)
            loader.__dict__.clear()
            loader.__dict__.update(vars(without_removed))
            return
        before = loader_before_append(
            loader, state, allow_appended=allow_appended, allow_removed=allow_removed
        )
        if before is not None:
            _end_epoch_of(before, loader)
            return
    _continue(loader, loaded)


def _continue(loader: Any, loaded: LoaderState) -> None:
    """Go to the place of a state of the same data."""
    order: Any = loader._plan.order
    if loader.shuffle == "blocks":
        order = blocks_of_state(loaded.version, order)
    if loaded.fingerprint == loader._fingerprint:
        loaded = accept_future(loaded, order)
    elif isinstance(loader.dataset, Dataset) and (erased := loader.dataset.info.removed_missing):
        raise StateError(
            "the state belongs to another dataset, or to this one before removed samples were"
            f" erased ({erased:,} are not stored any more): its order has places for them, and"
            " cannot be made again. Start without the state"
        )
    loaded.check(version=order.version, fingerprint=loader._fingerprint)
    has_own_seeds = hasattr(order, "reseeded")
    if has_own_seeds:
        order = order.reseeded(loaded.seed)
    else:
        order = replace(order, seed=loaded.seed)
    plan = replace(loader._plan, order=order)
    loaded.check_samples(plan.at(loaded.epoch).units.positions)
    windows = loader._pipeline.windows and replace(loader._pipeline.windows, seed=loaded.seed)
    loader._plan, loader._pipeline = plan, replace(loader._pipeline, order=order, windows=windows)
    loader._set({"seed": loaded.seed}.items())
    loader._before = None
    loader._go_to(Progress.at(loaded.epoch, loaded.samples))


def _end_epoch_of(before: Any, loader: Any) -> None:
    """Continue in the middle of the epoch of a loader of fewer samples, and with all samples after it."""
    progress = before._progress
    start = LoaderState(
        loader._plan.order.version, loader._fingerprint, before.seed, progress.epoch, 0
    )
    _continue(loader, start)
    if progress.samples:
        loader._before = before
        loader._go_to(Progress.at(progress.epoch, progress.samples))


def restored(kind: type[Any], options: Mapping[str, Any], state: Mapping[str, object]) -> Any:
    """Return a loader that was pickled or copied."""
    loader = kind(**options)
    loader.load_state_dict(state, allow_appended=True)
    return loader


def place_after(loader: Any, steps: int) -> Progress:
    """Return the place after some more steps of every rank, in a later epoch if needed.

    Raises:
        ValueError: The epochs have no batches.
    """
    place = loader._place()
    left = loader._of(place.epoch)._plan.at(place.epoch).all_steps(place.samples)
    whole = loader._plan.at(0).all_steps()
    if steps and not whole:
        raise ValueError(f"skip({steps}): the epochs of this loader have no batches")
    if steps >= left:
        steps, place = steps - left, Progress.at(place.epoch + 1)
        while whole and steps >= (whole := loader._plan.at(place.epoch).all_steps()):
            epochs = steps // whole if loader._plan.is_even else 1
            steps, place = steps - epochs * whole, Progress.at(place.epoch + epochs)
    consumed = loader._of(place.epoch)._plan.at(place.epoch).consumed(place.samples, steps)
    return Progress.at(place.epoch, consumed)
