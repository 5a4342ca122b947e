"""The saved state of a training run, and the progress of one iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Struct

from bushel.errors import StateError

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Progress(Struct):
    """The progress of one iteration. Each `for` has its own, so an old iterator cannot change a newer one.

    Attributes:
        epoch: Number of the epoch.
        start: Positions of the epoch that were consumed before the iteration.
        samples: Positions of the epoch that are consumed.
        given: Number of batches that the iteration gave to the trainer.
    """

    epoch: int
    start: int = 0
    samples: int = 0
    given: int = 0

    @classmethod
    def at(cls, epoch: int, samples: int = 0) -> Progress:
        """Return the progress of an iteration that starts in an epoch after this many samples."""
        return cls(epoch, samples, samples)


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
            loaded = msgspec.convert(state, cls)
        except msgspec.ValidationError as error:
            problem = str(error).replace("$.", "")
            raise StateError(f"the state is not what state_dict() returned: {problem}") from None
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
                f"the state belongs to another dataset (fingerprint {self.fingerprint} instead of"
                f" {fingerprint}). "
                "Open the same dataset, or start without the state (one file is another dataset"
                " after an append: "
                f"write a folder if it will grow)"
            )
        if self.version != version:
            raise StateError(
                f"the state belongs to the order {self.version!r}, but this loader has"
                f" {version!r}. Give the same "
                "shuffle= as then, or finish the epoch with the release of bushel that saved the"
                " state"
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
