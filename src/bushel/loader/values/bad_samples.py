"""Bad samples, which could not be read, decoded or transformed, and transforms with a check of what they return."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from bushel._runtime.arrays import check_count, python_numbers
from bushel._runtime.public import public
from bushel.errors import BushelError, CodecError, FormatError, MissingPackageError, TooManyErrors
from bushel.storage import read_whole
from bushel.transforms.values import note_once

if TYPE_CHECKING:
    from bushel.loader.read.loadable import Loadable

OnError = Literal["raise", "skip", "replace"]

DAMAGE = (BushelError, OSError, KeyError, TypeError, ValueError)
"""What damaged data raises. A batch that meets it is made again sample by sample, to find the bad one."""


@public("bushel.loader")
class BadSample(Struct, frozen=True):
    """A sample that could not be read, decoded or transformed, as in `Loader.errors`.

    Attributes:
        sample: Position of the sample in the dataset; with a `StreamLoader`, its number in the
            epoch of the rank.
        key: Key of the sample.
        field: The bad field; None if it is unknown.
        file: File that holds the field; None if it is unknown.
        offset: Offset in that file, in bytes; None if it is unknown.
        cause: Type and message of the exception, and the transform that raised it.

    Examples:
        >>> damaged = Path("photos/cat/0.jpg").read_bytes()[:200]  # most of it is missing
        >>> with bushel.Writer("some.tar", {"image": "jpg"}) as writer:
        ...     writer.append({"image": damaged}, key="cat/0")
        ...     writer.append({"image": Path("photos/cat/1.jpg").read_bytes()}, key="cat/1")
        0
        1
        >>> loader = bushel.Loader(bushel.open("some.tar"), batch_size=2, on_error="skip")
        >>> [batch["__key__"] for batch in loader]
        [['cat/1']]
        >>> loader.errors[0].key, loader.errors[0].field
        ('cat/0', 'image')
    """

    sample: int
    key: str
    field: str | None
    file: str | None
    offset: int | None
    cause: str

    def __str__(self) -> str:
        location = "" if self.file is None else f" ({self.file}@{self.offset})"
        field = "" if self.field is None else f", field {self.field!r}"
        return f"sample {self.key!r}{field}{location}: {self.cause}"


class Failure(Struct, frozen=True):
    """Takes the place of a bad sample in a batch.

    Attributes:
        error: The exception; None for a sample that `exclude=` names.
        field: The bad field; None if it is unknown.
        key: The sample's key; None if it was not looked up.
        cause: See `BadSample.cause`.
    """

    error: Exception | None
    field: str | None = None
    key: str | None = None
    cause: str = ""


def cause_of(error: BaseException) -> str:
    """Return type and message of an exception, and the notes that it has so far, such as the transform."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()) if "\n" not in note)
    return f"{type(error).__name__}: {error}{notes}"


def one_by_one(
    items: Sequence[Any],
    work: Callable[[int], dict[str, Any]],
    fail: Callable[[Exception, int], Failure],
    *,
    stop: bool = False,
) -> list[dict[str, Any] | Failure]:
    """Read or decode samples one by one, and find the bad ones.

    Args:
        items: The samples of a batch in any form; the `Failure` of one that is known to be bad.
        work: Makes the sample at a place of the batch.
        fail: Makes the failure of a bad one, given its error and place.
        stop: Whether to leave out what comes after the first bad one, whose error will be raised:
            each other sample may wait for unused bytes.
    """
    samples: list[dict[str, Any] | Failure] = []
    for place, sample in enumerate(items):
        if isinstance(sample, Failure):
            samples.append(sample)
            continue
        try:
            samples.append(work(place))
        except Exception as error:
            samples.append(fail(error, place))
            if stop:
                break
    return samples + [Failure(None)] * (len(items) - len(samples))


class ErrorReport:
    """The bad samples of a loader. Threads share it.

    Attributes:
        max_errors: Number of bad samples that are tolerated; None for no limit.
    """

    def __init__(self, max_errors: int | None) -> None:
        self.max_errors = max_errors
        self._bad: dict[int, BadSample] = {}
        self._lock = threading.Lock()

    def add(self, bad: BadSample, error: Exception | None = None) -> None:
        """Add a bad sample, unless it is in the report.

        Raises:
            TooManyErrors: The report has more than `max_errors` samples.
        """
        with self._lock:
            self._bad.setdefault(bad.sample, bad)
            count = len(self._bad)
        if self.max_errors is not None and count > self.max_errors:
            raise TooManyErrors(
                f"{count} bad samples, but max_errors={self.max_errors}; the last is {bad}"
            ) from error

    def bad_samples(self) -> list[BadSample]:
        """Return the bad samples, by position."""
        with self._lock:
            return [self._bad[sample] for sample in sorted(self._bad)]


def write_errors(path: str | os.PathLike[str], bad: Iterable[BadSample]) -> None:
    """Write a list of bad samples, one JSON object per line, which `Loader(exclude=path)` takes."""
    Path(path).write_text("".join(json.dumps(asdict(sample)) + "\n" for sample in bad))


def read_errors(path: str | os.PathLike[str]) -> list[str]:
    """Return the keys in a list that `write_errors` wrote.

    Raises:
        FormatError: A line is not a JSON object with a key.
    """
    keys, offset = [], 0
    for line in read_whole(Path(path)).splitlines(keepends=True):
        try:
            keys.append(str(json.loads(line)["key"]))
        except (ValueError, TypeError, KeyError):
            raise FormatError(
                "invalid list of bad samples: expected a JSON object with a `key` on every line",
                os.fspath(path),
                offset,
                "write it with Loader.write_errors",
            ) from None
        offset += len(line)
    return keys


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
        FileNotFoundError: It names a file that does not exist.
        TypeError: It names no samples.
        ValueError: It names a sample that the dataset does not have.
    """
    if isinstance(exclude, str | os.PathLike):
        if not os.path.exists(exclude):
            raise FileNotFoundError(
                f"exclude={os.fspath(exclude)!r}: no such list of bad samples, as write_errors writes "
                f"one; give the keys of samples in a list: exclude=[{os.fspath(exclude)!r}]"
            )
        exclude = read_errors(exclude)
    if not isinstance(exclude, Iterable):
        raise TypeError(
            f"exclude={exclude!r}: expected keys, positions, entries of a loader's errors, "
            "or the path of a list that write_errors wrote"
        )
    positions = set[int]()
    for sample in map(python_numbers, exclude):
        if isinstance(sample, int):
            most = len(dataset) - 1
            positions.add(check_count("exclude", sample, most=most, instead=", a position"))
            continue
        key = sample.key if isinstance(sample, BadSample) else sample
        try:
            positions.add(dataset.position(key))
        except KeyError as error:
            raise ValueError(
                f"exclude= names a sample that the dataset does not have: {error.args[0]}"
            ) from error
    return frozenset(positions)


def raise_first(decoded: Iterable[Any]) -> None:
    """Raise the error of the first bad sample, which does not depend on the number of threads.

    Raises:
        Exception: The error, with the sample's key as a note.
    """
    for sample in decoded:
        if isinstance(sample, Failure) and sample.error is not None:
            raise sample.error
