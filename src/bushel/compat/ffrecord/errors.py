"""Errors that are both Bushel's (or Python's) and what FFRecord raises, so that programs for either catch them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bushel.errors import CorruptError, FormatError

__all__ = [
    "DamagedFileError",
    "DamagedRecordError",
    "MissingPathError",
    "NoFileError",
    "NoFolderError",
    "RecordIndexError",
    "as_runtime_errors",
]


class DamagedFileError(FormatError, RuntimeError):
    """A file is no FFRecord file, or its header is damaged."""


class DamagedRecordError(CorruptError, RuntimeError):
    """A record does not match its checksum."""


class RecordIndexError(IndexError, RuntimeError):
    """There is no record of this number."""


class MissingPathError(FileNotFoundError, AssertionError):
    """There is no such path in a packed folder."""


class NoFileError(IsADirectoryError, AssertionError):
    """The path in a packed folder is a folder."""


class NoFolderError(NotADirectoryError, AssertionError):
    """The path in a packed folder is a file."""


@contextmanager
def as_runtime_errors() -> Iterator[None]:
    """Raise Bushel's errors about damaged files as those of this module."""
    try:
        yield
    except CorruptError as error:
        raise DamagedRecordError(
            error.message,
            key=error.key,
            field=error.field,
            file=error.file,
            offset=error.offset,
            expected=error.expected,
            found=error.found,
            hint=error.hint,
        ) from error
    except FormatError as error:
        raise DamagedFileError(error.message, file=error.file, offset=error.offset, hint=error.hint) from error
