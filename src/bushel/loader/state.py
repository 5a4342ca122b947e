"""Places in a training run: its saved state, and how a loader goes on from a state.

The state may be older than shards that were appended, samples that were removed, or a change of the
schedule of a mixture after the samples that were drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.earlier import Earlier, earlier_form
from bushel._runtime.arrays import python_numbers
from bushel._runtime.scheduled import Scheduled, first_difference, scheduled_of
from bushel.errors import StateError
from bushel.loader.order.mixture import Mixture
from bushel.loader.order.packed import Packed
from bushel.loader.read.costs import blocks_of_state

from .base import Progress

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class LoaderState(Struct, frozen=True):
    """A place in a training run.

    Attributes:
        version: Kind, parameters and version of the order, such as `exact/1`.
        fingerprint: Fingerprint of the dataset.
        seed: Seed of the order and the transforms.
        epoch: Number of the epoch, from 0.
        samples: Positions of that epoch that all ranks together have given to the trainer.

    Examples:
        >>> from bushel.loader import LoaderState
        >>> state = LoaderState.from_dict(bushel.Loader(ds, 4, shuffle=True).state_dict())
        >>> state.version, state.epoch
        ('exact/1', 0)
    """

    version: str
    fingerprint: str
    seed: Count
    epoch: Count
    samples: Count

    def to_dict(self) -> dict[str, str | int]:
        """Return the state as plain values, for any checkpoint format."""
        return msgspec.structs.asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> LoaderState:
        """Return the state that `to_dict` gave as a dict.

        Raises:
            StateError: A value is missing, of another type, or negative.
        """
        try:
            # formats of checkpoints may give numbers of NumPy back
            loaded = msgspec.convert(python_numbers(state), cls)
        except msgspec.ValidationError as error:
            problem = str(error).replace("$.", "")
            raise StateError(
                f"the state is not what state_dict() returned: {problem} (save all of it, "
                "and give it back unchanged)"
            ) from None
        if max(loaded.seed, loaded.epoch, loaded.samples) >= 1 << 64:
            raise StateError("the state is not what state_dict() returned: a number is too large")
        return loaded

    def check(self, *, version: str, fingerprint: str) -> None:
        """Check that the state fits the loader that will continue from it.

        Raises:
            StateError: The state belongs to another dataset or another order.
        """
        if self.fingerprint != fingerprint:
            raise StateError(
                f"the state belongs to another dataset (fingerprint {self.fingerprint} instead "
                f"of {fingerprint}). Open the same dataset, or start without the state (one "
                "file is another dataset after an append: write a folder if it will grow)"
            )
        if self.version != version:
            raise StateError(
                f"the state belongs to the order {self.version!r}, but this "
                f"loader has {version!r}. Give shuffle=, weights= and other options of the order as "
                "they were then, or finish the epoch with the release of bushel that saved the state"
            )

    def check_samples(self, samples: int) -> None:
        """Check that the consumed samples are not more than an epoch has.

        Raises:
            StateError: More was.
        """
        if self.samples > samples:
            raise StateError(
                f"the state says {self.samples} samples consumed, but an epoch has only {samples}"
            )


def _check_change(loader: Any, reason: str, to_go_on: str, option: str, *, allowed: bool) -> None:
    """Check that a loader may go on from a state that is older than a change of the dataset.

    Raises:
        StateError: It may not.
    """
    if isinstance(loader._given["dataset"], Mixture):
        raise StateError(
            f"{reason}; the order of a mixture depends on its sizes: start without the state"
        )
    if not allowed:
        raise StateError(f"{reason}. {to_go_on}: loader.load_state_dict(state, {option}=True)")


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
            f"an epoch of the mixture had {old.samples} samples when the "
            f"state was saved, and has {order.samples} now, which moves "
            f"the draws of epoch {state.epoch}: give until={old.samples}"
        )
    drawn = state.epoch * old.samples + consumed
    if (place := first_difference(old, replace(order, seed=state.seed), drawn)) is not None:
        raise StateError(
            f"the mixture differs from the state's from sample {place} on, and "
            f"{drawn} were drawn: its past must stay the same. The state has "
            f"the schedule {_described(old)}, and the loader {_described(order)}"
        )
    return replace(state, version=own.version)


def _described(order: Scheduled) -> str:
    points = ", ".join(
        f"({at}, {', '.join(f'{weight:g}' for weight in weights)})" for at, weights in order.points
    )
    return f"{points}{' as ramps' if order.ramp else ''}"


def resume(
    loader: Any, state: Mapping[str, object], *, allow_appended: bool, allow_removed: bool
) -> None:
    """Let a loader continue from a state: see `Loader.load_state_dict`. A state that is refused changes nothing.

    Raises:
        StateError: It is of other data or of another order, or is not a state; or that is not
            allowed.
    """
    loaded = LoaderState.from_dict(state)
    if loaded.fingerprint == loader._fingerprint:
        _continue(loader, loaded)
    elif (earlier := earlier_form(loader.dataset, loaded.fingerprint)) is not None:
        if earlier.appended:
            reason = (
                f"{earlier.appended:,} samples were appended to the dataset "
                "after this state was saved"
            )
            to_go_on = (
                "To end the epoch with the samples that it began "
                "with, and to have all of them from the next one on"
            )
            _check_change(loader, reason, to_go_on, "allow_appended", allowed=allow_appended)
        if earlier.removal:
            to_go_on = "To go on in the same order without them"
            _check_change(loader, earlier.removal, to_go_on, "allow_removed", allowed=allow_removed)
        try:
            before = type(loader)(**_options_of_earlier(loader, earlier))
        except ValueError as error:
            raise StateError(
                "a loader of the samples that the dataset had, which the state needs, "
                f"cannot be made with these options: {error}"
            ) from error
        before.load_state_dict(state)
        if earlier.appended:
            _end_epoch_of(before, loader)
        else:
            loader.__dict__.clear()
            loader.__dict__.update(vars(before))
    else:
        _continue(loader, loaded)


def _options_of_earlier(loader: Any, earlier: Earlier) -> dict[str, Any]:
    """Return the options of a loader of the samples that a dataset had: of arrays and orders, the part for these."""
    excluded = earlier.positions_of([*loader._pipeline.excluded]) + earlier.removed.tolist()
    options: dict[str, Any] = {
        **loader._given,
        "dataset": earlier.dataset,
        "exclude": excluded,
    }
    samples, shuffle = len(earlier.dataset), options["shuffle"]
    if hasattr(shuffle, "samples"):
        options["shuffle"] = replace(shuffle, samples=samples)
    for name in ("weights", "bucket_by"):
        # the numbers of samples that were removed since are unknown
        if not isinstance(options[name], str | None) and not len(earlier.removed):
            options[name] = options[name][:samples]
    return options


def _continue(loader: Any, loaded: LoaderState) -> None:
    """Go to the place of a state of the same data."""
    order: Any = loader._plan.order
    if loader.shuffle == "blocks":
        order = blocks_of_state(loaded.version, order)
    if loaded.fingerprint == loader._fingerprint:
        loaded = accept_future(loaded, order)
    elif isinstance(loader.dataset, Dataset) and (erased := loader.dataset.info.removed_missing):
        raise StateError(
            "the state belongs to another dataset, or to this one before removed "
            f"samples were erased ({erased:,} are not stored any more): its order "
            "has places for them, and cannot be made again. Start without the state"
        )
    loaded.check(version=order.version, fingerprint=loader._fingerprint)
    # packs and chunks have the seed of their base
    if "seed" in order.__struct_fields__:
        order = replace(order, seed=loaded.seed)
    else:
        order = replace(order, base=replace(order.base, seed=loaded.seed))
    plan = replace(loader._plan, order=order)
    loaded.check_samples(plan.at(loaded.epoch).units.positions)
    windows = loader._pipeline.windows and replace(loader._pipeline.windows, seed=loaded.seed)
    loader._plan, loader._pipeline = plan, replace(loader._pipeline, order=order, windows=windows)
    loader._set(seed=loaded.seed)
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
            epochs = steps // whole if loader._plan.at(0).units.is_even else 1
            steps, place = steps - epochs * whole, Progress.at(place.epoch + epochs)
    consumed = loader._of(place.epoch)._plan.at(place.epoch).consumed(place.samples, steps)
    return Progress.at(place.epoch, consumed)
