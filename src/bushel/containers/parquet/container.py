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
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from urllib.parse import unquote

import numpy as np
from msgspec.structs import replace

from bushel._index.object_columns import of_objects
from bushel._index.shard import Shard, stamps
from bushel._index.table import ShardIndex
from bushel._recognise.names import several
from bushel._runtime.messages import log_warning
from bushel.codecs import get_codec
from bushel.containers.base import Container, Outline, ReadOptions, Section
from bushel.containers.features import Feature, features_in, labels_of
from bushel.containers.plain_table import with_values
from bushel.containers.references import with_keys, with_references
from bushel.containers.row_table import check_pyarrow
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath, File, is_object, names_in
from bushel.storage.files import fetched

from .footer import TAIL, Footer, Node, RowGroup, read_footer
from .page_index import index_faults, joined_spans, sections_of
from .table import Groups, Table, column_of

_METADATA = "metadata.parquet"  # beside other files, a list of these: see folder_metadata.py
# ends of names of files about the data
_ABOUT = (".json", ".md", ".txt", ".yaml", ".yml", "LICENSE")
_HINT = "the file is damaged: write or download it again"
_SPLIT = re.compile(r"(?P<split>.+)-[0-9]{5}-of-[0-9]{5}.*\.parquet", re.DOTALL)
# of a table: one value takes some 20 bytes of memory
_ENOUGH_VALUES, _VALUES_PER_BYTE = 1 << 26, 64


class _Parquet(Container):
    name = "parquet"
    has_sections = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return a shard for each file: the named one, or the files of a folder or of its folder `data`."""
        if self.owns(path.name):
            return [Shard.of(path)] if path.is_file() else None
        for folder, before in ((path, ""), (path / "data", "data/")):
            if not folder.is_dir():
                continue
            names = sorted(names_in(folder))
            visible = [name for name in names if not name.startswith(".")]
            tables = list(filter(self.owns, visible))
            further = [name for name in visible if name not in tables and not name.endswith(_ABOUT)]
            if tables and (tables != [_METADATA] or not further):
                _check_one_split(tables, str(folder))
                return [Shard(path, before + name, (before + name,)) for name in tables]
        _columns_in_folders.cache_clear()
        names = files_below(path, self.suffixes) if path.is_dir() else []
        return [Shard(path, name, (name,)) for name in names] or None

    def begins_with(self, head: bytes, size: int) -> bool:
        """Return whether these are the first bytes of a file of Parquet."""
        return head.startswith(b"PAR1")

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file. Pages are read for their lengths and levels."""
        file = _opened(shard)
        footer = read_footer(file)
        groups = _groups(file, footer)
        if isinstance(file, ChunkReader):
            file.add_chunks(groups)
        table = with_keys(_table(file, groups, options.spec, shard), shard)
        table = with_partitions(table, shard)
        _warn_of_paths(footer, table, file.path)
        return with_references(table, shard, options.spec)

    def faults(self, shard: Shard) -> list[FormatError]:
        """Return the errors in the page index of a local file, which the table does not need."""
        file = _opened(shard)
        if isinstance(file, ChunkReader):
            return []
        return list(index_faults(file, read_footer(file)))

    def outline(self, shard: Shard) -> Outline:
        """Return the rows and bytes of each row group, from the footer, or of runs of rows, from the page index."""
        file = _opened(shard)
        groups = _without_keys(_groups(file, read_footer(file)), file.path)
        fields = tuple(column.field for column in groups.columns)
        labels = labels_of(groups.features, groups.features)
        [stamp] = stamps(shard, [file])
        return Outline(stamp, fields, labels, tuple(sections_of(groups, file)))

    def narrowed(self, section: Section, names: Collection[str]) -> Section:
        """Return a section with only some columns: their chunks, and the bytes in small gaps between these."""
        groups: Groups = section.details
        columns = tuple(column for column in groups.columns if column.field.name in names)
        leaves = [leaf.leaf for column in columns for leaf in column.node.leaves()]
        spans = joined_spans(group.chunks[leaf] for group in groups.groups for leaf in leaves)
        fields = tuple(column.field.name for column in columns)
        return replace(
            section, details=replace(groups, columns=columns), spans=spans, fields=fields
        )

    def index_section(
        self, shard: Shard, section: Section, file: File, options: ReadOptions, /
    ) -> ShardIndex:
        """Return the table of the row groups of a section."""
        groups: Groups = section.details
        near = ChunkReader(file)
        near.add_chunks(groups)
        return _table(near, groups, options.spec, shard)


CONTAINER = _Parquet()


def only_columns(shard: Shard, names: Collection[str]) -> ShardIndex:
    """Return the table of a file with only these columns, as far as it has them.

    Raises:
        FormatError: One is damaged.
    """
    file = _opened(shard)
    footer = read_footer(file)
    nodes = tuple(node for node in footer.fields if node.name in names)
    return _table(file, _groups(file, replace(footer, fields=nodes)), None, shard)


def _opened(shard: Shard) -> File:
    """Open the file of a shard; a remote one with its last bytes, which take one request."""
    path = shard.path(0)
    if not is_object(path):
        return shard.open()
    from bushel.storage.objects.remotefile import RemoteFile

    return fetched(ChunkReader(*RemoteFile.open_at_end(path, TAIL)))


