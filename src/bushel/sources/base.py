"""The protocol of a source: samples by position, for `bushel.pack`.

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

import os
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.read.remaining import removed_in
from bushel.containers.folder import has_removal_list
from bushel.containers.folder_metadata import is_metadata
from bushel.errors import FormatError
from bushel.storage import AnyPath, as_path, below, is_local

REQUESTS = 64
"""Remote samples, or files of one, that a thread of `pack` reads at a time."""

Sample = Mapping[str, Any]
"""Field names to values, and optionally the key under `__key__`. A bytes-like value is already encoded with the codec
that the spec names; `pack` stores it as it is wherever the container allows that."""


@runtime_checkable
class Source(Protocol):
    """Samples by position.

    `pack` calls `__getitem__` from several threads at once, in any order, and with `processes=` it
    pickles the source. An exception from `__getitem__` is the error of that sample, which
    `max_errors` of `pack` may tolerate.

    A source may have more, which `pack` then uses:

    - `origin(position)`, the path of a sample, or another text that identifies it, without reading
      it: error reports name it;
    - `labels`, field to the names of its classes in the order of their numbers, which are kept in
      the dataset. A dataset that they are added to keeps its numbers, and theirs are mapped;
    - `remote`, whether the samples are remote: `pack` then reads up to 64 of a batch at a time, in
      threads of their own;
    - `has_columns`, whether there are columns, and `columns(positions)`, these samples as
      `Writer.extend` takes them: a column for each field, and their keys or None. They may be fewer
      than asked for: the first ones, before a file that cannot be read. `file_field` is the field
      whose column has the bytes of files; None if columns are in memory. A subclass with a
      `__getitem__` of its own is asked for single samples;
    - `fingerprint`, a text that is the same for the same items in the same order, in every process,
      so that the calls of one run can be recognised;
    - `listing`, the names of files and folders from which it can be made again (`listing=`);
    - `folders`, paths of empty folders, if the samples are the files of a folder, with their paths
      as keys: `ffrecord` keeps empty folders, too;
    - `skipped`, the number of files that are skipped, by kind;
    - `infers_types`, whether its types are not declared but inferred, as from names of files. Then
      an image of another kind than its field's keeps its bytes.

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

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, position: int, /) -> Sample:
        """Return the sample at a position from 0 to `len(self) - 1`, the same one every time.

        Raises:
            IndexError: The position is out of range.
            Exception: The sample is missing or damaged.
        """


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


class FileSource(ABC):
    """Base of the sources that read a file, or a folder of files, for each sample."""

    infers_types = True  # from names of files

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @abstractmethod
    def _path(self, position: int) -> AnyPath:
        """Return the path of the file of a sample."""

    def origin(self, position: int) -> str:
        """Return the path of a sample's file."""
        return str(self._path(position))

    @property
    def remote(self) -> bool:
        """Whether the files are remote. The file of the first sample decides."""
        with suppress(Exception):  # a damaged first sample raises when it is read
            return len(self) > 0 and not is_local(self._path(0))
        return False

    def _remaining(self, root: AnyPath) -> Sequence[int]:
        """Return the positions of the samples without a file that `bushel remove` removed from a folder."""
        positions = range(len(self))
        if not has_removal_list(root):
            return positions
        removed, remaining = _removed_files(root), []
        for position in positions:
            path = ""
            with suppress(Exception):  # as above
                path = str(self._path(position))
            if path not in removed:
                remaining.append(position)
        return remaining


def _removed_files(root: AnyPath) -> set[str]:
    """Return the paths, below `root`, of the files of the samples that were removed from this folder.

    Raises:
        FormatError: The folder cannot be opened, so that they are not known.
    """
    paths = set[str]()
    with open_dataset(root) as dataset:
        reader = dataset.reader
        if reader.shards[0].container == "folder":
            above = f"{reader.shards[0].shard.root}/"
            for position in removed_in(reader.shards).tolist():
                for field in dataset.spec:
                    path, _ = reader.location(position, field)
                    name = path.removeprefix(above)
                    # a table beside the files is of all samples
                    if name != path and not is_metadata(name):
                        paths.add(str(below(root, name, any_text=True)))
    return paths


@contextmanager
def relative_to(root: AnyPath, what: str) -> Iterator[None]:
    """Say in an error of the body about a missing local file which folder its relative path starts from.

    Args:
        root: The folder.
        what: A name of the folder, such as "the folder of the list".
    """
    try:
        yield
    except FileNotFoundError as error:
        if error.strerror is not None:
            error.strerror += (
                f" (relative paths start from {str(root) or '.'}, "
                f"{what}: root= names another folder)"
            )
        raise


def caller_path(root: AnyPath, name: str) -> AnyPath:
    """Return the path of a file that the caller's own program names: relative to a folder, or any path."""
    if "://" in name:
        return as_path(name)
    return root / name


def listed(root: AnyPath, name: str) -> AnyPath:
    """Return the path of a file that a list names: relative to a folder, an absolute path in it, or a URL.

    Raises:
        FormatError: The name leads out of the folder, or is a URL of this machine's files.
    """
    if "://" in name and not name.startswith("file:"):
        return as_path(name)
    inner = posixpath.normpath(name.removeprefix("file://"))
    if isinstance(root, Path) and inner.startswith("/"):
        inner = posixpath.relpath(inner, os.path.abspath(root))
    try:
        return below(root, inner, any_text=True)
    except FormatError:
        raise FormatError(
            f"{name!r} leads out of the folder of the list's files",
            root,
            hint="name a folder that holds all files of the list, "
            f"such as root={'/'!r}, if you trust the list",
        ) from None
