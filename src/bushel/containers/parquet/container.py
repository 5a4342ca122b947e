"""Parquet files, read in place: a row is a sample, and a column a field.

Byte arrays are extents of the file, or of blocks where pages are compressed. Lists of numbers are
extents of blocks. Scalars are columns of the table. Values without extents (nested ones, decimals)
are decoded by pyarrow and kept in the table. See docs/format-parquet.md for the types. The row
groups of a remote file are its sections.

Folders hold columns, too, as Hive, Spark and pyarrow write them (`year=2020/month=01/part-0.parquet`,
https://arrow.apache.org/docs/python/dataset.html#reading-partitioned-data): of whole numbers if the
names of all folders say so.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote

import numpy as np
from msgspec.structs import replace

from bushel._index.object_columns import of_objects
from bushel._index.shard import FileStamp, Shard, stamps
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.messages import log_warning
from bushel.codecs import get_codec
from bushel.containers.base import Container, Outline, ReadOptions, Section
from bushel.containers.features import Feature, features_in
from bushel.containers.references import with_keys, with_references
from bushel.containers.row_table import check_pyarrow
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.filters.parquet import OtherEncoding
from bushel.spec import KEY, Field
from bushel.storage import AnyPath, File, is_object, open_file

from .footer import TAIL, Footer, Node, read_footer
from .page_index import Groups, index_faults, narrowed, sections_of
from .table import Table, field_of, is_decoded
from .values import scalars_of

_METADATA = "metadata.parquet"  # beside other files, a list of these: see folder_metadata.py
# ends of names of files about the data
_ABOUT = (".json", ".md", ".txt", ".yaml", ".yml", "LICENSE")
_HINT = "the file is damaged: write or download it again"
_SPLIT = re.compile(r"(?P<split>.+)-[0-9]{5}-of-[0-9]{5}.*\.parquet", re.DOTALL)
_SHOWN = 10  # names of splits in an error
# of a table: one value takes some 20 bytes of memory
_ENOUGH_VALUES, _VALUES_PER_BYTE = 1 << 26, 64


class _Parquet(Container):
    name = "parquet"
    has_sections = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return a shard for each file: the named one, or the files of a folder or of its folder `data`."""
        if path.name.lower().endswith(self.suffixes):
            if path.is_file():
                return [Shard(path.parent, path.name, (path.name,))]
            return None
        for folder, before in ((path, ""), (path / "data", "data/")):
            if not folder.is_dir():
                continue
            names = sorted(entry.name for entry in folder.iterdir())
            visible = [name for name in names if not name.startswith(".")]
            tables = [name for name in visible if name.lower().endswith(self.suffixes)]
            further = [name for name in visible if name not in tables and not name.endswith(_ABOUT)]
            if tables and (tables != [_METADATA] or not further):
                _check_one_split(tables, str(folder))
                return [Shard(path, before + name, (before + name,)) for name in tables]
        names = files_below(path, self.suffixes) if path.is_dir() else []
        return [Shard(path, name, (name,)) for name in names] or None

    def begins_with(self, head: bytes, size: int) -> bool:
        """Return whether these are the first bytes of a file of Parquet."""
        return head.startswith(b"PAR1")

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file. Pages are read for their lengths and levels."""
        file, tail = _opened(shard)
        footer = read_footer(file, tail)
        features = features_of(footer, file.path)
        fields = tuple(_fields(file, footer, features))
        near = file if tail is None else ChunkReader(file, footer)
        rows = Table(near, footer, features, options.spec)
        table = with_partitions(with_keys(_table(rows, fields, shard), shard), shard)
        _warn_of_paths(footer, table, file.path)
        return with_references(table, shard, options.spec)

    def faults(self, shard: Shard) -> list[FormatError]:
        """Return the errors in the page index of a local file, which the table does not need."""
        file, tail = _opened(shard)
        if tail is not None:
            return []
        return list(index_faults(file, read_footer(file, tail)))

    def outline(self, shard: Shard) -> Outline:
        """Return the rows and bytes of each row group, from the footer, or of runs of rows, from the page index."""
        file, tail = _opened(shard)
        footer = _without_keys(read_footer(file, tail), file.path)
        features = features_of(footer, file.path)
        fields = tuple(_fields(file, footer, features))
        labels = {name: feature.names for name, feature in features.items() if feature.names}
        stamp = FileStamp(shard.files[0], file.size, file.mtime_ns)
        return Outline(
            stamp, fields, labels, tuple(sections_of(footer, features, fields, file, tail))
        )

    def narrowed(self, section: Section, names: Collection[str]) -> Section:
        """Return a section with only some columns: their chunks, and the bytes in small gaps between these."""
        return narrowed(section, names)

    def index_section(
        self, shard: Shard, section: Section, file: File, options: ReadOptions, /
    ) -> ShardIndex:
        """Return the table of the row groups of a section."""
        groups: Groups = section.details
        near = ChunkReader(file, groups.footer)
        rows = Table(near, groups.footer, groups.features, options.spec, groups.first)
        return _table(rows, groups.fields, shard)


CONTAINER = _Parquet()


def numbers_in(shard: Shard, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the numbers of some columns of a file.

    Raises:
        FormatError: A column is missing or damaged, or lacks a number.
    """
    file, tail = _opened(shard)
    footer = read_footer(file, tail)
    nodes = {node.name: node for node in footer.fields if node.physical is not None}
    numbers = {}
    for name in names:
        if name not in nodes:
            raise FormatError(f"it has no column {name!r}", file.path, hint=_HINT)
        with _naming(nodes[name], file, footer):
            try:
                numbers[name], missing = scalars_of(file, footer, nodes[name])
            except OtherEncoding as error:
                raise ValueError("it does not hold plain numbers") from error
            if missing.any():
                raise ValueError(f"row {int(missing.argmax())} has no value")
    return numbers