def _without_keys(groups: Groups, path: str) -> Groups:
    """Return row groups without the column of keys: they are known when all of them have been read."""
    columns = tuple(column for column in groups.columns if column.field.name != KEY)
    if len(columns) < len(groups.columns):
        log_warning(
            "%s: the column %s is read by `bushel index`; until then, samples have no keys",
            path,
            KEY,
        )
    return replace(groups, columns=columns)


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


def _groups(file: File, footer: Footer) -> Groups:
    """Return all row groups of a file."""
    features, columns = features_of(footer, file.path), []
    for node in footer.fields:
        with _naming(node, file, footer.groups):
            columns.append(column_of(node, file, footer, features))
    return Groups(footer.groups, tuple(columns), features)


def _table(file: File, groups: Groups, declared: Spec | None, shard: Shard) -> ShardIndex:
    """Return the table of some row groups, which is made column by column."""
    _check_density(groups, file)
    for column in groups.columns:
        if column.form == "decoded":  # before the columns that do not need it are read
            check_pyarrow(file, column.field.name)
    table = Table(file, groups, declared)
    for column in groups.columns:
        with _naming(column.node, file, groups.groups):
            table.add(column)
    table.finish()
    return table.index(CONTAINER.name, shard)


def _check_density(groups: Groups, file: File) -> None:
    """Refuse a table that would be far larger than the file: a page of some bytes can announce millions of nulls.

    Raises:
        FormatError: It has more values than files of its size usually have.
    """
    columns = sum(1 for column in groups.columns for _ in column.node.leaves())
    if groups.rows * columns > max(_ENOUGH_VALUES, _VALUES_PER_BYTE * file.size):
        raise FormatError(
            f"{groups.rows} rows of {columns} columns are announced in {file.size} "
            "bytes: a table of them would be far larger than the file",
            file.path,
            hint="if this is right, write the rows that have values, or fewer columns, with pyarrow",
        )


@contextmanager
def _naming(node: Node, file: File, groups: Sequence[RowGroup]) -> Iterator[None]:
    """Let errors of a column name it, and where it begins."""
    try:
        yield
    except (FilterError, ValueError) as error:
        message = f"column {node.name!r}: {error}"
        leaf, offset = next(node.leaves(), None), None
        if leaf is not None and groups:
            offset = groups[0].chunks[leaf.leaf].offset
        raise FormatError(message, file.path, offset, _HINT) from error


def _check_one_split(names: list[str], folder: str) -> None:
    splits = sorted({match["split"] for name in names if (match := _SPLIT.fullmatch(name))})
    if len(splits) > 1:
        pattern = f"{folder}/{splits[0]}-*.parquet"
        raise several(folder, "split", splits, f", or its files: bushel.open({pattern!r})")


class ChunkReader:
    """Reads a remote file, whose last bytes may have been read before.

    A read inside a column chunk that was added fetches the chunk, and any other one 64 KiB or more;
    these bytes are kept until the next time. A chunk in a run of rows is read as the pages that have
    these rows.
    """

    def __init__(self, file: File, tail: bytes = b"") -> None:
        self._file, self._spans = file, list[tuple[int, int]]()
        self.path, self.size, self.mtime_ns = file.path, file.size, file.mtime_ns
        self._tail, self._fetched = (file.size - len(tail), tail), (0, b"")

    def add_chunks(self, groups: Groups) -> None:
        """Let reads inside the chunks of row groups fetch them whole."""
        chunks = (chunk for group in groups.groups for chunk in group.chunks)
        self._spans = sorted(span for chunk in chunks for span in chunk.spans)

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent: see `File.read`."""
        for start, data in (self._fetched, self._tail):
            if start <= offset <= offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        start, stop = offset, max(offset + length, min(offset + TAIL, self.size))
        number = bisect_right(self._spans, offset, key=itemgetter(0)) - 1
        if number >= 0 and offset + length <= self._spans[number][1]:
            start, stop = self._spans[number]
        self._fetched = start, self._file.read(start, stop - start)
        return self.read(offset, length)


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
        for column in columns_in(base64.b64decode(encoded)):
            time, tensor, values = None, tensor_of(column), column.entries or column
            if values.type == Type.DURATION:
                time = time_codec(values)
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
    for place, text in _columns_of(shard.files[0]):
        if (name := place[1]) not in index.fields:
            texts = {text, *_columns_in_folders(shard.root).get(place, ())} - {_NULL}  # type: ignore[arg-type]
            whole = bool(texts) and all(map(_WHOLE.fullmatch, texts))
            codec = get_codec("int" if whole else "utf8")
            value = int(text) if whole and text != _NULL else text
            stored = None if text == _NULL else bytes(codec.encode(value))
            column = of_objects([None if stored is None else value] * index.samples)
            rows = np.zeros(index.samples, np.int64)
            index = with_values(index, Field(name, codec.name), [stored], column, rows)
    return index


def _columns_of(file: str) -> Iterator[tuple[tuple[int, str], str]]:
    """Yield the depth and the name of each column that the folders of a file hold, and its text."""
    for depth, folder in enumerate(file.split("/")[:-1]):
        name, sign, text = map(unquote, folder.partition("="))
        if sign:
            yield (depth, name), text


@lru_cache(maxsize=8)
def _columns_in_folders(root: AnyPath) -> dict[tuple[int, str], set[str]]:
    """Return the texts of each column in the folders of a dataset, which are listed once for all files."""
    texts: dict[tuple[int, str], set[str]] = {}
    for file in files_below(root, CONTAINER.suffixes):
        for place, text in _columns_of(file):
            texts.setdefault(place, set()).add(text)
    return texts
