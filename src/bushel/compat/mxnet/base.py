"""Errors: classes of the original that programs catch, each also an error of Bushel's own tree."""

from __future__ import annotations

from bushel.errors import BushelError, CodecError, FormatError, SpecError

__all__ = ["DamagedError", "ImageError", "MXNetError", "RecordTooLargeError", "WrongModeError"]


class MXNetError(BushelError, RuntimeError):
    """What the original raises for everything that its library reports."""


class DamagedError(FormatError, MXNetError, ValueError):
    """A file or a record is not what its format prescribes."""


class RecordTooLargeError(SpecError, MXNetError):
    """A record has more bytes than the format can say."""


class ImageError(CodecError, MXNetError):
    """Bytes are no image that can be decoded, or an array is none that can be encoded."""


class WrongModeError(AssertionError, ValueError):
    """Reading from what was opened for writing, or the other way round. The original asserts it."""
