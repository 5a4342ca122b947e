"""Errors that are Bushel's and, for programs that catch them, what GulpIO2 raises in the same place."""

from __future__ import annotations

from bushel.errors import BushelError, CorruptError, FormatError

__all__ = [
    "ArgumentError",
    "DuplicateIdException",
    "FFMPEGNotFound",
    "GulpWarning",
    "ImageNotFound",
    "ListFileError",
    "ListNameError",
    "MetaFileError",
    "UnpairedChunkError",
    "UnreadableFrameError",
    "VideoNotFoundError",
]


class ArgumentError(ValueError, AssertionError):
    """A number that makes no sense, such as no workers."""


class MetaFileError(FormatError, ValueError):
    """A `.gmeta` that is no table of a gulp chunk."""


class ListFileError(FormatError, ValueError, KeyError):
    """A list of a dataset that is not what its adapter reads."""


class ListNameError(ValueError, RuntimeError):
    """A list of a dataset in a format that its adapter does not read."""


class UnpairedChunkError(FormatError, AssertionError):
    """Data and meta files that do not belong together two by two."""


class UnreadableFrameError(CorruptError, ValueError):
    """A frame that is no JPEG, or does not lie in the file."""


class VideoNotFoundError(FileNotFoundError, AssertionError):
    """There is not exactly one video in a folder."""


class DuplicateIdException(BushelError):  # GulpIO2's name
    """Every id is in the directory already."""


class ImageNotFound(Exception):  # GulpIO2's name
    """An image cannot be opened."""


class FFMPEGNotFound(Exception):  # GulpIO2's name
    """There is no program `ffmpeg`."""


class GulpWarning(UserWarning):
    """Something in a gulp directory that hides items from its reader."""
