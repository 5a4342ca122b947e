"""Places in a training run: a loader goes on from a state, and skips steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bushel.loader.plan.appended import loader_before_append
from bushel.loader.plan.future import accept_future
from bushel.loader.read.expansion import blocks_of_state
from bushel.loader.state import LoaderState, Progress


def resume(loader: Any, state: Mapping[str, object], *, allow_appended: bool, allow_removed: bool) -> None:
    """Let a loader continue from a state: see `Loader.load_state_dict`. A state that is refused changes nothing.

    Raises:
        StateError: It is of other data or of another order, or is not a state; or that is not allowed.
    """
    loaded = LoaderState.from_dict(state)
    if loaded.fingerprint != loader._fingerprint:
        from bushel.loader.plan.removed_since import with_removed_samples

        given = with_removed_samples(loader._given, loader.dataset, loaded.fingerprint, allowed=allow_removed)
        if given is not None:
            without_removed = type(loader)(**given)
            without_removed.load_state_dict(state)
            loader.__dict__.clear()
            loader.__dict__.update(vars(without_removed))
            return
        before = loader_before_append(loader, state, allow_appended=allow_appended, allow_removed=allow_removed)
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
    loaded.check(version=order.version, fingerprint=loader._fingerprint)
    has_own_seeds = hasattr(order, "reseeded")
    order = order.reseeded(loaded.seed) if has_own_seeds else replace(order, seed=loaded.seed)
    plan = replace(loader._plan, order=order)
    loaded.check_samples(plan.at(loaded.epoch).order.samples)
    windows = loader._pipeline.windows and replace(loader._pipeline.windows, seed=loaded.seed)
    loader._plan, loader._pipeline = plan, replace(loader._pipeline, order=order, windows=windows)
    loader._set({"seed": loaded.seed}.items())
    loader._before = None
    loader._go_to(Progress.at(loaded.epoch, loaded.samples))


def _end_epoch_of(before: Any, loader: Any) -> None:
    """Continue in the middle of the epoch of a loader of fewer samples, and with all samples after it."""
    progress = before._progress
    start = LoaderState(loader._plan.order.version, loader._fingerprint, before.seed, progress.epoch, 0)
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
