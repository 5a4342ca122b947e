"""The exceptions of Bushel.

All derive from `BushelError`. Where Python has a fitting exception, Bushel raises that: a position
out of range is an `IndexError`, an unknown key a `KeyError`, a missing file a `FileNotFoundError`,
a wrong argument a `ValueError` or `TypeError`.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "BushelError",
    "CodecError",
    "CorruptError",
    "DamagedWarning",
    "FormatError",
    "InUseError",
    "IncompleteWarning",
    "MissingPackageError",
    "SpecError",
    "StateError",
    "TooManyErrors",
    "UnsupportedError",
    "UntrustedWarning",
    "is_out_of_room",
    "name_file",
    "needed_by",
    "noted_in",
]


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BushelError(Exception):
    """Base class of all errors of Bushel.

    Keyword arguments are kept in `details` and survive pickling, so an error of a worker process
    keeps them.

    Examples:
        >>> try:
        ...     bushel.open("photo.jpg")
        ... except bushel.BushelError as error:
        ...     print(type(error).__name__)
        FormatError
    """

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.details)

    def __str__(self) -> str:
        return self.message


class IncompleteWarning(UserWarning):
    """The dataset that is opened is incomplete: its writer was stopped, or is still writing.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", bushel.errors.IncompleteWarning)  # read while the writer still writes
        ...     ds = bushel.open("train/")
    """


class DamagedWarning(UserWarning):
    """The dataset that is opened is damaged: some of its samples cannot be read, or are lost.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", bushel.errors.DamagedWarning)  # do not go on with a damaged dataset
        ...     ds = bushel.open("train/")
    """


class UntrustedWarning(UserWarning):
    """Files name a codec that runs code, such as `pickle`, and the caller does not: the values stay stored bytes.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("error", bushel.errors.UntrustedWarning)  # do not go on with such a dataset
        ...     ds = bushel.open("train/")
    """


@contextmanager
def noted_in(error: BaseException) -> Iterator[None]:
    """Add errors of the body, which cleans up after `error`, to `error` as notes instead of raising them.

    Examples:
        >>> error = ValueError("no such part")
        >>> with bushel.errors.noted_in(error):
        ...     raise OSError("the folder is not empty")
        >>> error.__notes__
        ['and cleaning up after this failed too: OSError: the folder is not empty']
    """
    try:
        yield
    except Exception as second:
        if not (is_out_of_room(error) and is_out_of_room(second)):  # once is enough
            error.add_note(
                f"and cleaning up after this failed too: {type(second).__name__}: {second}"
            )


@contextmanager
def naming(file: object) -> Iterator[None]:
    """Add a file name to errors of the system in the body that name no file, such as errors of a write."""
    try:
        yield
    except OSError as error:
        name_file(error, file)
        raise


def name_file(error: OSError, file: object) -> None:
    """Add a file name to an error of the system that names no file.

    Examples:
        >>> error = OSError(28, "No space left on device")
        >>> bushel.errors.name_file(error, "train.tar")
        >>> print(error)
        [Errno 28] No space left on device: 'train.tar'
    """
    if error.filename is None and error.errno is not None:
        error.filename = str(file)


def is_out_of_room(error: BaseException) -> bool:
    """Return whether an error reports a full disk, a reached quota or a size limit.

    Examples:
        >>> bushel.errors.is_out_of_room(OSError(28, "No space left on device"))
        True
    """
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def _rebuild(kind: type[BushelError], message: str, details: dict[str, object]) -> BushelError:
    return kind(message, **details)


class FormatError(BushelError):
    """A file violates its format.

    Attributes:
        file: Path of the file, or None if the error is not in a single file.
        offset: Byte offset of the error in that file, or None.
        hint: What to do next, or None.

    Examples:
        >>> bushel.open("photo.jpg")
        Traceback (most recent call last):
            ...
        bushel.errors.FormatError: ...photo.jpg: this file does not belong to any container that Bushel
            reads (bag, tar, ffrecord, ...) (of plain files, open or pack the folder; ...)
    """

    def __init__(
        self,
        message: str,
        file: object = None,
        offset: int | None = None,
        hint: str | None = None,
    ) -> None:
        path = None if file is None else str(file)
        super().__init__(message, file=path, offset=offset, hint=hint)
        self.file, self.offset, self.hint = path, offset, hint

    def __str__(self) -> str:
        where = ""
        if self.file is not None:
            place = "" if self.offset is None else f"@{self.offset}"
            where = f"{self.file}{place}: "
        return f"{where}{self.message}" + ("" if self.hint is None else f" ({self.hint})")


class CorruptError(FormatError):
    """The stored bytes of a field do not match their checksum, or cannot be read.

    Attributes:
        key: Key of the sample.
        field: Name of the field.
        expected: Recorded CRC-32, or None if the bytes could not be read.
        found: CRC-32 of the bytes in the file, or None.

    Examples:
        >>> import os
        >>> shard = Path("train/shard-000000.tar")
        >>> data, before = bytearray(shard.read_bytes()), shard.stat()
        >>> data[1700] ^= 1  # a bit of the first photo, as on a failing disk
        >>> size = shard.write_bytes(data)
        >>> os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
        >>> try:
        ...     bushel.open("train/", verify=True)[0]
        ... except bushel.errors.CorruptError as error:
        ...     print(error.key, error.field)
        cat/0 image
    """

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        field: str | None = None,
        file: str | None = None,
        offset: int | None = None,
        expected: int | None = None,
        found: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, file=file, offset=offset, hint=hint)
        self.details.update(key=key, field=field, expected=expected, found=found)
        self.key, self.field, self.expected, self.found = key, field, expected, found


class CodecError(BushelError):
    r"""The codec of a field cannot decode stored bytes, or cannot encode a value.

    Examples:
        >>> bushel.codecs.get_codec("utf8").decode(b"\xff")
        Traceback (most recent call last):
            ...
        bushel.errors.CodecError: codec 'utf8' expected UTF-8 text (invalid start byte at byte 0),
        found 1
            bytes starting with ff
    """


class SpecError(BushelError):
    """A spec is malformed or names an unknown codec, or the container cannot hold it.

    Examples:
        >>> bushel.Writer("out/", {"label": "integer"}, container="tar")
        Traceback (most recent call last):
            ...
        bushel.errors.SpecError: unknown codec 'integer': did you mean 'int'? Add your own with bushel.register_codec
    """


class UnsupportedError(BushelError):
    """The dataset does not support the operation, such as random access in a stream. The message names another way.

    Examples:
        >>> bushel.open_stream("train/*.tar").read([3])
        Traceback (most recent call last):
            ...
        bushel._dataset.views.stream.ForwardOnly: ...train/shard-000000.tar is a stream, which cannot
        be read at
            random and is read from front to back: run
            `bushel convert ... and open the result for random access
    """


class MissingPackageError(UnsupportedError, ModuleNotFoundError):
    """A package that Bushel uses for this is not installed. The message contains the command that installs it.

    It ends a run and an iteration at once, for all values of `max_errors` and `on_error`.

    Examples:
        >>> import sys
        >>> installed, sys.modules["pyarrow"] = sys.modules.get("pyarrow"), None  # as if it were not installed
        >>> ds.to_arrow()
        Traceback (most recent call last):
            ...
        bushel.errors.MissingPackageError: to_arrow needs pyarrow, which is not installed: pip
        install 'bushel[arrow]'
        >>> _ = sys.modules.pop("pyarrow") if installed is None else sys.modules.update(pyarrow=installed)
    """


@contextmanager
def needed_by(what: str, install: str) -> Iterator[None]:
    """Say in an error of the body, which imports packages, what needs the package that is missing.

    Args:
        what: The feature that needs it: the subject of the message.
        install: The argument of `pip install`.

    Raises:
        MissingPackageError: A package is not installed.

    Examples:
        >>> with bushel.errors.needed_by("draw()", "bushel[draw]"):
        ...     import no_such_package
        Traceback (most recent call last):
        bushel.errors.MissingPackageError: draw() needs no_such_package, which is not ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "bushel"):
            raise
        raise MissingPackageError(
            f"{what} needs {package}, which is not installed: pip install '{install}'",
            package=package,
        ) from error


class StateError(BushelError):
    """A saved state belongs to another dataset or another version of the order.

    Examples:
        >>> state = bushel.Loader(ds, 4).state_dict()
        >>> bushel.Loader(ds[:6], 4).load_state_dict(state)
        Traceback (most recent call last):
            ...
        bushel.errors.StateError: the state belongs to another dataset (fingerprint ... instead of
        ...). Open
            the same dataset, or start without the state (one file is another dataset after an
            append: write a folder if it will grow)
    """


class InUseError(BushelError, FileExistsError):
    """Another writer is open for the target: in this process, in another one, or on another machine.

    The message names its process, machine, command and start time, and what to do. The target is
    free when that writer has ended, also if it was killed.

    Examples:
        >>> first = bushel.Writer("numbers/", {"y": "int"}, container="tar")
        >>> try:
        ...     bushel.Writer("numbers/", {"y": "int"}, container="tar")
        ... except bushel.errors.InUseError as error:
        ...     print("is in use by this process" in str(error))
        True
        >>> first.close()
    """


class TooManyErrors(BushelError):
    """There are more bad samples than `max_errors` allows.

    Examples:
        >>> bushel.pack([{"x": "a"}, {"x": 1}], "out.tar", spec={"x": "utf8"}, max_errors=0)
        Traceback (most recent call last):
            ...
        bushel.errors.TooManyErrors: 1 of the first 2 items cannot be packed, but max_errors allows
        0. The
            last one is position 1: ...
    """


def error_limit(max_errors: float | None, samples: int | None) -> int | None:
    """Return the number of bad samples that `max_errors=` tolerates; None for any number.

    `max_errors` means the same in `pack`, `Loader` and `StreamLoader`.

    Args:
        max_errors: A number of samples (int), a share of all samples between 0 and 1 (float), or
            None for no limit.
        samples: Number of all samples; None if it is unknown, as for a stream.

    Raises:
        TypeError: `max_errors` is not a number.
        ValueError: `max_errors` is negative, a share above 1, or a share of an unknown number of
            samples.
    """
    if max_errors is None:
        return None
    if isinstance(max_errors, bool) or not isinstance(max_errors, int | float):
        raise TypeError(
            f"max_errors={max_errors!r} is not a number: give an int, a share such as 0.01, or None"
        )
    if not max_errors >= 0 or math.isinf(max_errors):
        raise ValueError(
            f"max_errors={max_errors} is not a count: give 0 or more, or None for no limit"
        )
    if isinstance(max_errors, int) or not max_errors:
        return int(max_errors)
    if max_errors > 1:
        raise ValueError(
            f"max_errors={max_errors} is a share above 1, and 1 is all samples: "
            "give an int to count samples"
        )
    if samples is None:
        raise ValueError(
            f"max_errors={max_errors} is a share, but the number of samples is unknown: give an int"
        )
    return int(max_errors * samples)
