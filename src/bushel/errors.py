"""The one exception tree.

Everything that Bushel raises on purpose is a `BushelError`, except where Python has a better word: a position out of
range is an `IndexError`, an unknown key a `KeyError`, a missing file a `FileNotFoundError`, a wrong argument a
`ValueError` or `TypeError`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "BushelError",
    "CodecError",
    "CorruptError",
    "FormatError",
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
    """Root of the tree.

    Keyword arguments are kept in `details` and survive pickling, so an error raised in a worker process arrives whole.
    """

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.details)

    def __str__(self) -> str:
        return self.message


@contextmanager
def noted_in(error: BaseException) -> Iterator[None]:
    """What fails in the body, which cleans up after an error, becomes a note of that error and does not hide it."""
    try:
        yield
    except Exception as second:
        if not (is_out_of_room(error) and is_out_of_room(second)):  # once is enough
            error.add_note(f"and cleaning up after this failed too: {type(second).__name__}: {second}")


@contextmanager
def naming(file: object) -> Iterator[None]:
    """An error of the system in the body that names no file, such as one of a write, names this one."""
    try:
        yield
    except OSError as error:
        name_file(error, file)
        raise


def name_file(error: OSError, file: object) -> None:
    """Have an error of the system that names no file name this one."""
    if error.filename is None and error.errno is not None:
        error.filename = str(file)


def is_out_of_room(error: BaseException) -> bool:
    """Whether the system has no room for what was to be written: the disk is full, or a limit is reached."""
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def _rebuild(kind: type[BushelError], message: str, details: dict[str, object]) -> BushelError:
    return kind(message, **details)


class FormatError(BushelError):
    """A file is not what its container prescribes.

    Attributes:
        file: Path of the file, or None when no single file is at fault.
        offset: Byte offset of the fault in that file, or None.
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
    """The stored bytes of a field are not the bytes that were written.

    Attributes:
        key: Key of the sample.
        field: Name of the field.
        expected: CRC-32 on record, or None when the bytes could not be read at all.
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
    """Bytes do not decode, or a value does not encode, with the field's codec."""


class SpecError(BushelError):
    """A spec is malformed, names an unknown codec, or cannot be held by the container."""


class UnsupportedError(BushelError):
    """The dataset cannot do this (a forward-only stream has no random access, say); the message says what can."""


class StateError(BushelError):
    """A saved state belongs to another dataset or another version of the order."""


class TooManyErrors(BushelError):
    """More bad samples than `max_errors` allows."""
