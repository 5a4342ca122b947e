"""Errors that are Python's own and also the `AssertionError` that the originals raise in the same place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bushel.errors import CorruptError, FormatError


class WrongUseError(ValueError, AssertionError):
    """An argument has an invalid value."""


class WrongTypeError(TypeError, AssertionError):
    """A value has the wrong type."""


class NoFolderError(NotADirectoryError, AssertionError):
    """A path does not lead to a folder."""


@contextmanager
def raised_as(kind: type[FormatError], corrupt: type[CorruptError] | None = None) -> Iterator[None]:
    """Raise a `FormatError` of the body as `kind`, which is also the original's error, with the same details.

    A `CorruptError` is raised as `corrupt`; None leaves it as it is.
    """
    try:
        yield
    except FormatError as error:
        chosen = corrupt if isinstance(error, CorruptError) else kind
        if chosen is None or isinstance(error, chosen):
            raise
        details: Any = error.details
        raise chosen(error.message, **details) from error