def _opened(shard: Shard) -> tuple[File, bytes | None]:
    """Open the file of a shard; a remote one with its last bytes, which take one request."""
    path = shard.path(0)
    if not is_object(path):
        return open_file(path), None
    from bushel.storage.objects.remotefile import RemoteFile

    return RemoteFile.open_at_end(path, TAIL)


def _without_keys(footer: Footer, path: str) -> Footer:
    """Return a footer without the column of keys: they are known when all of them have been read."""
    fields = tuple(node for node in footer.fields if node.name != KEY)
    if len(fields) < len(footer.fields):
        log_warning(
            "%s: the column %s is read by `bushel index`; until then, samples have no keys",
            path,
            KEY,
        )
    return replace(footer, fields=fields)


def _warn_of_paths(footer: Footer, table: ShardIndex, path: str) -> None:
    """Say which columns of bytes and paths have no bytes: their samples lack the field."""
    for node in footer.fields:
        pair = {child.name for child in node.children} == {"bytes", "path"}
        column = table.fields.get(node.name)
        if pair and table.samples and column is not None and column.lacks_all:
            log_warning(
                "%s: no row of the column %r has bytes, only paths of files, so samples lack the field: write the "
                "file again with the bytes in it, or with the paths as text, and open it with spec={%r: 'jpg(path)'}",
                path,
                node.name,
                node.name,
            )


def _fields(file: File, footer: Footer, features: Mapping[str, Feature]) -> Iterator[Field]:
    for node in footer.fields:
        with _naming(node, file, footer):
            yield field_of(node, file, footer, features)


def _table(table: Table, fields: tuple[Field, ...], shard: Shard) -> ShardIndex:
    """Return the table of some row groups, which `table` gets column by column."""
    file, footer = table.file, table.footer
    _check_density(footer, file)
    pairs = zip(footer.fields, fields, strict=True)
    if (
        nested := next((field.name for node, field in pairs if is_decoded(node, field)), None)
    ) is not None:
        check_pyarrow(file, nested)  # before the columns that do not need it are read
    for node, field in zip(footer.fields, fields, strict=True):
        with _naming(node, file, footer):
            table.add(node, field)
    table.finish()
    index = ShardIndex(
        footer.rows,
        stamps(shard, [file]),
        table.fields,
        CONTAINER.name,
        labels=table.labels,
        columns=table.columns,
        blocks=table.blocks(),
    )
    return index.check(file.path)


def _check_density(footer: Footer, file: File) -> None:
    """Refuse a table that would be far larger than the file: a page of some bytes can announce millions of nulls.

    Raises:
        FormatError: It has more values than files of its size usually have.
    """
    columns = sum(1 for field in footer.fields for _ in field.leaves())
    if footer.rows * columns > max(_ENOUGH_VALUES, _VALUES_PER_BYTE * file.size):
        raise FormatError(
            f"{footer.rows} rows of {columns} columns are announced in {file.size} "
            "bytes: a table of them would be far larger than the file",
            file.path,
            hint="if this is right, write the rows that have values, or fewer columns, with pyarrow",
        )


@contextmanager
def _naming(node: Node, file: File, footer: Footer) -> Iterator[None]:
    """Let errors of a column name it, and where it begins."""
    try:
        yield
    except (FilterError, ValueError) as error:
        message = f"column {node.name!r}: {error}"
        raise FormatError(message, file.path, _offset_of(node, footer), _HINT) from error


