"""The protocols of containers: finding the shards of a dataset and indexing them, writing them, and optional abilities.

A container that is read is an object with the four members of `Container`, and is registered (`registry`); one that is
written has those of `WritableContainer`, too. What only some containers can do is a protocol of its own, which callers
test with `isinstance`: a container has an ability by having its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from typing_extensions import Buffer

from bushel._index.class_names import Labels
from bushel._index.table import Shard, ShardIndex
from bushel.spec import Field, Spec
from bushel.storage import AnyPath

if TYPE_CHECKING:
    from bushel._index.builders import IndexBuilder
    from bushel.containers.recovery import Fault, Recovered
    from bushel.containers.stored_column import StoredColumn
    from bushel.errors import FormatError
    from bushel.storage import Staging

__all__ = [
    "ChangesTypes",
    "ChecksStored",
    "ColumnLimits",
    "Container",
    "HasFileNames",
    "HasGenerations",
    "HasOwnIndex",
    "HasRate",
    "IndexesPart",
    "KeepsFolders",
    "KeepsNames",
    "KeepsReferences",
    "Layout",
    "LayoutField",
    "MendsKeys",
    "PromisesChecksums",
    "ReadOptions",
    "Recovers",
    "ReportsFaults",
    "Shard",
    "ShardWriter",
    "Stored",
    "StoresClassNames",
    "StoresText",
    "WritableContainer",
    "WriteOptions",
    "WritesColumns",
]

Stored = Buffer | Iterable[Buffer]
"""Stored bytes of a field; for a sequence field, the stored bytes of each element."""

Report = Callable[[int], None]
"""Called with the number of bytes scanned since the last call, for progress bars."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading: facts that the files of a dataset do not contain, as the user declares them.

    Attributes:
        spec: Types of fields, where the container cannot know them.
        pickle: Whether codecs that run code are used where files name them, and pickled gulp metadata is read.
        checksums: Whether the CRC-32 of every field is wanted. What `index` does not give is computed afterwards.
        report: Called with the bytes scanned since the last call.
        damaged: Whether a record that differs from the container's own checksum becomes an unreadable sample, no error.
    """

    spec: Spec | None = None
    pickle: bool = False
    checksums: bool = False
    report: Report | None = None
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The choices that decide how a dataset is written.

    Attributes:
        keyed: Whether samples carry keys of their own.
        generation: Generation of a bag, `B` or `C`; None for other containers.
        single: The user named one file (`out/train.tar`) or, for a bag, asked for no shards.
        expected: Number of samples in the shard if known in advance; a hint that may be wrong.
        folders: Paths of empty folders, for containers that keep them; None if samples are not files of a folder.
    """

    keyed: bool
    generation: str | None = None
    single: bool = False
    expected: int | None = None
    folders: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LayoutField:
    """The place and the codec of one field in a container.

    Attributes:
        field: The field as declared by the user.
        codec: Codec of the stored bytes.
        file: Number of its file in the shard.
    """

    field: Field
    codec: str
    file: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The way in which a container stores samples of a spec. It is decided once, before the first byte is written.

    Attributes:
        columns: One column per field.
        options: The options it was made for.
        sparse: Whether a sample may lack fields.
        limits: Sentences for the user about what the container does not keep (such as floats rounded to 32 bits).
    """

    columns: tuple[LayoutField, ...]
    options: WriteOptions
    sparse: bool = False
    limits: tuple[str, ...] = field(default=())


class ShardWriter(Protocol):
    """Writes the samples of one shard into staged files, and their extents into an index builder.

    It has no other state: a new writer over the same staged files and the same builder continues where they end.
    """

    def append(self, key: str | None, values: Mapping[str, Stored]) -> None:
        """Write one sample and close it in the builder.

        If this raises, the caller truncates the files and the builder to their former ends.

        Raises:
            SpecError: The container cannot hold this sample (an unsuitable key, an oversized value).
        """
        ...

    def finish(self) -> Sequence[str]:
        """Write what comes last, such as tables and end marks.

        Returns:
            The names of the shard's files, in the order in which they must get their final names. The first ones are
            the files that the builder's columns refer to by number.
        """
        ...


@dataclass(frozen=True, slots=True)
class ColumnLimits:
    """The samples that `WritesColumns.extend` takes in any case: those with all fields, and with these keys and values.

    Attributes:
        longest_key: Bytes of the longest key, which consists of ASCII letters, digits, `-` and, not first, `_`.
        refused_start: Values that start with these bytes are not among them, if it is not empty.
    """

    longest_key: int = 4096
    refused_start: bytes = b""


@runtime_checkable
class WritesColumns(Protocol):
    """A `ShardWriter` that can write many samples at once."""

    @property
    def column_limits(self) -> ColumnLimits | None:
        """The samples that `extend` takes after the first one of a shard; None if it takes none of this spec."""
        ...

    def extend(self, keys: StoredColumn | None, columns: Mapping[str, StoredColumn], room: int | None) -> int:
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

    A dataset is known by its container's name: `Dataset.info.container`, `bushel.open(…, container=…)`.
    """

    @property
    def name(self) -> str:
        """The name for users: lower-case letters and digits."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The ends of the names of its data files, such as `.tar`, with `#` for a run of digits: `.rec.part#`.

        A container without suffixes and without `HasFileNames` is asked about paths that no other one owns.
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
            FormatError: The files are damaged; the message says which, where, and what was expected.
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
            SpecError: The container cannot hold them; the message says why, and which containers can.
        """
        ...

    def shard(self, root: AnyPath, layout: Layout, before: Sequence[Shard], name: str | None) -> Shard:
        """Return the names of a new shard's files. The folder is not looked at: another writer may be at work in it.

        Args:
            root: The dataset's folder.
            layout: A result of `layout`.
            before: The shards of the dataset so far.
            name: The file that the user named, if the dataset is a single file.
        """
        ...

    def reopen(self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging) -> dict[str, int]:
        """Copy an existing shard into staging without its tables and end marks, so that `writer` can continue it.

        Returns:
            The number of bytes to keep of each staged file, by name.
        """
        ...

    def writer(self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder) -> ShardWriter:
        """Start a shard, or continue one whose files are in `staging` and whose rows are in `builder`."""
        ...


