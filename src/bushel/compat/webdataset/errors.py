"""Errors that are Bushel's or Python's, and also what webdataset and wids raise in the same place."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

from bushel.errors import CorruptError, FormatError, UnsupportedError


class DamagedArchiveError(FormatError, tarfile.ReadError):
    """An archive is damaged or truncated."""


class MalformedError(FormatError, ValueError):
    """A download is not an archive, or an index of wids is malformed."""


class MissingPackageError(UnsupportedError, ImportError):
    """An optional package is not installed."""


class UnsetVariableError(KeyError, AssertionError):
    """An environment variable that a URL names is not set."""


class NoShardsError(ValueError, IndexError):
    """A list of shards is empty."""


@contextmanager
def as_read_errors() -> Iterator[None]:
    """Raise Bushel's errors about damaged archives as `DamagedArchiveError`."""
    try:
        yield
    except FormatError as error:
        if isinstance(error, CorruptError | tarfile.ReadError | ValueError):
            raise
        raise DamagedArchiveError(error.message, file=error.file, offset=error.offset, hint=error.hint) from error
