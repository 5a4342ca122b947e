"""Labels and metadata of archives, as a folder of the same files has them: decided once, after all shards are open.

Fields keep the names of extensions, as everywhere in a tar. `_recognise.layout` has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from bushel._dataset.read.reader import Reader
from bushel._dataset.read.shards import OpenShard
from bushel._index.shard import Keys
from bushel._index.table import MISSING, ShardIndex
from bushel._recognise.layout import (
    LABEL,
    OUTSIDE,
    FolderLayout,
    has_media,
    labelled_media,
    layout_of,
    media_of_members,
)
from bushel._recognise.names import (
    class_folders,
    folders_of_splits,
    role_of,
    split_in,
    without_junk,
)
from bushel._runtime.arrays import I64, U32, offsets_of, ranges
from bushel._runtime.messages import log_warning
from bushel.containers.base import ReadOptions
from bushel.containers.folder import NAME_OF_MEDIA, layout_report, report_of, table_of_layout
from bushel.containers.folder_metadata import (
    METADATA,
    is_metadata,
    keys_of_rows,
    metadata_rows,
    with_columns,
    with_labels,
)
from bushel.errors import FormatError
from bushel.kernels import number_texts

from .discovery import find
from .sources import splits_of
from .tables import table_to_read

_TABLES = {name.partition(".")[2] for name in METADATA}


def as_folders(shards: list[OpenShard], declared: Collection[str]) -> list[OpenShard]:
    """Return shards of archives with the labels or the metadata that a folder of the same files has.

    Args:
        shards: The shards of a dataset.
        declared: Fields that the caller declares, which are read in any case.

    Raises:
        FormatError: Metadata are malformed, or name a file that does not exist.
    """
    indexes = [shard.index for shard in shards]
    has_photos = any(has_media(frozenset(index.fields)) for index in indexes)
    if not has_photos or not all(map(_is_plain, indexes)):
        return shards
    tables_of = [_tables_in(index) for index in indexes]
    if any(tables_of):
        pairs = zip(shards, tables_of, strict=True)
        return [_with_metadata(shard, tables) for shard, tables in pairs]
    try:
        joined = [] if declared else _joined(shards)
    except FormatError as error:
        log_warning("%s; each file is a sample", error)
        return shards
    if joined:
        return joined
    labels = _labels_of(shards, indexes, declared)
    if labels is None:
        return shards
    samples = sum(map(len, labels.rows))
    outside = sum(int(np.count_nonzero(numbers < 0)) for numbers in labels.numbers)
    others_left_out = sum(shard.samples for shard in shards) - samples
    kind = media_of_members(next(iter(labels.media))) or "file"
    counts = {"class": len(labels.classes), NAME_OF_MEDIA.get(kind, kind): samples - outside}
    left_out = {OUTSIDE: outside, "of another kind": others_left_out}
    report_of(shards[0].shard.path(0), counts, +Counter(left_out))()
    labelled = []
    for shard, rows, numbers_of_rows in zip(shards, labels.rows, labels.numbers, strict=True):
        inside = numbers_of_rows >= 0  # samples outside of classes are left out
        index = _taken(shard.index, rows[inside], labels.media)
        index = with_labels(index, numbers_of_rows[inside], labels.classes, sums=True)
        labelled.append(_changed(shard, index))
    return labelled


def _joined(shards: Sequence[OpenShard]) -> list[OpenShard]:
    """Return shards whose samples have files of several folders, as `images/` and `labels/` of YOLO.

    Returns:
        An empty list if any archive has other folders.

    Raises:
        FormatError: Folders are named like fields, and their files have other names.
    """
    joined = []
    for shard in shards:
        index, place = shard.index, shard.shard.path(0)
        folders = "".join(_folders_in(index, np.arange(index.samples)).names).split("/")
        if {"", "image"}.issuperset(map(role_of, folders)):
            return []
        row_of = {
            name: field_number * index.samples + row
            for field_number, field in enumerate(index.fields)
            for name, row in _files_of(index, field)
        }
        names, junk = without_junk(sorted(row_of))
        layout = layout_of(names, place=str(place))
        if "image" not in layout.fields or len(layout.fields) == 1:
            return []
        layout_report(place, layout, layout.fields, junk)()
        joined.append(_changed(shard, _table_of(index, layout, [row_of[name] for name in names])))
    return joined


def _table_of(index: ShardIndex, layout: FolderLayout, rows: Sequence[int]) -> ShardIndex:
    """Return the table of a layout, whose files have some rows of all fields, one after another."""
    extents = list(index.fields.values())
    columns = [(field.offset, field.length, field.checksums) for field in extents]
    offset, length, sums = map(np.concatenate, zip(*columns, strict=True))
    crc32 = sums if index.has_all_checksums else None
    files = replace(extents[0], offset=offset, length=length, crc32=crc32)
    table = ShardIndex(0, index.files, {}, index.container, blocks=index.blocks)
    return table_of_layout(layout, files.take(np.array(rows)), table)


class _Labels(NamedTuple):
    """The labels of the samples of archives, and which samples and fields have some."""

    media: Collection[str]  # the fields of media
    classes: list[str]  # the names of the classes
    rows: list[I64]  # of each archive: int64[n], the samples that have media
    numbers: list[I64]  # of each archive: int64[n], the class of each of them; -1 for none


def _labels_of(
    shards: Sequence[OpenShard], indexes: Sequence[ShardIndex], declared: Collection[str]
) -> _Labels | None:
    """Return the labels that the folders in the names of archives give; None if they give none."""
    media = _media_of(indexes)
    if not media or not set(declared) <= media:
        return None
    rows_of = [_rows_with(media, index) for index in indexes]
    folders = list(map(_folders_in, indexes, rows_of))
    class_of = _classes_of(folders)
    if not any(class_of.values()):
        return None
    classes = sorted({*class_of.values(), *_classes_in(_archives_beside(shards[0]))} - {""})
    number_of = {"": -1} | {name: number for number, name in enumerate(classes)}
    numbers = [
        np.array([number_of[class_of[name]] for name in folder.names], np.int64)[folder.numbers]
        for folder in folders
    ]
    return _Labels(media, classes, rows_of, numbers)


def _keys(index: ShardIndex, rows: I64) -> list[str]:
    assert index.keys is not None  # `_is_plain` has looked
    return index.keys.take(rows)


def _rows_with(media: Collection[str], index: ShardIndex) -> I64:
    """Return the rows of the samples that have a file of some fields."""
    present = np.zeros(index.samples, np.bool_)
    for name in media & index.fields.keys():
        present |= index.fields[name].present
    return np.flatnonzero(present)


def _is_plain(index: ShardIndex) -> bool:
    """Return whether a table has keys and files, and no labels of its own."""
    plain = all(extents.starts is None for extents in index.fields.values())
    return plain and index.keys is not None and not index.labels and LABEL not in index.fields


def _media_of(indexes: Sequence[ShardIndex]) -> set[str]:
    """Return the fields of media files that folders of classes may label; empty if samples have several files."""
    counts = Counter[str]()
    for index in indexes:
        for name, extents in index.fields.items():
            counts[name] += int(np.count_nonzero(extents.present))
    return labelled_media(counts, sum(index.samples for index in indexes))


class _Folders(NamedTuple):
    """The folders of the samples of an archive."""

    names: list[str]  # each once, with a slash at its end; empty for samples in none
    numbers: U32  # the number of the folder of each sample


def _folders_in(index: ShardIndex, rows: I64) -> _Folders:
    """Return the folders in the keys of some samples. No key is decoded: a million take a tenth of a second."""
    keys = index.keys
    assert keys is not None  # `_is_plain` has looked
    slashes = np.flatnonzero(keys.text == ord("/"))
    if not len(slashes):
        return _Folders([""], np.zeros(len(rows), np.uint32))
    start = keys.offsets[rows]
    last = np.searchsorted(slashes, keys.offsets[rows + 1]) - 1
    length = np.maximum(np.where(last < 0, 0, slashes[last] + 1 - start), 0)
    text = keys.text[ranges(start, length)]
    offsets = offsets_of(length)
    numbered = number_texts(text, offsets, len(rows))
    assert numbered is not None  # there are not more folders than samples
    numbers_of_folders, first = numbered
    names = [
        text[offsets[row] : offsets[row + 1]].tobytes().decode("utf-8", "surrogateescape")
        for row in first.tolist()
    ]
    return _Folders(names, numbers_of_folders)


def _classes_of(folders: Sequence[_Folders]) -> dict[str, str]:
    """Return the class of the samples in each folder of some archives; empty for folders without one."""
    counts = Counter[str]()
    for folder in folders:
        numbers_of_samples = np.bincount(folder.numbers, minlength=len(folder.names)).tolist()
        counts.update(dict(zip(folder.names, numbers_of_samples, strict=True)))
    sample_of = {f"{name}.": name for name in counts}  # one of each folder
    samples, _ = without_junk(list(sample_of))
    names = [sample_of[sample] for sample in samples]
    inside = bool(folders_of_splits(samples))
    classes = class_folders(samples, [counts[name] for name in names], inside=inside)
    return dict.fromkeys(counts, "") | dict(zip(names, classes, strict=True))


def _archives_beside(shard: OpenShard) -> list[ShardIndex]:
    """Return the tables of archives of other splits beside an archive, or its folder, that is named like one."""
    root, path = shard.shard.root, shard.shard.path(0)
    if not isinstance(root, Path) or not isinstance(path, Path):
        return []
    place, split = path, split_in(path.name, folder=False)
    if split is None:
        place, split = root, split_in(root.name, folder=True)
    if split is None:
        return []
    splits = splits_of(place.absolute().parent).paths
    beside = [Path(name) for other, names in splits.items() if other != split for name in names]
    if not beside:
        return []
    discovered = find(beside)
    if discovered.container != shard.container:
        return []
    return [
        table_to_read(shard.container, other, ReadOptions(), "auto").index
        for other in discovered.shards
    ]


def _classes_in(indexes: Sequence[ShardIndex]) -> set[str]:
    """Return the classes of archives of other splits."""
    if not all(map(_is_plain, indexes)):
        return set()
    media = _media_of(indexes)
    return set(
        _classes_of([_folders_in(index, _rows_with(media, index)) for index in indexes]).values()
    )


# Metadata


def _tables_in(index: ShardIndex) -> dict[str, int]:
    """Return the names of the tables of metadata in an archive of media, sorted, and the sample of each."""
    if not has_media(frozenset(index.fields)):
        return {}
    files = chain.from_iterable(_files_of(index, name) for name in _TABLES & index.fields.keys())
    return {name: row for name, row in sorted(files) if is_metadata(name)}


def _files_of(index: ShardIndex, extension: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each file with an extension in an archive, and its sample."""
    rows = np.flatnonzero(index.fields[extension].present)
    for row, key in zip(rows.tolist(), _keys(index, rows), strict=True):
        yield f"{key}.{extension}", row


