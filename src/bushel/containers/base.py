"""The protocols of containers: finding the shards of a dataset and indexing them, and writing them.

A container that is read is an object with the four members of `Container`, and is registered
(`registry`); one that is written has the members of `WritableContainer`, too. `abilities` has the
protocols of what only some containers can do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from bushel._index.class_names import Labels
from bushel._index.table import Shard, ShardIndex
from bushel._runtime.structs import Struct
from bushel.spec import Field, Spec
from bushel.storage import AnyPath

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from bushel._index.builders import IndexBuilder
    from bushel.containers.stored_column import StoredColumn
    from bushel.storage import Staging

__all__ = [
    "ColumnLimits",
    "Container",
    "Layout",
    "LayoutField",
    "ReadOptions",
    "Shard",
    "ShardWriter",
    "Stored",
    "StoresClassNames",
    "WritableContainer",
    "WriteOptions",
    "WritesColumns",
    "file_shards",
    "next_name",
]

Stored: TypeAlias = "Buffer | Iterable[Buffer]"
"""Stored bytes of a field; for a sequence field, the stored bytes of each element."""

Report = Callable[[int], None]
"""Called with the number of bytes scanned since the last call, for progress bars."""


class ReadOptions(Struct, frozen=True):
    """Options of reading: facts that the files of a dataset do not contain, as the user declares them.

    Attributes:
        spec: Types of fields, where the container cannot know them.
        pickle: Whether codecs that run code are used where files name them, and pickled gulp
            metadata is read.
        checksums: Whether the CRC-32 of every field is wanted. What `index` does not give is
            computed afterwards.
        report: Called with the bytes scanned since the last call.
        damaged: Whether a record that differs from the container's own checksum becomes an
            unreadable sample, no error.
        kept: Whether the table of a folder of plain files, kept by an earlier opening, is used if
            no folder in it has changed. Files are looked at when they are read.
    """

    spec: Spec | None = None
    pickle: bool = False
    checksums: bool = False
    report: Report | None = None
    damaged: bool = False
    kept: bool = False


class WriteOptions(Struct, frozen=True):
    """The choices that decide how a dataset is written.

    Attributes:
        keyed: Whether samples carry keys of their own.
        generation: Generation of a bag, `B` or `C`; None for other containers.
        single: The user named one file (`out/train.tar`) or, for a bag, asked for no shards.
        expected: Number of samples in the shard if known in advance; a hint that may be wrong.
        folders: Paths of empty folders, for containers that keep them; None if samples are not
            files of a folder.
    """

    keyed: bool
    generation: str | None = None
    single: bool = False
    expected: int | None = None
    folders: tuple[str, ...] | None = None


class LayoutField(Struct, frozen=True):
    """The place and the codec of one field in a container.

    Attributes:
        field: The field as declared by the user.
        codec: Codec of the stored bytes.
        file: Number of its file in the shard.
    """

    field: Field
    codec: str
    file: int


class Layout(Struct, frozen=True):
    """The way in which a container stores samples of a spec. It is decided once, before the first byte is written.

    Attributes:
        columns: One column per field.
        options: The options it was made for.
        sparse: Whether a sample may lack fields.
        limits: Sentences for the user about what the container does not keep (such as floats
            rounded to 32 bits).
    """

    columns: tuple[LayoutField, ...]
    options: WriteOptions
    sparse: bool = False
    limits: tuple[str, ...] = ()


class ShardWriter(Protocol):
    """Writes the samples of one shard into staged files, and their extents into an index builder.

    It has no other state: a new writer over the same staged files and the same builder continues
    where they end.
    """

    def append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        """Write one sample and close it in the builder.

        If this raises, the caller truncates the files and the builder to their former ends.

        Raises:
            SpecError: The container cannot hold this sample (an unsuitable key, an oversized
                value).
        """
        ...

    def finish(self) -> Sequence[str]:
        """Write the end of the file, such as tables and end marks.

        Returns:
            The names of the shard's files, in the order in which they must get their final names.
            The first ones are the files that the builder's columns refer to by number.
        """
        ...


class ColumnLimits(Struct, frozen=True):
    """The samples that `WritesColumns.extend` takes in any case: they have all fields, and such keys and values."""

    # bytes of the longest key, which consists of ASCII letters, digits, `-` and, not first, `_`
    longest_key: int = 4096
    # values that start with these bytes are not among them, if it is not empty
    refused_start: bytes = b""


@runtime_checkable
class WritesColumns(Protocol):
    """A `ShardWriter` that can write many samples at once."""

    @property
    def column_limits(self) -> ColumnLimits | None:
        """The samples that `extend` takes after the first one of a shard; None if it takes none of this spec."""
        ...

    def extend(
        self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn], room: int | None
    ) -> int:
        """Write samples that have all fields, with the bytes that `append` would write.

        Args:
            keys: Their keys, or None.
            columns: Their values, by field.
            room: Bytes until the shard is full (`fitting`).

        Returns:
            The number of samples written; 0 if these have to be appended one by one.
        """
        ...


@runtime_checkable
class StoresClassNames(Protocol):
    """A `ShardWriter` that stores names of classes in the files of the shard."""

    def name_classes(self, labels: Labels, /) -> None:
        """Store these names. Called before the first sample is written, and before one is added to a staged shard."""
        ...


@runtime_checkable
class Container(Protocol):
    """A container format that is read.

    A dataset is known by its container's name: `Dataset.info.container`,
    `bushel.open(…, container=…)`.
    """

    @property
    def name(self) -> str:
        """The name for users: lower-case letters and digits."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The ends of the names of its data files, such as `.tar`, with `#` for a run of digits: `.rec.part#`.

        A container without suffixes and without `HasFileNames` is asked about paths that no other
        one owns.
        """
        ...

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shards of the dataset at a path, in the original reader's order; None for other containers.

        Args:
            path: A file, or the folder of a dataset. It may lie in an object store.

        Raises:
            FormatError: The dataset is of this container, but too damaged to list its shards.
        """
        ...

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one shard, from the container's own index or by a scan.

        The result is checked (`ShardIndex.check`): every extent lies in its file.

        Raises:
            FormatError: The files are damaged; the message says which, where, and what was
                expected.
            SpecError: `options.spec` does not fit the files.
        """
        ...


@runtime_checkable
class WritableContainer(Container, Protocol):
    """A container format that is also written, byte for byte as its original tool writes it."""

    @property
    def suffix(self) -> str:
        """Suffix of a dataset that is one file; empty if a dataset is always a folder."""
        ...

    @property
    def needs_keys(self) -> bool:
        """Whether every sample needs a key. Samples without a key then get their number as text."""
        ...

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Return how samples of this spec are stored.

        Raises:
            SpecError: The container cannot hold them; the message says why, and which containers
                can.
        """
        ...

    def shard(
        self, root: AnyPath, layout: Layout, before: Sequence[Shard], name: str | None
    ) -> Shard:
        """Return the names of a new shard's files. The folder is not looked at: another writer may be at work in it.

        Args:
            root: The dataset's folder.
            layout: A result of `layout`.
            before: The shards of the dataset so far.
            name: The file that the user named, if the dataset is a single file.
        """
        ...

    def reopen(
        self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging
    ) -> dict[str, int]:
        """Copy an existing shard into staging without its tables and end marks, so that `writer` can continue it.

        Returns:
            The number of bytes to keep of each staged file, by name.
        """
        ...

    def writer(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> ShardWriter:
        """Start a shard, or continue one whose files are in `staging` and whose rows are in `builder`."""
        ...


def file_shards(
    path: AnyPath, owns: Callable[[str], object], beside: Callable[[str], object] = lambda _: True
) -> list[Shard] | None:
    """Return the shard of a file, or a shard for each file of a folder, sorted by name; None without any.

    Args:
        path: The file or folder.
        owns: Returns whether a file of this name, in lower case, is one of the container.
        beside: Returns whether another file of this name may lie in the folder. Hidden files may.
    """
    if not path.is_dir():
        return [Shard.of(path)] if owns(path.name.lower()) else None
    names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
    owned = [name for name in names if owns(name.lower())]
    strange = (name for name in names if not owns(name.lower()) and not beside(name))
    if owned and next(strange, None) is None:
        return [Shard(path, name, (name,)) for name in owned]
    return None


_NUMBERED = r"(?P<stem>.*?)(?P<number>\d+)"


def next_name(names: Sequence[str], *, suffix: str, stem: str = "") -> str:
    """Return a name that sorts after `names`, in the pattern of the last one if possible.

    Args:
        names: The names of the shards so far, sorted.
        suffix: The end of all names, such as `.tar`.
        stem: The start of the first shard's name.
    """
    if not names:
        return f"{stem}{0:06d}{suffix}"
    numbered = [
        match for name in names if (match := re.fullmatch(_NUMBERED, name.removesuffix(suffix)))
    ]
    number = max([len(names), *(int(match["number"]) + 1 for match in numbered)])
    last = re.fullmatch(_NUMBERED, names[-1].removesuffix(suffix))
    if last is not None and len(str(number)) <= len(last["number"]):
        return f"{last['stem']}{number:0{len(last['number'])}d}{suffix}"
    # `_` sorts after the dot of the suffix
    return f"{names[-1].removesuffix(suffix)}_{number:06d}{suffix}"