# Abilities that only some containers have


@runtime_checkable
class HasFileNames(Protocol):
    """A container whose datasets are not recognised by suffixes alone, such as folders with an `index.json`."""

    @property
    def file_names(self) -> tuple[str, ...]:
        """Whole names of files or folders in such a dataset. The name `#` stands for all that consist of digits."""
        ...


@runtime_checkable
class HasOwnIndex(Protocol):
    """A container that may be indexed without a pass over its data, so that the index is not worth storing."""

    def has_own_index(self, shard: Shard, /) -> bool:
        """Return whether `index` is quick for this shard."""
        ...


@runtime_checkable
class HasRate(Protocol):
    """A container whose samples consist of frames at a fixed rate."""

    def rate(self, shard: Shard, /) -> float:
        """Return the number of frames in a second."""
        ...


@runtime_checkable
class IndexesPart(Protocol):
    """A container that reads only some files of a shard whole to index it."""

    def index_reads(self, shard: Shard, /) -> Sequence[int]:
        """Return the numbers of these files."""
        ...


@runtime_checkable
class StoresText(Protocol):
    """A container whose values are text, so that a field of another type (`ReadOptions.spec`) needs another table."""

    @property
    def stores_text(self) -> Literal[True]:
        """True."""
        ...


@runtime_checkable
class PromisesChecksums(Protocol):
    """A container that stores the CRC-32 of values, which its own reader compares. Datasets compare them by default.

    `index` gives these checksums (`Column.crc32`).
    """

    @property
    def promises_checksums(self) -> Literal[True]:
        """True."""
        ...


@runtime_checkable
class ReportsFaults(Protocol):
    """A container that can find damage that does not keep its files from being read."""

    def faults(self, shard: Shard, /) -> list[FormatError]:
        """Return the errors of a shard. `verify` reports them."""
        ...


@runtime_checkable
class ChecksStored(Protocol):
    """A container that stores checksums not of values, but of pages, members, records or whole files."""

    def check_stored(self, shard: Shard, report: Report, /) -> Iterator[FormatError]:
        """Compare everything that has such a checksum with it, and yield an error for each difference.

        Args:
            shard: The shard.
            report: Called with the number of bytes compared since the last call.
        """
        ...


@runtime_checkable
class Recovers(Protocol):
    """A container whose damaged shards give the samples that the damage does not touch."""

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault, /) -> Recovered:
        """Return a table of the intact samples.

        Args:
            shard: The shard, whose files exist.
            options: As for `index`.
            fault: Called with an error for everything that is left out.

        Raises:
            FormatError, SpecError: Nothing can be recovered, or `options.spec` does not fit the files.
        """
        ...


@runtime_checkable
class KeepsNames(Protocol):
    """A container whose original tool keeps the names of classes in a file in the folder of the dataset."""

    @property
    def names_file(self) -> str:
        """Name of that file."""
        ...

    def class_names(self, root: AnyPath, /) -> Labels:
        """Return the names in that file, for each field that they may belong to; empty if there is no usable file."""
        ...

    def file_of_names(self, labels: Labels, /) -> bytes | None:
        """Return the contents of that file, or None if there are no names."""
        ...


@runtime_checkable
class KeepsFolders(Protocol):
    """A container that stores paths of folders that hold no sample (`WriteOptions.folders`)."""

    def empty_folders(self, shard: Shard, /) -> list[str]:
        """Return these paths.

        Raises:
            FormatError: The shard is damaged.
        """
        ...


@runtime_checkable
class KeepsReferences(Protocol):
    """A container whose samples refer to their values by a table in a file of its own."""

    def file_of_references(self, shard: Shard, /) -> str | None:
        """Return the name of that file, or None if this shard has none."""
        ...


@runtime_checkable
class HasGenerations(Protocol):
    """A container whose format has changed: all generations are read, and `WriteOptions.generation` chooses one."""

    def generation(self, shard: Shard, /) -> str:
        """Return the generation of an existing shard. Appending must use the same one.

        Raises:
            FormatError: The table that shows the generation is damaged.
        """
        ...

    def written_as(self, generation: str, /) -> str:
        """Return the generation in which samples of this generation are written to a new dataset."""
        ...


@runtime_checkable
class ChangesTypes(Protocol):
    """A container whose original tool knows fewer types: fields of others are converted to types that it knows."""

    def type_of(self, codec: str, /) -> str:
        """Return the codec of the same values that the tool knows best."""
        ...


@runtime_checkable
class MendsKeys(Protocol):
    """A container that cannot hold every key, and says which one stands for a key that it cannot hold."""

    def mended_key(self, key: str, /) -> str:
        """Return the key itself if it can be held, else one like it."""
        ...
