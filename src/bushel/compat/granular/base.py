"""Errors that are both Granular's, mostly `AssertionError`, and Python's; and `close()` at the end of a `with`."""

from __future__ import annotations

from typing import Any, Self

from bushel.compat.errors import WrongTypeError as WrongTypeError
from bushel.compat.errors import WrongUseError as WrongUseError
from bushel.errors import FormatError, SpecError, StateError, noted_in


class OutOfRangeError(IndexError, ValueError, AssertionError):
    """No datapoint or record has this index. It ends a `for` over a reader, as in every sequence."""


class WrongIndexError(WrongTypeError, AttributeError):
    """An index is neither a number nor a range."""


class UnknownKeyError(KeyError, AssertionError):
    """The dataset does not have this key."""


class UnknownTypeError(SpecError, KeyError):
    """Files of this version have no such type."""


class ExistsError(FileExistsError, AssertionError):
    """A file or folder exists already."""


class MismatchError(StateError, AssertionError, ValueError):
    """A dataset cannot be continued: it has another spec, or other data after its last datapoint."""


class DamagedError(FormatError, ValueError, AssertionError):
    """A file is damaged, or a file or a shard is missing."""


class NoIndexError(DamagedError, FileNotFoundError):
    """The index of a bag is missing."""


class NoDatasetError(FileNotFoundError, AssertionError):
    """A folder holds no dataset."""


class NoFolderError(NoDatasetError, NotADirectoryError):
    """The path of a dataset is a file, not a folder."""


class Closing:
    """Closes itself at the end of a `with` body, also if that raised."""

    def __init__(self) -> None:
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
            return
        with noted_in(error):
            self.close()

    def close(self) -> None:
        """Release all files and workers."""
        self.closed = True


class OfSpec(Closing):
    """A reader or writer of datapoints with a `_spec`."""

    _spec: dict[str, str]

    @property
    def spec(self) -> Any:
        """The type of each key: sorted by key, but of a writer of shards in the order given."""
        return dict(self._spec)
