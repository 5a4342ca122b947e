"""Errors that are both Bushel's (or Python's) and FFRecord's, so that programs for either catch them."""

from __future__ import annotations

from contextlib import AbstractContextManager

from bushel.compat.errors import NoFolderError as NoFolderError
from bushel.compat.errors import raised_as
from bushel.errors import CorruptError, FormatError


class DamagedFileError(FormatError, RuntimeError):
    """A file is not an FFRecord file, or its header is damaged."""


class DamagedRecordError(CorruptError, RuntimeError):
    """A record does not match its checksum."""


class RecordIndexError(IndexError, RuntimeError):
    """The index of a record is out of range."""


class NoPlaceError(FileNotFoundError, RuntimeError):
    """The folder of a file to write does not exist."""


class DatasetIndexError(IndexError, ValueError):
    """The index of a sample is out of range."""


class MissingPathError(FileNotFoundError, AssertionError):
    """A file, or a path in a packed folder, does not exist."""


class NoFileError(IsADirectoryError, AssertionError):
    """A path in a packed folder is a folder."""


def as_runtime_errors() -> AbstractContextManager[None]:
    """Raise Bushel's errors about damaged files as the errors of this module."""
    return raised_as(DamagedFileError, DamagedRecordError)
