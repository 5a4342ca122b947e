"""Errors that are what Granular raised, which is mostly `AssertionError`, and at the same time what Python means."""

from __future__ import annotations

from bushel.errors import StateError

__all__ = ["ExistsError", "MismatchError", "OutOfRangeError", "UnknownKeyError", "WrongTypeError", "WrongUseError"]


class OutOfRangeError(IndexError, ValueError, AssertionError):
    """There is no datapoint, or record, of this index. It ends a `for` over a reader, as every sequence does."""


class UnknownKeyError(KeyError, AssertionError):
    """There is no such key."""


class WrongUseError(ValueError, AssertionError):
    """An argument has a value that makes no sense."""


class WrongTypeError(TypeError, AssertionError):
    """A value is of the wrong type."""


class ExistsError(FileExistsError, AssertionError):
    """Something is there already."""


class MismatchError(StateError, AssertionError):
    """A dataset cannot be continued, because it was written with another spec."""
