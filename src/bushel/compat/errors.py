"""Errors that are Python's own and also the `AssertionError` that the originals raise in the same place."""

from __future__ import annotations


class WrongUseError(ValueError, AssertionError):
    """An argument has an invalid value."""


class WrongTypeError(TypeError, AssertionError):
    """A value has the wrong type."""


class NoFolderError(NotADirectoryError, AssertionError):
    """A path is not that of a folder."""
