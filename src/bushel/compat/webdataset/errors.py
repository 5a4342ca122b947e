"""Errors that are Bushel's or Python's, and also what webdataset and wids raise in the same place."""

from __future__ import annotations

import tarfile

from bushel.errors import FormatError, UnsupportedError


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


class UnevenBatchError(ValueError, AssertionError, IndexError):
    """The fields of a batch have different numbers of values."""


class UrlsTypeError(ValueError, TypeError):
    """Shards are given as something else than text, paths or a pipeline."""
