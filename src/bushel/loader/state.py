"""Where a loader stands in its training run: five values, whatever the number of ranks, workers or the batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bushel.errors import StateError

__all__ = ["LoaderState", "Progress"]


@dataclass(slots=True)
class Progress:
    """Where the trainer is. Every `for` has its own, so one that was left behind cannot move a newer one.

    Attributes:
        epoch: Number of the epoch.
        samples: What is consumed of it.
    """

    epoch: int
    samples: int = 0


@dataclass(frozen=True, slots=True)
class LoaderState:
    """A place in a training run.

    Attributes:
        version: The order, with its parameters and version (`exact/1`).
        fingerprint: The dataset's.
        seed: What the order and the transforms are keyed by.
        epoch: Number of the epoch, from 0.
        samples: Positions of that epoch that all ranks together have handed to the trainer.
    """

    version: str
    fingerprint: str
    seed: int
    epoch: int
    samples: int

    def to_dict(self) -> dict[str, str | int]:
        """The state as plain values, for any checkpoint format."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> LoaderState:
        """The inverse of `to_dict`.

        Raises:
            StateError: A value is missing, of another type, or negative.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"a loader's state is a mapping as state_dict() gives it, not a {type(state).__name__}")
        return cls(
            _text(state, "version"),
            _text(state, "fingerprint"),
            _count(state, "seed"),
            _count(state, "epoch"),
            _count(state, "samples"),
        )

    def check(self, *, version: str, fingerprint: str, samples: int) -> None:
        """Refuse to continue this state elsewhere than where it was saved.

        Args:
            version: The order of the loader that is to continue.
            fingerprint: Its dataset's.
            samples: Its number of samples.

        Raises:
            StateError: Another dataset or another order.
        """
        if self.fingerprint != fingerprint:
            raise StateError(
                f"the state was saved on another dataset (fingerprint {self.fingerprint}, this one has {fingerprint}): "
                f"its positions mean other samples here; open the dataset as it was, or begin anew without the state"
            )
        if self.version != version:
            raise StateError(
                f"the state was saved under the order {self.version!r}, and this loader has {version!r}: give the same "
                f"shuffle= as then, or finish the epoch with the release of bushel that saved it"
            )
        if self.samples > samples:
            raise StateError(f"the state has {self.samples} samples behind it, and the dataset has only {samples}")


def _text(state: Mapping[str, object], name: str) -> str:
    text = state.get(name)
    if not isinstance(text, str):
        raise StateError(f"the state's {name!r} is {text!r}, not text: was it made by Loader.state_dict()?")
    return text


def _count(state: Mapping[str, object], name: str) -> int:
    count = state.get(name)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 1 << 64:
        raise StateError(f"the state's {name!r} is {count!r}, not a count: was it made by Loader.state_dict()?")
    return count
