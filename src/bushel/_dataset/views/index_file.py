"""The index of a dataset as a Parquet file that other programs query, and datasets that are made again from it.

docs/index-file.md specifies the file. Its rows are `__key__`, a struct per field (`file_struct`), and the columns; its
metadata `bushel.index` (`INDEX_FILE`) lists the shards with the sizes and stamps of their files.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from bushel._dataset.open.index_place import INDEX_FILE, SUFFIX
from bushel._dataset.read.columns import part_of
from bushel._dataset.read.shards import OpenShard
from bushel._index.arrow import keys_array, values_array
from bushel._index.file_struct import has_inline, struct_type, structs_of
from bushel._index.sidecar import FOLDER
from bushel._index.table import FileStamp
from bushel.errors import SpecError, UnsupportedError, needed_by
from bushel.spec import KEY
from bushel.storage import as_path, is_object, replacing

if TYPE_CHECKING:
    from bushel._dataset.views.column_values import ColumnValues

POSITION = "__position__"
"""The column of the positions of samples, if some were removed."""

VERSION = 1
_ROWS = 1 << 20  # rows of a row group, at most
_Size = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class FileEntry(msgspec.Struct, frozen=True, array_like=True):
    """A file of a shard: name below the shard's folder, size in bytes, time in nanoseconds, and stamp."""

    name: str
    size: _Size
    mtime_ns: int
    stamp: int | None

    @property
    def recorded(self) -> FileStamp:
        """The file as a table records it."""
        return FileStamp(self.name, self.size, self.mtime_ns, self.stamp)


class ShardEntry(msgspec.Struct, frozen=True):
    """A shard: its folder below the base, name, folder of sidecars, number of samples, whether keyed, and files."""

    folder: str
    name: str
    sidecars: str
    samples: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    keyed: bool
    files: list[FileEntry]

    def uris(self, base: str) -> list[str]:
        """Return the URI of each file, given the URI of the base."""
        names = ["/".join(part for part in (self.folder, file.name) if part) for file in self.files]
        return [name if base == "." else f"{base.rstrip('/')}/{name}" for name in names]


class IndexFile(msgspec.Struct, frozen=True):
    """The metadata of the file."""

    version: int  # version of its layout
    container: str  # name of the container
    base: str  # the folder of the data: relative to the folder of the file (`.` for the same one), absolute, or a URL
    fields: list[tuple[str, str, str]]  # name, type and codec of the stored bytes of each field
    labels: dict[str, list[str]]  # field to the names of its classes
    columns: dict[str, str]  # names of the columns that are read back, to their kinds
    shown: list[str]  # names of the other columns, whose values are of several types
    shards: list[ShardEntry]  # the shards in order
    removed: _Size = 0  # number of samples that were removed; `__position__` says which are left

    @property
    def all_columns(self) -> frozenset[str]:
        """Names of all columns of values."""
        return frozenset([*self.columns, *self.shown])


def column_name(field: str, columns: Container[str]) -> str:
    """Return the name of a field's structs, which differs from the name of a column of values."""
    return f"{field}.extent" if field in columns else field


@dataclass(frozen=True, slots=True)
class _Layout:
    """The properties that all row groups share."""

    head: IndexFile
    columns: Mapping[str, Any]  # the columns of values, of all samples
    inline: frozenset[str]  # fields with values that lie in no file
    keys: Sequence[Any]  # the keys of each shard, an array of all its samples

    def structs_name(self, field: str) -> str:
        """Return the name of the column of a field's structs."""
        return column_name(field, self.columns)