def _check_one_split(names: list[str], folder: str) -> None:
    splits = sorted({match["split"] for name in names if (match := _SPLIT.fullmatch(name))})
    if len(splits) > 1:
        raise FormatError(
            "the folder has several splits: "
            f"{', '.join(splits[:_SHOWN])}{' and others' * (len(splits) > _SHOWN)}",
            folder,
            hint=f"name one of them: bushel.open({folder + '/' + splits[0] + '-*.parquet'!r})",
        )


def _offset_of(node: Node, footer: Footer) -> int | None:
    leaf = next(node.leaves(), None)
    if leaf is not None and footer.groups:
        return footer.groups[0].chunks[leaf.leaf].offset
    return None


class ChunkReader:
    """Reads a remote file. A read inside a column chunk fetches the chunk, which is kept until another one is read.

    The footer may be of a run of rows: of its chunks, only the pages that have these rows are
    fetched.
    """

    def __init__(self, file: File, footer: Footer) -> None:
        self._file = file
        self.path, self.size, self.mtime_ns = file.path, file.size, file.mtime_ns
        spans = sorted(
            span for group in footer.groups for chunk in group.chunks for span in chunk.spans
        )
        self._starts = [start for start, _ in spans]
        self._stops = [stop for _, stop in spans]
        self._held: tuple[int, bytes] = (0, b"")

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent: see `File.read`."""
        start, data = self._held
        if not start <= offset <= offset + length <= start + len(data):
            number = bisect_right(self._starts, offset) - 1
            if number < 0 or offset + length > self._stops[number]:
                return self._file.read(offset, length)
            start = self._starts[number]
            data = self._file.read(start, self._stops[number] - start)
            self._held = start, data
        return data[offset - start : offset - start + length]


_ARROW = "ARROW:schema"


def features_of(footer: Footer, path: str) -> dict[str, Feature]:
    """Return the features of the columns that have some, in the metadata of Hugging Face and of Arrow.

    Raises:
        FormatError: The metadata is malformed.
    """
    features = features_in(footer.metadata.get("huggingface"), path)
    if (encoded := footer.metadata.get(_ARROW)) is None:
        return features
    from bushel.containers.arrow.messages import Type, columns_in
    from bushel.containers.arrow.parts import tensor_of, time_codec

    try:
        columns = columns_in(base64.b64decode(encoded))
        for column in columns:
            time, tensor = None, tensor_of(column)
            if column.type == Type.DURATION:
                time = time_codec(column)
            if time is not None or tensor is not None:
                features[column.name] = replace(
                    features.get(column.name, Feature()), time=time, tensor=tensor
                )
    except ValueError as error:
        raise FormatError(f"the metadata {_ARROW!r} is malformed: {error}", path) from error
    return features


_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,9}")


def files_below(path: AnyPath, suffixes: tuple[str, ...], above: str = "") -> list[str]:
    """Return the names of the files in folders that hold a column, relative to the dataset, in order."""
    names = list[str]()
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name):
        name = above + entry.name
        if "=" in entry.name and entry.is_dir():
            names += files_below(entry, suffixes, f"{name}/")
        elif above and entry.name[0] not in "._" and name.lower().endswith(suffixes):
            names.append(name)
    return names


def with_partitions(index: ShardIndex, shard: Shard) -> ShardIndex:
    """Return the table of a file with the columns that its folders hold; columns of the file itself stay."""
    *folders, _ = shard.files[0].split("/")
    for depth, folder in enumerate(folders):
        name, sign, text = map(unquote, folder.partition("="))
        if sign and name not in index.fields:
            texts = set(_texts(shard.root, name, depth)) - {_NULL}
            whole = bool(texts) and all(map(_WHOLE.fullmatch, texts))
            field, value = Field(name, ("utf8", "int")[whole]), None
            if text != _NULL:
                value = int(text) if whole else text
            index = _with_column(index, field, value)
    return index


def _texts(folder: AnyPath, name: str, depth: int) -> Iterator[str]:
    """Yield the texts of a column, which the names of folders below others hold."""
    for entry in folder.iterdir():
        column, sign, text = entry.name.partition("=")
        if sign and depth and entry.is_dir():
            yield from _texts(entry, name, depth - 1)
        elif sign and not depth and unquote(column) == name:
            yield text


def _with_column(index: ShardIndex, field: Field, value: str | int | None) -> ShardIndex:
    """Return a table with a field of one value in all rows; None if it is missing."""
    rows, stored, size = index.samples, b"", MISSING
    if value is not None:
        stored = bytes(get_codec(field.codec).encode(value))
        size = len(stored)
    places = np.zeros(rows, np.int64), np.full(rows, size)
    extents = FieldExtents(field, field.codec, index.next_file, *places)
    data = np.frombuffer(stored, np.uint8)
    return index.with_field(extents, data, of_objects([value] * rows))
