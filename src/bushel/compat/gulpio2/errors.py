"""Errors that are Bushel's and also what GulpIO2 raises in the same place."""

from __future__ import annotations

from json import JSONDecodeError
from typing import Any

from bushel.errors import BushelError, CodecError, CorruptError, FormatError


class MetaFileError(FormatError, ValueError, TypeError, KeyError):
    """A `.gmeta` file is not the table of a gulp chunk. GulpIO2 raises various errors here."""

    def __str__(self) -> str:  # a KeyError shows the repr of its message
        return FormatError.__str__(self)


class NoTableError(MetaFileError, AttributeError):
    """A `.gmeta` file holds something else than a map of ids."""


class _TextError(JSONDecodeError):
    def __init__(self, message: str) -> None:
        ValueError.__init__(self, message)
        self.msg, self.doc, self.pos, self.lineno, self.colno = message, "", 0, 1, 1


class MetaTextError(MetaFileError, _TextError):
    """A `.gmeta` file is not JSON."""

    __reduce__ = FormatError.__reduce__


class _EncodingError(UnicodeDecodeError):
    def __init__(self, message: str) -> None:
        super().__init__("utf-8", b" ", 0, 1, message)


class MetaEncodingError(MetaFileError, _EncodingError):
    """A `.gmeta` file is not UTF-8."""

    __reduce__ = FormatError.__reduce__


class ListFileError(FormatError, ValueError, KeyError):
    """The list of a dataset is malformed."""


class ListNameError(ValueError, RuntimeError):
    """The list of a dataset has a suffix that its adapter does not read."""


class NeverOpenError(ValueError, AttributeError):
    """A chunk is written to that was never opened."""


class MissingItemError(KeyError, TypeError):
    """A chunk does not have this item."""


class FrameChoiceError(TypeError, AttributeError):
    """Frames are chosen neither by a slice nor by a list."""


class UnpairedChunkError(FormatError, AssertionError):
    """Data and meta files do not form pairs."""


class ImageShapeError(ValueError, AttributeError):
    """A frame is not an image that a JPEG can hold."""


class FrameError(CodecError, ValueError):
    """Bytes are not a complete JPEG."""


class UnreadableFrameError(CorruptError, ValueError):
    """A frame is not a JPEG, or is not in the file."""


class VideoNotFoundError(FileNotFoundError, AssertionError):
    """A folder does not hold exactly one video."""


class DuplicateIdException(BushelError):  # GulpIO2's name
    """Every id is in the directory already."""

    def __init__(self, *args: object) -> None:  # programs raise the class itself
        super().__init__(str(args[0]) if args else "every id is in the directory already")
        self.args = args

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args


class ImageNotFound(Exception):  # GulpIO2's name
    """An image cannot be opened."""


class FFMPEGNotFound(Exception):  # GulpIO2's name
    """The program `ffmpeg` is not installed."""


class GulpWarning(UserWarning):
    """A fault in a gulp directory hides items from its reader."""
