"""The protocols of a source: samples by position, for `bushel.pack`.

A source is any object with a length, samples by position and a spec. It needs no base class and no
registration:

    class Captions:
        spec = {"image": "jpg", "caption": "utf8"}

        def __init__(self, rows): self.rows = rows
        def __len__(self): return len(self.rows)
        def __getitem__(self, position):
            name, caption = self.rows[position]
            return {"__key__": name, "image": Path(name).read_bytes(), "caption": caption}

`bushel.testing.check_source` checks one.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

Sample = Mapping[str, Any]
"""Field names to values, and optionally the key under `__key__`. A bytes-like value is already encoded with the codec
that the spec names; `pack` stores it as it is wherever the container allows that."""


@runtime_checkable
class Source(Protocol):
    """Samples by position.

    `pack` calls `__getitem__` from several threads at once, in any order, and with `processes=` it
    pickles the source. An exception from `__getitem__` is the error of that sample, which
    `max_errors` of `pack` may tolerate.

    Examples:
        >>> class Squares:
        ...     spec = {"x": "int", "square": "int"}
        ...     def __len__(self):
        ...         return 100
        ...     def __getitem__(self, position):
        ...         return {"x": position, "square": position**2}
        >>> bushel.pack(Squares(), "squares.tar").samples
        100
    """

    @property
    def spec(self) -> Mapping[str, str]:
        """Field names to types."""
        ...

    def __len__(self) -> int:
        """Return the number of samples."""
        ...

    def __getitem__(self, position: int, /) -> Sample:
        """Return the sample at a position from 0 to `len(self) - 1`, the same one every time.

        Raises:
            IndexError: The position is out of range.
            Exception: The sample is missing or damaged.
        """
        ...


@runtime_checkable
class Traceable(Protocol):
    """A source that returns the origin of a sample without reading it; error reports then name the file.

    Examples:
        >>> from bushel.sources import ImageFolder
        >>> ImageFolder("photos/").origin(0)
        'photos/cat/0.jpg'
    """

    def origin(self, position: int, /) -> str:
        """Return the path of this sample, or another text that identifies it."""
        ...


@runtime_checkable
class Fetching(Protocol):
    """A source whose samples may be remote, where one request for many samples is faster than many requests.

    Examples:
        >>> from bushel.sources import Fetching, ImageFolder
        >>> source = ImageFolder("photos/")
        >>> isinstance(source, Fetching), source.remote
        (True, False)
    """

    @property
    def remote(self) -> bool:
        """Whether the samples are remote."""
        ...

    def fetched(self, positions: Sequence[int], /) -> Source:
        """Return the same source with the data of these samples in memory.

        It raises nothing: data that could not be fetched are an error of their sample.
        """
        ...


@runtime_checkable
class Columnar(Protocol):
    """A source that has its samples as columns; `pack` then needs no Python object per sample, where it can.

    A subclass with a `__getitem__` of its own is asked for single samples.
    """

    @property
    def has_columns(self) -> bool:
        """Whether there are columns of this source."""
        ...

    @property
    def file_field(self) -> str | None:
        """The field whose column has the bytes of files that are read; None if columns are in memory."""
        ...

    def columns(
        self, positions: npt.NDArray[np.int64], /
    ) -> tuple[Mapping[str, Any], Sequence[str] | None]:
        """Return samples as `Writer.extend` takes them: a column for each field, and their keys or None.

        They may be fewer than asked for: the first ones, before a file that cannot be read.

        Args:
            positions: int64[n], valid positions in any order.
        """
        ...


@runtime_checkable
class Named(Protocol):
    """A source with names of classes; `pack` keeps them in the dataset.

    A dataset that they are added to keeps its numbers, and theirs are mapped by the names.

    Examples:
        >>> from bushel.sources import ImageFolder
        >>> ImageFolder("photos/").labels
        {'label': ('cat', 'dog')}
    """

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """Field to the names of its classes in the order of their numbers; empty if it has none."""
        ...


@runtime_checkable
class Listed(Protocol):
    """A source that lists a folder when it is made, and can be made from that listing instead (`listing=`)."""

    @property
    def listing(self) -> Sequence[str]:
        """Names of files and folders."""
        ...


@runtime_checkable
class Fingerprinted(Protocol):
    """A source that identifies its items without reading them, so that the calls of one run can be recognised."""

    @property
    def fingerprint(self) -> str:
        """A text that is the same for the same items in the same order, in every process."""
        ...


@runtime_checkable
class Foldered(Protocol):
    """A source whose samples are the files of a folder, with their paths as keys; `ffrecord` keeps empty folders, too.

    Attributes:
        folders: Paths of the empty folders; None if the samples are not files of a folder.

    Examples:
        >>> from bushel.sources import Files
        >>> Path("photos/empty").mkdir()
        >>> Files("photos/").folders
        ['empty']
    """

    folders: Sequence[str] | None


@runtime_checkable
class Selective(Protocol):
    """A source that skips some files of a folder; `pack` counts them in its result.

    Attributes:
        skipped: Number of files by kind: by suffix in lower case, or in words. Empty if every file
            is a sample.
        first_skipped: Path of one of them, or None.

    Examples:
        >>> from bushel.sources import ImageFolder
        >>> _ = Path("photos/cat/notes.txt").write_text("nice cats")
        >>> source = ImageFolder("photos/")
        >>> source.skipped, source.first_skipped
        ({'.txt': 1}, 'photos/cat/notes.txt')
    """

    skipped: Mapping[str, int]
    first_skipped: str | None


class Names(Sequence[str]):
    """Many strings in little memory: their bytes and eight bytes each, where a list takes sixty more."""

    __slots__ = ("_ends", "_text")

    def __init__(self, names: Iterable[str]) -> None:
        encoded = [name.encode("utf-8", "surrogateescape") for name in names]
        self._text = b"".join(encoded)
        self._ends = array("q", itertools.accumulate(map(len, encoded)))

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def digest(self) -> str:
        """32 hex digits that identify the strings and their order."""
        import hashlib  # which imports OpenSSL

        digest = hashlib.sha256(self._text)
        digest.update(self._ends.tobytes())
        return digest.hexdigest()[:32]

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...

    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        if not -len(self) <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        position %= len(self)
        start = self._ends[position - 1] if position else 0
        return self._text[start : self._ends[position]].decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return (self[position] for position in range(len(self)))

    def take(self, positions: Sequence[int]) -> list[str]:
        """Return the strings at these positions, which must not be negative."""
        text, ends = self._text, self._ends
        if positions and min(positions) < 0:
            raise IndexError(f"position {min(positions)} is negative")
        return [
            text[ends[at - 1] if at else 0 : ends[at]].decode("utf-8", "surrogateescape")
            for at in positions
        ]


def extend_labels(names: Iterable[str], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Number the names of labels: known ones keep their numbers, new ones follow in sorted order.

    Examples:
        >>> from bushel.sources import extend_labels
        >>> extend_labels(["dog", "ant", "cat"], {"cat": 0})
        {'cat': 0, 'ant': 1, 'dog': 2}
    """
    labels = dict(known or {})
    following = max(labels.values(), default=-1) + 1
    for number, name in enumerate(sorted(set(names) - labels.keys())):
        labels[name] = following + number
    return labels
