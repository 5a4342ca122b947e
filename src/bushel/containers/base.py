"""The base classes of containers: `Container` finds the shards of a dataset and indexes them; `ShardWriter` writes one.

Callers ask a container itself what it can do: every method has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from typing_extensions import Buffer

from bushel._index.names import Labels
from bushel._index.shard import FileStamp, Shard, next_name
from bushel._index.table import ShardIndex
from bushel.errors import FormatError
from bushel.spec import Field, Spec
from bushel.storage import AnyPath

from .facts import BUILT_IN, DIGITS

if TYPE_CHECKING:
    from bushel._index.builders import IndexBuilder
    from bushel.storage import File, Staging

    from .recovery import Fault, Recovered
    from .stored_column import ColumnLimits, StoredColumn, StoredColumns

Stored: TypeAlias = "Buffer | Iterable[Buffer]"
"""Stored bytes of a field; for a sequence field, the stored bytes of each element."""

Values: TypeAlias = "Mapping[str, Stored]"  # the fields that a sample has

Report = Callable[[int], None]
"""Called with the number of bytes scanned since the last call, for progress bars."""


def unreported(size: int) -> None:
    """Report nothing: the default of a `Report`."""


class ReadOptions(Struct, frozen=True):
    """Options of reading: facts that the files of a dataset do not contain, as the user declares them.

    Attributes:
        spec: Types of fields, where the container cannot know them.
        pickle: Whether codecs that run code are used where files name them, and pickled metadata.
        checksums: Whether the CRC-32 of every field is wanted. `index` gives those that it has, or
            that it can compute in passing; the others are computed afterwards.
        report: Called with the bytes scanned since the last call.
        kept: Whether the table of a folder of plain files, kept by an earlier opening, is used if
            no folder in it has changed.
        recorded: The fields in `spec` whose types an earlier table has, and no caller: a value of
            another type is damaged.
    """

    spec: Spec | None = None
    pickle: bool = False
    checksums: bool = False
    report: Report = unreported
    kept: bool = False
    recorded: Collection[str] = ()


class WriteOptions(Struct, frozen=True):
    """The choices that decide how a dataset is written.

    Attributes:
        keyed: Whether samples carry keys of their own.
        generation: Generation of a bag, `B` or `C`; None for other containers.
        single: The user named one file (`out/train.tar`) or, for a bag, asked for no shards.
        expected: Number of samples in the shard if known in advance; a hint that may be wrong.
        folders: Paths of empty folders; None if samples are not files of a folder.
        labels: Names of classes by field, for containers that store them in their files.
    """

    keyed: bool
    generation: str | None = None
    single: bool = False
    expected: int | None = None
    folders: tuple[str, ...] | None = None
    labels: Labels = {}


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
        limits: Sentences for the user about what the container does not keep.
    """

    columns: tuple[LayoutField, ...]
    options: WriteOptions
    sparse: bool = False
    limits: tuple[str, ...] = ()
    only_named_kinds: bool = False  # whether readers expect images of the kind of their field


class Section(Struct, frozen=True):
    """A run of samples whose bytes are together in one file, and which can be indexed on its own.

    So a remote file is read only when needed. A small part of it, such as a footer, has to list them.
    """

    number: int  # its number in the shard
    samples: int
    start: int  # first byte of the file that belongs to it
    stop: int  # end of its bytes
    details: Any  # data that the container needs to index it; they can be pickled
    # first byte and end of each part that is needed, ascending; empty for all from `start` to `stop`
    spans: tuple[tuple[int, int], ...] = ()
    fields: tuple[str, ...] = ()  # the fields of its table; empty for all

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """First byte and end of each part that is needed."""
        return self.spans or ((self.start, self.stop),)

    @property
    def size(self) -> int:
        """Bytes that are needed."""
        return sum(stop - start for start, stop in self.ranges)


class Outline(Struct, frozen=True):
    """The facts about a shard that are known without its table."""

    stamp: FileStamp
    fields: tuple[Field, ...]
    labels: Labels
    sections: tuple[Section, ...]


