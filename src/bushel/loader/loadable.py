"""What a loader reads samples from, and how errors name those samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bushel.errors import BushelError, CodecError
from bushel.loader.bad_samples import BadSample, Failure
from bushel.loader.collate import Sample

__all__ = ["Loadable", "describe", "failure_of"]

I64 = npt.NDArray[np.int64]


class Loadable(Protocol):
    """The methods of a dataset that a loader uses."""

    @property
    def spec(self) -> Mapping[str, str]:
        """Field to type."""

    @property
    def fingerprint(self) -> str:
        """Identity of the samples and their order."""

    @property
    def keys(self) -> Sequence[str]:
        """The keys by position."""

    def __len__(self) -> int: ...

    def read(self, positions: Any, fields: Any = None, *, decode: bool = True) -> list[Sample]:
        """Return many samples, in one read."""

    def decode_samples(
        self, stored: Sequence[Sample], positions: I64, encoded: Collection[str] = (), fields: Any = None
    ) -> list[Sample]:
        """Decode samples that `read(decode=False)` returned. Images of the fields `encoded` may stay stored bytes.

        `fields` is the argument of `read` if that was a mapping.
        """

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Tell the storage what will be read soon."""

    def position(self, key: str) -> int:
        """Return the position of a key. Raise KeyError if it is missing."""

    def location(self, position: int, field: str) -> tuple[str | None, int | None]:
        """Return file and offset of a field."""


def failure_of(dataset: Loadable, error: Exception, sample: int, key: str | None, field: str | None) -> Failure:
    """Return what takes the place of a bad sample. Its error gets the sample's key and position.

    Args:
        dataset: The dataset with the sample.
        error: The exception.
        sample: Position of the sample in the dataset.
        key: Its key; None to look it up.
        field: The bad field; None if only the error may know.
    """
    if key is None:
        key = dataset.keys[sample]
    if field is not None and isinstance(error, CodecError):
        error = _located(dataset, error, sample, key, field)
    error.add_note(f"sample {key!r} (position {sample} of the dataset)")
    own = getattr(error, "field", None) or (error.details.get("field") if isinstance(error, BushelError) else None)
    return Failure(error, own if isinstance(own, str) else field, key)


def _located(dataset: Loadable, error: CodecError, sample: int, key: str, field: str) -> CodecError:
    """Return the error with the location of the field, as a dataset raises it."""
    file, offset = dataset.location(sample, field)
    details = {**error.details, "key": key, "field": field, "file": file, "offset": offset, "position": sample}
    return CodecError(f"sample {key!r}, field {field!r} ({file}@{offset}): {error}", **details)


def describe(dataset: Loadable, sample: int, failure: Failure, error: Exception, first: str) -> BadSample:
    """Return the entry about a bad sample for `Loader.errors`.

    Args:
        dataset: The dataset with the sample.
        sample: Position of the sample in the dataset.
        failure: What took its place.
        error: The exception.
        first: The first field that is read, whose location stands for that of the sample if no field is known.
    """
    file, offset = getattr(error, "file", None), getattr(error, "offset", None)
    if file is None:
        file, offset = dataset.location(sample, failure.field or first)
    key, cause = failure.key or dataset.keys[sample], f"{type(error).__name__}: {error}"
    return BadSample(sample, key, failure.field, file, offset, cause)
