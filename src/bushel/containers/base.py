"""What a container is: where the files of a dataset are, how they are indexed, how they are written.

A new container is one new module with an object that has these methods, and a line in `bushel.containers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from typing_extensions import Buffer

from bushel.core.index.table import IndexBuilder, ShardIndex
from bushel.spec import Field, Spec
from bushel.storage import AnyPath, Staging

__all__ = ["Column", "Container", "Layout", "ReadOptions", "Shard", "ShardWriter", "Stored", "WriteOptions"]

Stored = Buffer | Iterable[Buffer]
"""Stored bytes of a field; of a sequence field, of its elements one after another."""

Report = Callable[[int], None]
"""Called with a number of bytes that have been scanned, for progress bars."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The files that make one shard.

    Attributes:
        root: The folder in which the files are.
        name: What the shard is called within its dataset: `train-000003.tar`, `000003`, or empty for a dataset that
            is one folder.
        files: Paths relative to `root`, data before tables.
        sidecars: The folder for sidecar files, relative to `root`; it ends in `.bushel`.
    """

    root: AnyPath
    name: str
    files: tuple[str, ...]
    sidecars: str = ".bushel"

    def path(self, number: int) -> AnyPath:
        """Path of one of its files."""
        return self.root / self.files[number]

    @property
    def sidecar(self) -> AnyPath:
        """Where the shard's index is kept."""
        own_folder = self.sidecars != ".bushel" or not self.name
        stem = "index" if own_folder else self.name.replace("/", "%2F")
        return self.root / self.sidecars / f"{stem}.safetensors"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user may say about a dataset that its files do not.

    Attributes:
        spec: Types of fields, where the container cannot know them.
        pickle: Whether pickled gulp metadata may be unpickled, which runs code of whoever wrote it.
        checksums: Whether to compute the CRC-32 of every field that the container has no checksum for.
        report: Called with the bytes scanned since the last call.
    """

    spec: Spec | None = None
    pickle: bool = False
    checksums: bool = False
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a dataset is to be written.

    Attributes:
        keyed: Whether samples carry keys of their own.
        generation: Of a bag: `B` or `C`; None elsewhere.
        single: The user named one file (`out/train.tar`) or, for a bag, asked for no shards.
        expected: Samples in the shard, when known in advance; a hint that may be wrong.
        folders: Of a container that keeps them: paths of folders that lead to no sample. None when samples are no
            files of a folder.
    """

    keyed: bool
    generation: str | None = None
    single: bool = False
    expected: int | None = None
    folders: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """How one field is stored.

    Attributes:
        field: The field as the user declared it.
        codec: Codec of the stored bytes.
        file: Number of its file in the shard, `bushel.core.index.table.INLINE` if in none.
    """

    field: Field
    codec: str
    file: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a container stores samples of a spec: decided once, before the first byte.

    Attributes:
        columns: One per field.
        options: What it was decided from.
        sparse: Whether a sample may lack fields.
        limits: What of the samples the container does not keep, in words for the user (floats rounded to 32 bits…).
    """

    columns: tuple[Column, ...]
    options: WriteOptions
    sparse: bool = False
    limits: tuple[str, ...] = field(default=())


class ShardWriter(Protocol):
    """Writes the samples of one shard into staged files and their extents into an index builder.

    It keeps nothing else: made anew over the same staged files and the same builder, it goes on where they end.
    """

    def append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        """Write one sample and close it in the builder.

        If this raises, the caller truncates the files and the builder to where they were.

        Raises:
            SpecError: The container cannot hold this sample (an unfit key, an oversized value).
        """
        ...

    def finish(self) -> Sequence[str]:
        """Write what comes last (tables, end marks).

        Returns:
            The names of the shard's files, in the order in which they must get their final names. The first
            ones are those that the builder's columns count.
        """
        ...


class Container(Protocol):
    """One container format."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    @property
    def suffix(self) -> str:
        """Suffix of its data files; empty where a dataset is a folder."""
        ...

    @property
    def scanned(self) -> bool:
        """Whether its index costs a pass over the data, so that it is worth keeping."""
        ...

    @property
    def needs_keys(self) -> bool:
        """Whether every sample is stored under a key: without keys of their own, samples get their number as text."""
        ...

    @property
    def keeps_folders(self) -> bool:
        """Whether a dataset of files can have folders that lead to none of them (`WriteOptions.folders`)."""
        ...

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """The shards of the dataset at a path, in the original reader's order; None if it is not of this container.

        Args:
            path: A file, or the folder of a dataset.

        Raises:
            FormatError: It is of this container, but damaged so that its shards cannot be told.
        """
        ...

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """The table of one shard, from the container's own index or by a scan.

        The result has been checked (`ShardIndex.check`): every extent lies in its file.

        Raises:
            FormatError: The files are damaged; says which, where, and what was expected.
        """
        ...

    def generation(self, shard: Shard) -> str | None:
        """Which generation of the format an existing shard is of, None where there is only one."""
        ...

    def join(self, raw: bytes) -> bytes:
        """The payload of a record that is stored in pieces (`bushel.core.index.table.Fragments`)."""
        ...

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """How samples of this spec are stored.

        Raises:
            SpecError: The container cannot hold them: why, and which containers can.
        """
        ...

    def shard(self, root: AnyPath, layout: Layout, number: int, name: str | None) -> Shard:
        """Names for the files of a new shard.

        Args:
            root: The dataset's folder.
            layout: As `layout` gave it.
            number: Number of the shard in the dataset.
            name: The file that the user named, when the dataset is a single file.
        """
        ...

    def reopen(self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging) -> dict[str, int]:
        """Copy an existing shard into staging, without its tables and end marks, so that `writer` can go on with it.

        Returns:
            Bytes to keep of each staged file, by name.
        """
        ...

    def writer(self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder) -> ShardWriter:
        """Start writing a shard, or go on with one: `staging` then has its files and `builder` its rows."""
        ...