class ShardWriter(ABC):
    """Writes the samples of one shard into staged files, and their extents into an index builder.

    It has no other state: a new writer over the same files and builder continues where they end.
    """

    __slots__ = ()

    @abstractmethod
    def append(self, key: str | None, values: Values) -> None:
        """Write one sample and close it in the builder. If this raises, the caller truncates files and builder.

        Raises:
            SpecError: The container cannot hold this sample (an unsuitable key, an oversized
                value).
        """

    @abstractmethod
    def finish(self) -> Sequence[str]:
        """Write the end of the file, such as tables and end marks.

        Returns:
            The names of the shard's files, in the order in which they must get their final names.
            The first ones are the files that the builder's columns refer to by number.
        """

    @property
    def column_limits(self) -> ColumnLimits | None:
        """The samples that `extend` takes after the first one of a shard; None if it takes none of this spec."""
        return None

    def extend(self, keys: StoredColumn | None, columns: StoredColumns, room: int | None) -> int:
        """Write many samples that have all fields at once, with the bytes that `append` would write.

        Args:
            keys: Their keys, or None.
            columns: Their values, by field.
            room: Bytes until the shard is full (`fitting`).

        Returns:
            The number of samples written; 0 if these have to be appended one by one.
        """
        return 0


class Container(ABC):
    """A container format: how the shards of a dataset are found and indexed, and perhaps written.

    A subclass has a `name`, `suffixes` and `index`. By default, it is only read and nothing special.

    Attributes:
        name: The name for users: lower-case letters and digits (`Dataset.info.container`,
            `bushel.open(…, container=…)`).
        suffixes: The ends of the names of its data files, such as `.tar`, with `#` for a run of
            digits: `.rec.part#`. A container without suffixes and `file_names` is asked about paths
            that no other one owns.
        file_names: Whole names of files or folders in a dataset that is not recognised by suffixes
            alone, such as `index.json`. The name `#` stands for all that consist of digits.
        has_first_bytes: Whether its files are recognised with any name (`begins_with`).
        files_per_shard: Number of files without which a shard cannot be read. A shard of one file is
            also read under a name that says nothing, if the caller names the container.
        holds_files: Whether it is an archive of files: the name of one is the key of its sample, a
            dot, and the name of the field.
        stores_text: Whether its values are text, so that a field of another type
            (`ReadOptions.spec`) needs another table.
        promises_checksums: Whether it stores the CRC-32 of values, which its own reader compares:
            `index` gives them (`Column.crc32`), and datasets compare them by default.
        has_own_index: Whether `index` is quick, without a pass over the data, so that its result is
            not worth storing.
        has_sections: Whether its shards are one file each, which is indexed by sections (`outline`).
        keeps_folders: Whether it stores `WriteOptions.folders`.
        names_file: Name of the file in which its original tool keeps the names of classes, or None.
        is_written: Whether it is also written: it then has `layout`, `shard`, `reopen` and
            `writer`, and writes byte for byte what its original tool writes.
        suffix: Suffix of a written dataset that is one file; empty if a dataset is always a folder.
        stem: How the names of shards begin, before their numbers.
        needs_keys: Whether samples that are written need a key, which is else their number.
        generations: The generations of the format that are written; empty if it has only one.
    """

    name: str
    suffixes: tuple[str, ...] = ()
    file_names: tuple[str, ...] = ()
    has_first_bytes: bool = False
    files_per_shard: int = 1
    holds_files: bool = False
    stores_text: bool = False
    promises_checksums: bool = False
    has_own_index: bool = False
    has_sections: bool = False
    keeps_folders: bool = False
    names_file: str | None = None
    is_written: bool = False
    suffix: str = ""
    stem: str = ""
    needs_keys: bool = False
    generations: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        """Give a container of Bushel its facts."""
        super().__init_subclass__()
        facts = BUILT_IN.get(vars(cls).get("name", ""))
        if facts is not None:
            cls.suffixes, cls.file_names = facts.suffixes, facts.file_names
            cls.has_first_bytes = facts.first_bytes
            cls.is_written, cls.suffix = facts.suffix is not None, facts.suffix or ""

    # Finding and indexing the shards of a dataset

    def owns(self, name: str) -> bool:
        """Return whether the name of a file, in any case, ends with one of the suffixes."""
        return DIGITS.sub("#", name.lower()).endswith(self.suffixes)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shards of the dataset at a path, in the original reader's order; None for other containers.

        By default, these are the file, or the files of the folder that `owns` finds, sorted by name.

        Args:
            path: A file, or the folder of a dataset. It may be in an object store.

        Raises:
            FormatError: The dataset is of this container, but too damaged to list its shards.
        """
        from .plain_table import file_shards

        return file_shards(path, self.owns)

    @abstractmethod
    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one shard, from the container's own index or by a scan.

        The result is checked (`ShardIndex.check`): every extent is in its file.

        Raises:
            FormatError: The files are damaged; the message says which, where, and what was
                expected.
            SpecError: `options.spec` does not fit the files.
        """

    def begins_with(self, head: bytes, size: int) -> bool:
        """Return whether a file of this size, whose first 16 bytes are `head`, is one of the container."""
        return False

    def index_reads(self, shard: Shard) -> Sequence[int]:
        """Return the numbers of the files that `index` reads whole."""
        return range(len(shard.files))

    def outline(self, shard: Shard) -> Outline:
        """Return the facts about a remote shard, after one or two requests. Raise FormatError if it is damaged."""
        raise NotImplementedError

    def narrowed(self, section: Section, names: Collection[str]) -> Section:
        """Return a section with only these fields, which needs only their bytes."""
        return section

    def index_section(
        self, shard: Shard, section: Section, file: File, options: ReadOptions
    ) -> ShardIndex:
        """Return the table of the samples of one section. Offsets count from the start of the file.

        The bytes of the section are in memory, unless they are very many.

        Raises:
            FormatError: The file is damaged.
        """
        raise NotImplementedError

    def check_names(self, names: Iterable[tuple[str, Sequence[str]]]) -> None:  # noqa: B027 - of most
        """Check that the files of a dataset, with the names of their fields, may be one table.

        Raises:
            FormatError: The names of a file may be data.
        """

    # What the files say beside their samples

    def rate(self, shard: Shard) -> float | None:
        """Return the number of frames in a second if the samples are frames at a fixed rate."""
        return None

    def class_names(self, root: AnyPath) -> Labels:
        """Return the names in `names_file`, for each field that they may belong to; empty without a usable file."""
        return {}

    def file_of_names(self, labels: Labels) -> bytes | None:
        """Return the contents of `names_file`; None without names."""
        return None

    def empty_folders(self, shard: Shard) -> list[str]:
        """Return the paths of folders that hold no sample. Raise FormatError if the shard is damaged."""
        return []

    # Damage

    def faults(self, shard: Shard) -> list[FormatError]:
        """Return the damage of a shard that does not keep its files from being read. `verify` reports it."""
        return []

    def check_stored(self, shard: Shard, report: Report) -> Iterable[FormatError]:
        """Compare pages, members, records or whole files that have a checksum with it; yield the differences."""
        return ()

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
        """Return a table of the samples of a damaged shard that the damage does not touch.

        Args:
            shard: The shard, whose files exist.
            options: As for `index`.
            fault: Called with an error for everything that is left out.

        Raises:
            FormatError, SpecError: Nothing can be recovered, or `options.spec` does not fit the
                files.
        """
        raise FormatError(f"samples of a damaged {self.name} cannot be recovered", shard.path(0))

    def file_of_references(self, shard: Shard) -> str | None:
        """Return the name of the file by which the samples of a shard refer to their values; None if it has none."""
        return None

    # Writing

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Return how samples of this spec are stored.

        Raises:
            SpecError: The container cannot hold them; the message says why, and which containers
                can.
        """
        raise NotImplementedError

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
        if name is None:
            name = next_name([shard.name for shard in before], suffix=self.suffix, stem=self.stem)
        self.check_name(name)
        return Shard(root, name, (name,))

    def reopen(
        self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging
    ) -> dict[str, int]:
        """Copy an existing shard into staging without its tables and end marks, so that `writer` can continue it.

        Returns:
            The number of bytes to keep of each staged file, by name.
        """
        raise NotImplementedError

    def writer(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> ShardWriter:
        """Start a shard, or continue one whose files are in `staging` and whose rows are in `builder`."""
        raise NotImplementedError

    def check_name(self, name: str) -> None:  # noqa: B027
        """Check the name of a new file, beside its suffix.

        Raises:
            SpecError: Readers would not find it.
        """

    def type_of(self, codec: str) -> str:
        """Return the codec of the same values that the original tool knows best."""
        return codec

    def mended_key(self, key: str) -> str:
        """Return the key itself if it can be held, else one like it."""
        return key.replace("\0", "\ufffd")

    def generation(self, shard: Shard) -> str | None:
        """Return the generation of the format of a shard, which appending must keep; None if there is only one.

        Raises:
            FormatError: The table that shows the generation is damaged.
        """
        return None

    def written_as(self, generation: str) -> str:
        """Return the generation in which samples of this generation are written to a new dataset."""
        return generation