def export_index(dataset: ColumnValues, path: str | os.PathLike[str]) -> Path:
    """Write the index of a dataset as a Parquet file: see `Dataset.export_index`."""
    with needed_by("export_index", "bushel[arrow]"):
        import pyarrow as pa
        import pyarrow.compute  # which `file_struct` uses
        import pyarrow.parquet as pq
    place = as_path(path)
    if not isinstance(place, Path) or place.suffix != SUFFIX:
        raise ValueError(f"{path}: the index is exported to a local file whose name ends in .parquet")
    layout = _layout(pa, dataset, place)
    schema = None
    with replacing(place) as file:
        writer = None
        for table in _tables(pa, dataset, layout):
            if writer is None:
                schema = table.schema.with_metadata({INDEX_FILE: msgspec.json.encode(layout.head)})
                writer = pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
            writer.write_table(table.cast(schema), row_group_size=_ROWS)
        if writer is not None:
            writer.close()
    return place


def _layout(pa: Any, dataset: ColumnValues, place: Path) -> _Layout:
    reader = dataset._reader
    shards = list(reader.shards)
    _check_whole(dataset, shards)
    base, folders = _base(shards, place)
    _check_place(place, shards)
    codecs: dict[str, str] = {}
    for each in shards:
        for name, own in each.index.fields.items():
            if codecs.setdefault(name, own.codec) != own.codec:
                raise UnsupportedError(
                    f"the field {name!r} is stored as {codecs[name]} in one shard and as {own.codec} in "
                    f"{each.shard.name}: export the index of each dataset"
                )
    own_fields = tuple(f"{name}." for name in dataset.spec)
    columns = [name for name in dataset.columns if f"{name}.".startswith(own_fields)]
    names = [column_name(name, columns) for name in dataset.spec]
    if len({*names, *columns, KEY, POSITION}) < len(names) + len(columns) + 2:
        raise SpecError("two columns of the file would have the same name: rename a field with `bushel convert`")
    kinds: dict[str, str] = {}
    for name in columns:
        found = [each.index.columns.get(name) for each in shards]
        if all(one is not None and one.types is None for one in found):
            different = {one.kind for one in found if one is not None}
            if len(different) == 1:
                kinds[name] = different.pop()
    entries = [
        ShardEntry(folder, each.shard.name, each.shard.sidecars, each.samples, each.keyed, _files(each))
        for folder, each in zip(folders, shards, strict=True)
    ]
    fields = [(name, kind, codecs.get(name, kind.removesuffix("[]"))) for name, kind in dataset.spec.items()]
    labels = {name: list(own) for name, own in dataset.labels.items()}
    removed = 0 if reader.remaining is None else len(reader.remaining.removed)
    shown = [name for name in columns if name not in kinds]
    inline = frozenset(
        name
        for name in dataset.spec
        if any(name in each.index.fields and has_inline(each.index, each.index.fields[name]) for each in shards)
    )
    head = IndexFile(VERSION, shards[0].container, base, fields, labels, kinds, shown, entries, removed)
    values = {name: values_array(pa, part_of(reader, dataset._selection.positions, name)) for name in columns}
    return _Layout(head, values, inline, _keys(pa, shards))


def _keys(pa: Any, shards: Sequence[OpenShard]) -> list[Any]:
    """Return the keys of each shard, all of one type; nulls for samples without keys."""
    found = [None if each.index.keys is None else keys_array(pa, each.index.keys) for each in shards]
    kinds = [each.type for each in found if each is not None]
    kind = pa.large_binary() if pa.large_binary() in kinds else pa.large_string()
    return [
        pa.nulls(shard.samples, kind) if each is None else each.cast(kind)
        for shard, each in zip(shards, found, strict=True)
    ]


def _check_whole(dataset: ColumnValues, shards: Sequence[OpenShard]) -> None:
    """Raise an `UnsupportedError` if a table of extents cannot stand for this dataset."""
    reader, own = dataset._reader, dataset._selection.positions
    problem = None
    if reader.windows is not None or reader.sides:
        problem = "the index of windows or of a join is not exported: export the indexes of their datasets"
    elif not (own is reader.whole or (isinstance(own, range) and own == reader.whole)):
        problem = "the index of a view is not exported: export the dataset's index, and save the view (Dataset.save)"
    elif not shards or len({each.container for each in shards}) != 1:
        problem = "the index of a dataset of several containers is not exported: export the indexes of its parts"
    elif reader.incomplete is not None or any(each.damage is not None for each in shards):
        problem = "the dataset is incomplete or damaged: `bushel repair` it, and export the index of the result"
    elif any(each.section is not None for each in shards):
        problem = "the dataset has no index: run `bushel index` on it"
    elif any(field.codec.endswith("(url)") for each in shards for field in each.fields):
        problem = "fields of URLs that the caller declares are not exported: leave out spec="
    if problem is not None:
        raise UnsupportedError(problem)


