"""Datasets from a Parquet file that `Dataset.export_index` wrote. Nothing in it is trusted.

Names of files stay below the folder of the data: the folder of the Parquet file, or one that the caller names; files
must have the recorded sizes and stamps; and extents lie inside them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from bushel._dataset.open.caller_fields import CallerFields, warn_withheld
from bushel._dataset.open.declared import has_declared
from bushel._dataset.open.index_place import INDEX_FILE
from bushel._dataset.open.tables import bind, stamps_of
from bushel._dataset.read.each_shard import each_shard
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.remaining import remaining_in
from bushel._dataset.read.selection import Call, Remaining
from bushel._dataset.read.shards import OpenShard, union_of_fields
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.index_file import POSITION, VERSION, IndexFile, ShardEntry, column_name
from bushel._index.class_names import check_labels, labels_of_fields
from bushel._index.columns import NUMBERS, Column, Kind, numbers, of_texts
from bushel._index.file_struct import binaries_of, rows_of_structs
from bushel._index.sidecar import FOLDER
from bushel._index.table import FieldExtents, Keys, Shard, ShardIndex
from bushel._runtime.arrays import I64, U8
from bushel.codecs.registry import from_file
from bushel.containers import get_container
from bushel.errors import FormatError, SpecError, needed_by
from bushel.spec import KEY, Spec, parse_spec
from bushel.storage import AnyPath, as_path, below
from bushel.storage.names import leads_out

if TYPE_CHECKING:
    from bushel.storage.blocks import Blocks

_HINT = "export the index again: `bushel index DATASET --export FILE.parquet`"


def dataset_of_index_file(
    path: Path,
    data: object = None,
    container: str | None = None,
    *,
    spec: Spec | None = None,
    verify: bool | None = None,
    pickle: bool = False,
) -> Dataset:
    """Return the dataset of an exported index.

    Args:
        path: The Parquet file.
        data: The folder of the data, or a file in it; None for the place that the Parquet file names, if that is its
            own folder or below.
        container: The container that the data must have, if one is named.
        spec: The fields that the caller declares.
        verify: As for `open`.
        pickle: As for `open`.

    Raises:
        FormatError: The file is not an exported index, or is damaged; or a file of the data has changed since.
        FileNotFoundError: The file does not exist.
        MissingPackageError: pyarrow is not installed.
        SpecError: The data have another container, or are not read as `spec` declares.
    """
    exported = _read(path)
    if container not in (None, exported.head.container):
        raise SpecError(f"container={container!r}: {path} is the index of a dataset of {exported.head.container}")
    base = _base(path, exported.head.base, data)
    shards = [_shard(base, entry, path) for entry in exported.head.shards]
    place = {id(shard): number for number, shard in enumerate(shards)}
    asked = CallerFields(spec or {}, pickle)
    opened = each_shard(shards, lambda shard: _opened(exported, place[id(shard)], shard, asked))
    warn_withheld(union_of_fields(opened).values(), str(path))
    return Dataset((), reader=Reader(opened, verify=verify, remaining=_remaining(exported, opened)))


@dataclass(frozen=True, slots=True)
class _Exported:
    """An exported index that was read."""

    path: Path
    pa: Any  # the module pyarrow
    head: IndexFile
    fields: Spec
    labels: dict[str, tuple[str, ...]]  # field to the names of its classes
    file: Any
    ends: I64  # int64[row groups + 1], the row at which each row group begins, and the number of rows
    kept: I64  # int64[rows], the position of each row in the dataset with its removed samples
    starts: list[int]  # the position of the first sample of each shard, and the number of samples
    lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(self, begin: int, end: int) -> Any:
        """Return a table of some rows. Only their row groups are read."""
        if begin == end:
            return self.file.schema_arrow.empty_table()
        first = int(np.searchsorted(self.ends, begin, "right")) - 1
        last = int(np.searchsorted(self.ends, end, "left"))
        try:
            with self.lock:  # several threads open shards
                part = self.file.read_row_groups(range(first, last))
        except OSError as error:  # which is what pyarrow raises of damage, too
            raise FormatError(f"it cannot be read: {error}", file=str(self.path), hint=_HINT) from error
        return part.slice(begin - int(self.ends[first]), end - begin)


def _read(path: Path) -> _Exported:
    with needed_by("an exported index", "bushel[arrow]"):
        import pyarrow as pa
        import pyarrow.compute  # which `file_struct` uses
        import pyarrow.parquet as pq
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        head = _head(file.metadata)
        fields = parse_spec({name: kind for name, kind, _ in head.fields})
        labels = check_labels(head.labels)
        ends = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        starts = list(accumulate((entry.samples for entry in head.shards), initial=0))
        kept = _kept(file, head, starts[-1])
    except FileNotFoundError:
        raise
    except (pa.ArrowException, ValueError, SpecError, KeyError, OSError, RecursionError) as error:
        raise FormatError(f"not an exported index: {error}", file=str(path), hint=_HINT) from error
    return _Exported(path, pa, head, fields, labels, file, np.cumsum([0, *ends], dtype=np.int64), kept, starts)


def _head(metadata: Any) -> IndexFile:
    text = (metadata.metadata or {}).get(INDEX_FILE.encode())
    if text is None:
        raise ValueError(f"its footer has no {INDEX_FILE!r}")
    head = msgspec.json.decode(text, type=IndexFile)
    if head.version != VERSION:
        raise ValueError(f"it has version {head.version}; this Bushel knows {VERSION}")
    get_container(head.container)
    return head


def _kept(file: Any, head: IndexFile, total: int) -> I64:
    """Return the positions of the rows.

    Raises:
        ValueError: There are more or fewer rows than the metadata says, or they are not in order.
    """
    rows = file.metadata.num_rows
    if rows != total - head.removed:
        raise ValueError(f"it has {rows:,} rows for {total - head.removed:,} samples")
    if not head.removed:
        return np.arange(total, dtype=np.int64)
    column = file.read([POSITION])[POSITION]
    if column.null_count:
        raise ValueError(f"{POSITION} is null somewhere")
    kept = np.asarray(column.cast("int64"), np.int64)
    if len(kept) and (kept[0] < 0 or kept[-1] >= total or (np.diff(kept) <= 0).any()):
        raise ValueError(f"{POSITION} does not ascend from 0 to {total - 1}")
    return kept


def _base(path: Path, named: str, data: object) -> AnyPath:
    """Return the folder of all data."""
    if data is not None:
        given = as_path(data)
        return given.parent if isinstance(given, Path) and given.is_file() else given
    if named == ".":
        return path.parent
    if leads_out(named):
        raise FormatError(
            f"its data are in {named}, which is not below the folder of this file",
            file=str(path),
            hint=f"if you trust it, open it with bushel.open({named!r}, index={str(path)!r})",
        )
    return below(path.parent, named)


def _shard(base: AnyPath, entry: ShardEntry, path: Path) -> Shard:
    sidecars = entry.sidecars
    if sidecars.rsplit("/", 1)[-1] != FOLDER or leads_out(sidecars):
        raise FormatError(f"{sidecars!r} is not a folder of sidecars", file=str(path), hint=_HINT)
    root = below(base, entry.folder, any_text=True) if entry.folder else base
    shard = Shard(root, entry.name, tuple(file.name for file in entry.files), sidecars)
    if not entry.files or any(leads_out(name) for name in (*shard.files, *([entry.name] if entry.name else []))):
        raise FormatError(f"shard {entry.name!r} has no files in its folder", file=str(path), hint=_HINT)
    return shard


def _opened(exported: _Exported, number: int, shard: Shard, asked: CallerFields) -> OpenShard:
    """Return a shard with its table, if its files are as they were."""
    head, path = exported.head, exported.path
    entry = head.shards[number]
    try:
        files = bind(tuple(file.recorded for file in entry.files), stamps_of(shard), shard)
    except FormatError as error:
        place = f"if the data are elsewhere, name their place: bushel.open(DATA, index={str(path)!r})"
        raise FormatError(error.message, file=error.file, hint=f"put it back; or, {place}") from error
    if files is None:
        message = "the file has changed since the index was exported"
        raise FormatError(message, file=str(shard.path(0)), hint=_HINT)
    try:
        index = replace(_index(exported, number), files=files).check(str(path))
        _check_declared(index, asked.spec, path)
    except (exported.pa.ArrowException, ValueError, KeyError) as error:
        raise FormatError(f"shard {entry.name!r}: {error}", file=str(path), hint=_HINT) from error
    return OpenShard.of(head.container, shard, index, stored=False, asked=asked)


def _check_declared(index: ShardIndex, spec: Spec, path: Path) -> None:
    """Check that declared fields only need other codecs, since the values of an exported index are where it says."""
    for each in spec.values():
        if not has_declared(index, {each.name: each}):
            stored = index.fields.get(each.name)
            found = "it has no such field" if stored is None else f"it has the type {stored.field.type!r}"
            raise SpecError(
                f"spec={{{each.name!r}: {each.type!r}}} does not fit {path}, an exported index: {found}. Open the "
                "dataset itself with spec="
            )


def _index(exported: _Exported, number: int) -> ShardIndex:
    """Return the table of a shard. Removed samples have no values and an empty key."""
    head, pa = exported.head, exported.pa
    entry, first = head.shards[number], exported.starts[number]
    begin, end = np.searchsorted(exported.kept, [first, first + entry.samples])
    rows = np.full(entry.samples, -1, np.int64)
    rows[exported.kept[begin:end] - first] = np.arange(end - begin)
    taken = pa.array(rows, mask=rows < 0)
    part = exported.rows(int(begin), int(end)).take(taken)

    def array(name: str) -> Any:
        return pa.concat_arrays(part[name].chunks or [pa.array([], part[name].type)])

    uris = {uri: place for place, uri in enumerate(entry.uris(head.base))}
    sizes = [file.size for file in entry.files]
    fields: dict[str, FieldExtents] = {}
    blocks: list[Blocks] = []
    for name, _, codec in head.fields:
        own = rows_of_structs(pa, array(column_name(name, head.all_columns)), uris, sizes)
        if (own.starts is not None) != exported.fields[name].sequence:
            raise ValueError(f"field {name!r} is a sequence in the spec or in the table, not in both")
        file = own.file
        if own.blocks is not None:
            file = len(entry.files) + len(blocks)
            blocks.append(own.blocks)
        arrays = (own.offset, own.length, own.crc32, own.starts, own.absent)
        fields[name] = FieldExtents(exported.fields[name], from_file(codec), file, *arrays)
    keys = Keys.build(*_text(pa, array(KEY))) if entry.keyed else None
    columns = {name: _column(pa, array(name), kind) for name, kind in head.columns.items()}
    labels = labels_of_fields(exported.labels, fields)
    stamps = tuple(file.recorded for file in entry.files)
    return ShardIndex(entry.samples, stamps, fields, head.container, keys, labels, columns, tuple(blocks))


def _text(pa: Any, array: Any) -> tuple[U8, I64]:
    """Return texts as bytes and int64[rows + 1] offsets; nulls are empty."""
    text, offsets = binaries_of(array.cast(pa.large_binary()))
    return text[offsets[0] : offsets[-1]].copy(), offsets - offsets[0]


def _column(pa: Any, array: Any, kind: str) -> Column:
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if kind == "text":
        text = array.cast(pa.large_string())
        text.validate(full=True)
        return of_texts(*_text(pa, text), missing)
    if kind not in NUMBERS:
        raise ValueError(f"a column is of the kind {kind!r}, which this Bushel does not know")
    dtype = NUMBERS[kind]
    own: Kind = kind  # type: ignore[assignment]  # one of its values, as NUMBERS has it
    return numbers(own, np.asarray(array.fill_null(dtype(0).item()), dtype), missing)


def _remaining(exported: _Exported, shards: list[OpenShard]) -> Remaining | None:
    """Return the positions that remain: without those that the file leaves out, and those that are removed now."""
    now = remaining_in(shards)
    if not exported.head.removed:
        return now
    total = exported.starts[-1]
    gone = np.ones(total, np.bool_)
    gone[exported.kept] = False
    left_out = np.flatnonzero(gone).astype(np.int64)
    listed = np.zeros(0, np.int64) if now is None else now.removed
    if now is not None and np.isin(left_out, listed).all():
        return now
    by = (*(() if now is None else now.by), Call(f"left out of {exported.path.name}", 0))
    positions = np.union1d(left_out, listed)
    calls = np.full(len(positions), len(by) - 1, np.uint32)
    if now is not None:
        calls[np.searchsorted(positions, listed)] = now.calls
    return Remaining.of(total, positions, calls, by)
