"""Errors that are Bushel's and also what GulpIO2 raises in the same place."""

from __future__ import annotations

from bushel.errors import BushelError, CorruptError, FormatError


class MetaFileError(FormatError, ValueError):
    """A `.gmeta` file is not the table of a gulp chunk."""


class ListFileError(FormatError, ValueError, KeyError):
    """The list of a dataset is malformed."""


class ListNameError(ValueError, RuntimeError):
    """The list of a dataset has a suffix that its adapter does not read."""


class MissingItemError(KeyError, TypeError):
    """A chunk does not have this item."""


class FrameChoiceError(TypeError, AttributeError):
    """Frames are chosen neither by a slice nor by a list."""


class UnpairedChunkError(FormatError, AssertionError):
    """Data and meta files do not form pairs."""


class UnreadableFrameError(CorruptError, ValueError):
    """A frame is not a JPEG, or does not lie in the file."""


class VideoNotFoundError(FileNotFoundError, AssertionError):
    """A folder does not hold exactly one video."""


class DuplicateIdException(BushelError):  # GulpIO2's name
    """Every id is in the directory already."""


class ImageNotFound(Exception):  # GulpIO2's name
    """An image cannot be opened."""


class FFMPEGNotFound(Exception):  # GulpIO2's name
    """The program `ffmpeg` is not installed."""


class GulpWarning(UserWarning):
    """A fault in a gulp directory hides items from its reader."""
