"""The exceptions of Bushel.

All derive from `BushelError`. Where Python has a fitting exception, Bushel raises that: a position out of range is an
`IndexError`, an unknown key a `KeyError`, a missing file a `FileNotFoundError`, a wrong argument a `ValueError` or
`TypeError`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "BushelError",
    "CodecError",
    "CorruptError",
    "DamagedWarning",
    "FormatError",
    "IncompleteWarning",
    "SpecError",
    "StateError",
    "TooManyErrors",
    "UnsupportedError",
    "is_out_of_room",
    "name_file",
    "noted_in",
]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BushelError(Exception):
    """Base class of all errors of Bushel.

    Keyword arguments are kept in `details` and survive pickling, so an error of a worker process keeps them.
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
    """The dataset that is opened is incomplete: its writer was stopped, or is still writing."""


class DamagedWarning(UserWarning):
    """The dataset that is opened is damaged: some of its samples cannot be read, or are lost."""


@contextmanager
def noted_in(error: BaseException) -> Iterator[None]:
    """Add errors of the body, which cleans up after `error`, to `error` as notes instead of raising them."""
    try:
        yield
    except Exception as second:
        if not (is_out_of_room(error) and is_out_of_room(second)):  # once is enough
            error.add_note(f"and cleaning up after this failed too: {type(second).__name__}: {second}")


@contextmanager
def naming(file: object) -> Iterator[None]:
    """Add a file name to errors of the system in the body that name no file, such as errors of a write."""
    try:
        yield
    except OSError as error:
        name_file(error, file)
        raise


def name_file(error: OSError, file: object) -> None:
    """Add a file name to an error of the system that names no file."""
    if error.filename is None and error.errno is not None:
        error.filename = str(file)


def is_out_of_room(error: BaseException) -> bool:
    """Return whether an error says that the disk is full, or that a quota or size limit is reached."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def _rebuild(kind: type[BushelError], message: str, details: dict[str, object]) -> BushelError:
    return kind(message, **details)


class FormatError(BushelError):
    """A file violates its format.

    Attributes:
        file: Path of the file, or None if the error is not in a single file.
        offset: Byte offset of the error in that file, or None.
        hint: What to do next, or None.
    """

    def __init__(
        self, message: str, *, file: str | None = None, offset: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, file=file, offset=offset, hint=hint)
        self.file, self.offset, self.hint = file, offset, hint

    def __str__(self) -> str:
        where = "" if self.file is None else f"{self.file}: " if self.offset is None else f"{self.file}@{self.offset}: "
        return f"{where}{self.message}" + ("" if self.hint is None else f" ({self.hint})")


class CorruptError(FormatError):
    """The stored bytes of a field do not match their checksum, or cannot be read.

    Attributes:
        key: Key of the sample.
        field: Name of the field.
        expected: Recorded CRC-32, or None if the bytes could not be read.
        found: CRC-32 of the bytes in the file, or None.
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
    """The codec of a field cannot decode stored bytes, or cannot encode a value."""


class SpecError(BushelError):
    """A spec is malformed or names an unknown codec, or the container cannot hold it."""


class UnsupportedError(BushelError):
    """The dataset does not support the operation, such as random access in a stream. The message names another way."""


class StateError(BushelError):
    """A saved state belongs to another dataset or another version of the order."""


class TooManyErrors(BushelError):
    """There are more bad samples than `max_errors` allows."""