class _Names(dict[str, tuple[int, str]]):
    """The sample and the field of each file of an archive, by its name, whose suffix has any case."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(_lowered(name))


def _lowered(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}{dot}{suffix.lower()}"


def _with_metadata(shard: OpenShard, tables: Mapping[str, int]) -> OpenShard:
    """Return a shard with a sample for each row of its tables of metadata; as it is without tables."""
    if not tables:
        return shard
    index, place = shard.index, str(shard.shard.path(0))
    with closing(Reader([shard])) as reader:

        def read(name: str) -> bytes:
            suffix = name.rpartition(".")[2]
            [sample] = reader.read(np.array([tables[name]], np.int64), {suffix: None}, decode=False)
            return bytes(sample[suffix])

        files = _Names(
            (name, (row, field))
            for field in filter(media_of_members, index.fields)
            for name, row in _files_of(index, field)
        )
        rows = metadata_rows(shard.shard.path(0), list(tables), files, read)
    named = [files[_lowered(row.file)] for row in rows]
    media = {field for _, field in named}
    if len({media_of_members(field) for field in media}) > 1:
        raise FormatError(
            f"the metadata name files of several kinds: {', '.join(sorted(media))}", place
        )
    taken = _taken(index, np.array([sample for sample, _ in named], np.int64), media)
    fields = {}
    for field, extents in taken.fields.items():
        is_named = np.array([name == field for _, name in named], np.bool_)
        fields[field] = replace(extents, length=np.where(is_named, extents.length, MISSING))
    keys = Keys.of(keys_of_rows([row.file for row in rows], shard.shard.path(0)))
    taken = with_columns(replace(taken, fields=fields, keys=keys), rows, place, sums=True)
    unnamed = index.samples - len(tables) - len({row for row, _ in named})
    report_of(place, {"sample": len(rows)}, +Counter({"without a row": unnamed}))()
    return _changed(shard, taken)


# Tables


def _changed(shard: OpenShard, index: ShardIndex) -> OpenShard:
    """Return a shard with another table, which no sidecar has."""
    fields = tuple(index.spec.values())
    return replace(
        shard,
        samples=index.samples,
        fields=fields,
        labels=index.labels,
        stored=False,
        recorded="",
        _index=index,
    )


def _taken(index: ShardIndex, rows: I64, names: Collection[str]) -> ShardIndex:
    """Return a table with some rows, and the fields of these names."""
    if len(rows) == index.samples and bool((rows == np.arange(len(rows))).all()):
        return replace(index.select([name for name in index.fields if name in names]), digest="")
    fields = {name: extents.take(rows) for name, extents in index.fields.items() if name in names}
    keys = Keys.of(_keys(index, rows))
    return ShardIndex(len(rows), index.files, fields, index.container, keys, blocks=index.blocks)
