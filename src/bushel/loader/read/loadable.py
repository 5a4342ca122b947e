"""The dataset protocol of loaders, and the errors that name a sample."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import I64
from bushel._runtime.public import public
from bushel.errors import BushelError, CodecError, MissingPackageError
from bushel.loader.values.bad_samples import BadSample, Failure, cause_of, note_once, read_errors
from bushel.loader.values.collate import Sample

from .batch_reader import BatchReader

if TYPE_CHECKING:
    from bushel._dataset.read.stored_reader import Room
    from bushel.loader.run.ahead_plan import Planned
    from bushel.loader.run.read_ahead import HeldBatch


@public("bushel.loader")
class Loadable(Protocol):
    """The methods of a dataset that a loader uses: a `Dataset`, `ds.map(…)`, or a class of your own.

    Examples:
        >>> from bushel.loader import Loadable
        >>> dataset: Loadable = ds.map(dict)
        >>> bushel.Loader(dataset, 2)
        <bushel.Loader: ...>
    """

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
        self,
        stored: Sequence[Sample],
        positions: I64,
        encoded: Collection[str] = (),
        fields: Any = None,
    ) -> list[Sample]:
        """Decode samples that `read(decode=False)` returned. Images of the fields `encoded` may stay stored bytes.

        `fields` is the argument of `read` if that was a mapping.
        """

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Announce samples that will be read soon to the storage."""

    def position(self, key: str) -> int:
        """Return the position of a key. Raise KeyError if it is missing."""

    def location(self, position: int, field: str) -> tuple[str | None, int | None]:
        """Return file and offset of a field."""


def source_of(dataset: Loadable, fields: Any = None) -> BatchReader | PlainReader:
    """Return the reads of a dataset, or of some of its fields."""
    if isinstance(dataset, Dataset):
        reader = dataset.reader.narrowed(dataset.selection.wanted(fields))
        if reader is not dataset.reader:
            dataset = type(dataset)((), reader=reader, selection=dataset.selection)
        return BatchReader(dataset)
    return PlainReader(dataset)


class PlainReader(Struct, frozen=True):
    """The reads of a dataset of another class, as of `BatchReader`. None of its files can be read ahead."""

    dataset: Loadable
    remote: bool = False
    size: int = 0

    def read_encoded(
        self,
        positions: Any,
        fields: Any = None,
        *,
        decode: bool = True,
        held: HeldBatch | None = None,
        room: Room | None = None,
    ) -> list[Sample]:
        """Read samples for `decode_samples`."""
        return self.dataset.read(positions, fields, decode=False)

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: I64,
        encoded: Collection[str] = (),
        fields: Any = None,
    ) -> list[Sample]:
        """Decode samples of `read_encoded`."""
        if fields is None:
            return self.dataset.decode_samples(stored, positions, encoded)
        return self.dataset.decode_samples(stored, positions, encoded, fields)

    def prefetch(self, positions: Any, fields: Any = None, *, decode: bool = True) -> None:
        """Tell the storage what `read_encoded` will read soon."""
        self.dataset.prefetch(positions, fields)

    def extents(self, positions: Any, fields: Any = None, *, decode: bool = True) -> Planned:
        """Return no extents: its files are unknown."""
        return []

    def drain_whole_clips(self) -> int:
        """Return 0: the dataset reads clips itself."""
        return 0


def failure_of(
    dataset: Loadable,
    error: Exception,
    sample: int,
    key: str | None = None,
    field: str | None = None,
) -> Failure:
    """Return the `Failure` that replaces a bad sample. Its error gets the sample's key and position.

    Args:
        dataset: The dataset with the sample.
        error: The exception.
        sample: Position of the sample in the dataset.
        key: Its key; None to look it up.
        field: The bad field; None if only the error may know.

    Raises:
        MissingPackageError: It is the error, since every other sample would have the same.
    """
    if isinstance(error, MissingPackageError):
        raise error
    if key is None:
        key = dataset.keys[sample]
    if field is not None and isinstance(error, CodecError):
        error = _located(dataset, error, sample, key, field)
    cause = cause_of(error)
    note_once(error, f"sample {key!r} (position {sample} of the dataset)")
    field_of_error = getattr(error, "field", None) or (
        error.details.get("field") if isinstance(error, BushelError) else None
    )
    return Failure(error, field_of_error if isinstance(field_of_error, str) else field, key, cause)


def _located(dataset: Loadable, error: CodecError, sample: int, key: str, field: str) -> CodecError:
    """Return the error with the location of the field, as a dataset raises it."""
    file, offset = dataset.location(sample, field)
    details = {
        **error.details,
        "key": key,
        "field": field,
        "file": file,
        "offset": offset,
        "position": sample,
    }
    return CodecError(f"sample {key!r}, field {field!r} ({file}@{offset}): {error}", **details)


def describe(
    dataset: Loadable, sample: int, failure: Failure, error: Exception, first: str
) -> BadSample:
    """Return the entry about a bad sample for `Loader.errors`.

    Args:
        dataset: The dataset with the sample.
        sample: Position of the sample in the dataset.
        failure: The failure in its place.
        error: The exception.
        first: The first field that is read, whose location stands for the sample if no field is
            known.
    """
    file, offset = getattr(error, "file", None), getattr(error, "offset", None)
    if file is None:
        file, offset = dataset.location(sample, failure.field or first)
    key = failure.key or dataset.keys[sample]
    return BadSample(sample, key, failure.field, file, offset, failure.cause or cause_of(error))


def excluded_positions(
    dataset: Loadable, exclude: str | os.PathLike[str] | Iterable[str | int | BadSample]
) -> frozenset[int]:
    """Return the positions of the samples that `exclude=` of a loader names: in a file, by position, key or report.

    Raises:
        ValueError: It names a sample that the dataset does not have.
    """
    if isinstance(exclude, str | os.PathLike):
        exclude = read_errors(exclude)
    try:
        named = (sample.key if isinstance(sample, BadSample) else sample for sample in exclude)
        return frozenset(
            sample if isinstance(sample, int) else dataset.position(sample) for sample in named
        )
    except KeyError as error:
        raise ValueError(
            f"exclude= names a sample that the dataset does not have: {error.args[0]}"
        ) from error
