"""Transforms at load time, and the randomness they draw from."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel.errors import SpecError

__all__ = ["SampleTransforms", "Transform", "generator"]

Transform = Callable[..., Any]
"""`fn(value)`, or `fn(value, rng)` with a parameter named `rng`."""


def generator(seed: int, epoch: int, sample: int) -> np.random.Generator:
    """The random numbers of one sample in one epoch.

    Philox (Salmon et al., 2011) keyed by (seed, epoch), with the sample's position in the dataset in the upper half
    of its counter. So they are the same in whatever thread, process, batch or rank the sample is prepared.
    """
    key, counter = np.array([seed, epoch], np.uint64), np.array([0, 0, sample, 0], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _takes_rng(transform: Transform) -> bool:
    try:
        return "rng" in inspect.signature(transform).parameters
    except ValueError:  # builtins without a signature
        return False


@dataclass(frozen=True, slots=True)
class SampleTransforms:
    """The transforms of a loader, in the order in which they are applied.

    Attributes:
        steps: (field, transform, whether it takes `rng`).
        random: Whether any of them takes `rng`.
    """

    steps: tuple[tuple[str, Transform, bool], ...] = ()
    random: bool = False

    @classmethod
    def of(cls, transforms: Mapping[str, Sequence[Transform]], spec: Mapping[str, str]) -> SampleTransforms:
        """Check transforms given as field to list of functions.

        Raises:
            SpecError: The dataset has no such field.
            TypeError: Something in a list cannot be called.
        """
        steps = []
        for field, functions in transforms.items():
            if field not in spec:
                raise SpecError(
                    f"transforms for {field!r}, which is not a field of the dataset: it has {', '.join(spec)}"
                )
            for function in functions:
                if not callable(function):
                    raise TypeError(f"the transform {function!r} of field {field!r} cannot be called")
                steps.append((field, function, _takes_rng(function)))
        return cls(tuple(steps), any(random for _, _, random in steps))

    def apply(self, sample: dict[str, Any], rng: np.random.Generator | None) -> None:
        """Transform the fields of a sample in place; a field that the sample lacks is passed over.

        Args:
            sample: The decoded sample.
            rng: Its `generator`, needed when `random`.
        """
        for field, function, random in self.steps:
            if field in sample:
                try:
                    sample[field] = function(sample[field], rng=rng) if random else function(sample[field])
                except Exception as error:
                    error.add_note(f"in the transform {function!r} of field {field!r}")
                    raise