def _files(each: OpenShard) -> list[FileEntry]:
    return [FileEntry(one.name, one.size, one.mtime_ns, one.crc32) for one in each.index.files]


def _base(shards: Sequence[OpenShard], place: Path) -> tuple[str, list[str]]:
    """Return the folder of all data as the file names it, and the folder of each shard below that."""
    roots = [str(each.shard.root) for each in shards]
    if not all(isinstance(each.shard.root, Path) for each in shards):
        if len(set(roots)) > 1 or not is_object(shards[0].shard.root):
            raise UnsupportedError("the shards are in several remote folders: export the index of each")
        return roots[0].rstrip("/"), [""] * len(roots)
    real = [os.path.realpath(root) for root in roots]
    whole, near = os.path.commonpath(real), os.path.realpath(place.parent)
    folders = [Path(os.path.relpath(root, whole)).as_posix() for root in real]
    inside = whole == near or whole.startswith(near.rstrip(os.sep) + os.sep)
    base = Path(os.path.relpath(whole, near) if inside else whole).as_posix()
    return base, ["" if folder == "." else folder for folder in folders]


def _check_place(place: Path, shards: Sequence[OpenShard]) -> None:
    """Raise a `ValueError` if the file would be read as data of the dataset."""
    near = os.path.realpath(place.parent)
    for root in {str(each.shard.root): each.shard.root for each in shards}.values():
        if not isinstance(root, Path):
            continue
        whole = len(shards) > 1 or not shards[0].shard.name or (root / FOLDER / "manifest.json").exists()
        real = os.path.realpath(root)
        if whole and (near == real or near.startswith(real + os.sep)):
            raise ValueError(f"{place} is in the folder of the dataset, where it would be read as data: write it "
                             f"beside that folder")  # fmt: skip


def _tables(pa: Any, dataset: ColumnValues, layout: _Layout) -> Iterator[Any]:
    """Yield the rows of each shard, in pieces; at least one piece."""
    reader, first, done = dataset._reader, 0, 0
    for each, entry, keys in zip(reader.shards, layout.head.shards, layout.keys, strict=True):
        uris = entry.uris(layout.head.base)
        arrays = {layout.structs_name(name): _structs(pa, each, name, uris, layout) for name in dataset.spec}
        kept = np.arange(each.samples, dtype=np.int64)
        if reader.remaining is not None:
            own = reader.remaining.removed
            begin, end = np.searchsorted(own, [first, first + each.samples])
            kept = np.delete(kept, own[begin:end] - first)
        for start in range(0, max(len(kept), 1), _ROWS):
            rows = kept[start : start + _ROWS]
            taken = pa.array(rows)
            columns: dict[str, Any] = {KEY: keys.take(taken)}
            if reader.remaining is not None:
                columns[POSITION] = pa.array(rows + first)
            columns |= {name: array.take(taken) for name, array in arrays.items()}
            columns |= {name: array.slice(done, len(rows)) for name, array in layout.columns.items()}
            yield pa.table(columns)
            done += len(rows)
        first += each.samples


def _structs(pa: Any, each: OpenShard, name: str, uris: Sequence[str], layout: _Layout) -> Any:
    extents = each.index.fields.get(name)
    if extents is not None:
        return structs_of(pa, each.index, extents, uris, inline=name in layout.inline, name=str(each.path(0)))
    kind = struct_type(pa, inline=name in layout.inline)
    sequence = any((own, type_[-2:]) == (name, "[]") for own, type_, _ in layout.head.fields)
    return pa.nulls(each.samples, pa.large_list(kind) if sequence else kind)
