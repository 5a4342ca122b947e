"""Protocols of optional abilities of containers.

Callers test for an ability with `isinstance`: a container has an ability if it has its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from bushel._index.class_names import Labels
from bushel._index.table import Shard
from bushel.containers.base import ReadOptions, Report
from bushel.storage import AnyPath

if TYPE_CHECKING:
    from bushel.containers.recovery import Fault, Recovered
    from bushel.errors import FormatError


@runtime_checkable
class HasFileNames(Protocol):
    """A container whose datasets are not recognised by suffixes alone, such as folders with an `index.json`."""

    @property
    def file_names(self) -> tuple[str, ...]:
        """Whole names of files or folders in such a dataset. The name `#` stands for all that consist of digits."""
        ...


@runtime_checkable
class HoldsFiles(Protocol):
    """An archive of files: the name of one is the key of its sample, a dot, and the name of the field."""

    @property
    def holds_files(self) -> bool:
        """True."""
        ...


@runtime_checkable
class HasFirstBytes(Protocol):
    """A container whose files are recognised with certainty by their first bytes, with any name."""

    @property
    def name(self) -> str:
        """The name of the container."""
        ...

    def shards(self, path: AnyPath, /) -> list[Shard] | None:
        """Return the shards of a path; see `Container`."""
        ...

    def begins_with(self, head: bytes, size: int, /) -> bool:
        """Return whether a file of this size, whose first 16 bytes are `head`, is one of the container."""
        ...


@runtime_checkable
class HasNestedDatasets(Protocol):
    """A container whose datasets may lie in sub-folders that form one dataset."""

    @property
    def name(self) -> str:
        """The name of the container."""
        ...

    def certain_shards(self, path: AnyPath, /) -> list[Shard] | None:
        """Return the shards of such a folder, which no container owns by its names; None if that is in doubt.

        Raises:
            FormatError: They are datasets, and not one.
        """
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
class LacksFields(Protocol):
    """A container whose files tell no fields: `index` makes the same ones of all, unless it is given others."""

    @property
    def lacks_fields(self) -> Literal[True]:
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
class ChecksNames(Protocol):
    """A container whose readers find a file by a part of its name, beside the suffix."""

    def check_name(self, name: str, /) -> None:
        """Check the name of a new file.

        Raises:
            SpecError: Readers would not find it.
        """
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
            FormatError, SpecError: Nothing can be recovered, or `options.spec` does not fit the
                files.
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
        """Return the names in that file, for each field that they may belong to; empty without a usable file."""
        ...

    def file_of_names(self, labels: Labels, /) -> bytes | None:
        """Return the contents of that file, or None without names."""
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
    """A container that cannot hold every key, and makes a valid key from an invalid one."""

    def mended_key(self, key: str, /) -> str:
        """Return the key itself if it can be held, else one like it."""
        ...
