"""Plain files of a folder, read in place: photos in folders of classes or with metadata; files that share names.

docs/folders.md has the rules, and `_recognise.layout` applies them. Every file is a block of one
block file, so a field may be in any number of files.
The table holds class numbers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import call
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from bushel._index.shard import FOLDER, REMOVED, FileStamps, Keys, Shard
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._recognise.layout import (
    LABEL,
    FileField,
    FolderLayout,
    codec_of_files,
    layout_of,
    media_of,
    suffix_of,
)
from bushel._recognise.names import counted, junk_kind, role_of, split_in
from bushel._runtime.messages import log_info, log_warning
from bushel._runtime.parallel import map_all
from bushel._runtime.threads import cpu_count
from bushel.errors import FormatError
from bushel.kernels import file_stamps
from bushel.spec import Field
from bushel.storage import AnyPath, absolute, names_in
from bushel.storage.files import leads_to_folder

from .base import Container, ReadOptions
from .facts import TABLES
from .folder_metadata import (
    Row,
    is_metadata,
    keys_of_rows,
    metadata_rows,
    tables_above,
    with_columns,
    with_labels,
)
from .kept_folder import FolderNames, blocks_of, keep_folder, names_below, watched

_AT_ONCE = 1 << 14  # files that a thread looks at before it takes others
_LOOKED_AT = 1000  # keys that are compared with others


class _Folder(Container):
    name = "folder"
    has_own_index = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the one shard of a folder with files of images, clips or sounds; None of any other folder or file."""
        if not path.is_dir():
            return None
        names = names_below(path)
        media = any(media_of(suffix_of(name)) for name in names if not is_metadata(name))
        if media:
            return [Shard(path, "", names)]
        return None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of the files: a block for each, and a sample for those that share a name."""
        names, classes = shard.files, classes_beside(shard.root)
        above = tables_above(absolute(shard.root))
        # only changes of files below the folder are noticed
        keeps = options.kept and options.spec is None and not above
        table = names.table if keeps and isinstance(names, FolderNames) else None
        if table is not None and classes.issubset(table.labels.get(LABEL, classes)):
            return table
        metadata = [name for name in names if is_metadata(name)]
        is_local = isinstance(shard.root, Path)
        seen = [watched(str(shard.root), name) for name in metadata if is_local]
        options.report(0)
        rows = metadata_rows(shard.root, metadata, set(names)) if metadata else []
        rows += _rows_above(shard, above)
        if metadata or rows:
            place = f"{shard.root}/{metadata[0]}" if metadata else f"{shard.root}/../{above[0]}"
            table = _with_metadata(shard, rows, place, _stamps(shard))
        else:
            # of many files, other threads look at them while one understands their names
            understand: Any = partial(
                layout_of, names, tuple(options.spec or ()), classes, str(shard.root)
            )
            threads = 2 if len(names) > _AT_ONCE else 1
            layout, stamps = map_all(call, (understand, partial(_stamps, shard)), threads=threads)
            table = _table_of(layout, shard, stamps)
            layout_report(shard.root, layout, layout.fields, junk_of(names))()
        if keeps and isinstance(names, FolderNames) and isinstance(shard.root, Path):
            keep_folder(shard.root, names, seen, table)
        return table


CONTAINER = _Folder()


def classes_beside(root: AnyPath) -> frozenset[str]:
    """Return the classes of the other splits beside a local folder that is named like one.

    So a class has one number in all splits, whichever is opened.
    """
    if not isinstance(root, Path) or split_in(root.name, folder=True) is None:
        return frozenset()
    with os.scandir(root.absolute().parent) as entries:
        splits = [
            entry.path
            for entry in entries
            if entry.name != root.name
            and split_in(entry.name, folder=True) is not None
            and leads_to_folder(entry)
        ]
    classes = set[str]()
    for folder in splits:
        with os.scandir(folder) as entries:
            classes.update(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and leads_to_folder(entry)
            )
    return frozenset(classes)


def has_removal_list(root: AnyPath) -> bool:
    """Return whether a folder of plain files has a list of removed samples."""
    return (root / FOLDER / REMOVED).is_file()


def junk_of(names: Sequence[str]) -> Counter[str]:
    """Return how many files of each kind of junk were left out of a listing."""
    if isinstance(names, FolderNames):
        return names.junk
    return Counter()


def layout_report(
    root: AnyPath, layout: FolderLayout, fields: Collection[str], junk: Counter[str]
) -> Callable[[], None]:
    """Return a function that logs how the files of a folder are understood, and which are left out."""
    named, notes = "sample", []
    if len(fields) == 1:
        named = NAME_OF_MEDIA.get(next(iter(fields)), named)
    else:
        notes.append(f"fields {', '.join(fields)}")
    counts = {"split": len(layout.splits), "class": len(layout.classes), named: len(layout.keys)}
    if layout.twins:
        notes.append(
            f"{layout.twins:,} have their whole names as "
            "keys, since others have the same without suffix"
        )
    mask = _named_after_another(layout.keys[:_LOOKED_AT])
    if mask:
        notes.append(
            f"{mask!r} is named after another file and a field, but each of them is a sample of "
            "its own: name both in the rows of a table (docs/references.md)"
        )
    # one alone is a class, such as the trains of CIFAR-100
    splits = [name for name in layout.classes if split_in(name, folder=True)][1:]
    if splits:
        notes.append(f"{splits[0]!r} is a class, as there is other data beside: is it a split?")
    left_out = junk + Counter(kind for _, kind in layout.left_out)
    return report_of(root, counts, left_out, notes, unusual=bool(layout.twins or mask or splits))


def _named_after_another(keys: Sequence[str]) -> str:
    """Return a key made of another key and the name of a field, `7_mask` beside `7`; empty without any."""
    all_keys = set(keys)
    for key in keys:
        stem, _, word = key.rpartition("_")
        if stem in all_keys and role_of(word):
            return key
    return ""


def report_of(
    place: object,
    counts: Mapping[str, int],
    left_out: Counter[str],
    notes: Iterable[str] = (),
    *,
    unusual: bool = False,
) -> Callable[[], None]:
    """Return a function that logs `2 splits, 50 classes, 5,000 images; left out: 3 files (2 ._*, 1 .txt)`.

    Args:
        place: The folder or archive.
        counts: How many there are of each, by name: a `class`.
        left_out: How many files are left out, by kind in words.
        notes: What else there is to know.
        unusual: Whether it is a warning, too, if nothing is left out.
    """
    several = {name: _PLURALS.get(name, f"{name}s") for name, count in counts.items() if count > 1}
    words = [f"{count:,} {several.get(name, name)}" for name, count in counts.items() if count]
    text = "; ".join([", ".join(words), *notes])
    if not left_out:
        return partial(log_warning if unusual else log_info, "%s: %s", place, text)
    kinds = [kind for kind in left_out if kind[0] == "." and " " not in kind]
    # which could be fields
    suffixes = sorted(kind[1:] for kind in kinds if not (junk_kind(kind) or junk_kind(f"{kind}/x")))
    text += f"; left out: {counted(left_out.items())}"
    for suffix in suffixes[:1]:
        text += f"; spec={{{suffix!r}: TYPE}} reads such files as a field"
        if f".{suffix}".endswith(TABLES):
            text += ", and bushel.open(FILE) the rows of one (docs/references.md)"
    return partial(log_warning, "%s: %s", place, text)


_PLURALS = {"class": "classes"}
NAME_OF_MEDIA = {"image": "image", "clip": "clip", "audio": "sound"}
"""How a report calls a file of a kind of media."""


def _table_of(layout: FolderLayout, shard: Shard, stamps: FileStamps) -> ShardIndex:
    """Return the table of a layout: its files are blocks."""
    blocks = blocks_of(stamps)
    files = FieldExtents(Field("", ""), "", len(stamps), blocks.start[:-1], blocks.length)
    table = ShardIndex(0, stamps, {}, CONTAINER.name, blocks=(blocks,))
    return table_of_layout(layout, files, table).check(str(shard.root))


def table_of_layout(layout: FolderLayout, files: FieldExtents, table: ShardIndex) -> ShardIndex:
    """Return the table of the samples of a layout. It holds the numbers of classes.

    Args:
        layout: The layout.
        files: Where each file is, by its number in the layout.
        table: The table of the files, without fields.
    """
    fields = {}
    for name, stored in layout.fields.items():
        numbers = np.array(stored.files, np.int64)
        extents = files.take(numbers)
        length = np.where(numbers < 0, MISSING, extents.length)
        # types that the caller declares come later: what files hold decides what they may be
        field = Field(name, stored.codec)
        fields[name] = replace(extents, field=field, codec=field.codec, length=length)
    table = replace(table, samples=len(layout.keys), fields=fields, keys=Keys.of(layout.keys))
    if layout.classes:
        return with_labels(table, np.array(layout.class_of, np.int64), layout.classes)
    return table


def _rows_above(shard: Shard, tables: Sequence[str]) -> list[Row]:
    """Return the rows of tables in the folder above a split that name files of the split; count the others."""
    if not tables:
        return []
    root = absolute(shard.root)
    before = f"{root.name}/"
    beside = {*names_in(root.parent)} - {root.name}
    inside = {before + name for name in shard.files}
    rows_of_all = metadata_rows(root.parent, tables, inside, others=beside)
    rows = [
        Row(row.file.removeprefix(before), row.values)
        for row in rows_of_all
        if row.file.startswith(before)
    ]
    log = log_info if rows else log_warning
    counts = len(rows), len(rows_of_all)
    log("%s: %d of %d rows of %s name its files", shard.root, *counts, " and ".join(tables))
    return rows


def _with_metadata(shard: Shard, rows: Sequence[Row], place: str, stamps: FileStamps) -> ShardIndex:
    """Return the table of files that metadata name: a sample for each row, whose columns are fields.

    Args:
        shard: The folder.
        rows: The rows.
        place: The first table of metadata, for errors.
        stamps: The files.

    Raises:
        FormatError: Rows name files of several kinds, or have a column that is called like the files.
    """
    number_of = {name: number for number, name in enumerate(shard.files)}
    numbers = [number_of[row.file] for row in rows]
    kinds = {media_of(suffix_of(row.file)) for row in rows}
    [kind] = kinds if len(kinds) == 1 else [None]
    if kind is None:
        shown = ", ".join(sorted(str(kind_of_files) for kind_of_files in kinds))
        raise FormatError(f"the metadata name files of several kinds: {shown}", place)
    unnamed = set(shard.files).difference(row.file for row in rows)
    media = sum(media_of(suffix_of(name)) is not None for name in unnamed)
    left_out = junk_of(shard.files) + Counter({"without a row": media})
    report_of(shard.root, {NAME_OF_MEDIA[kind]: len(rows)}, left_out)()
    codec = codec_of_files(kind, {suffix_of(row.file) for row in rows}) or "bytes"
    keys = keys_of_rows([row.file for row in rows], shard.root)
    layout = FolderLayout(keys, {kind: FileField(codec, numbers)})
    return with_columns(_table_of(layout, shard, stamps), rows, place)


def _stamps(shard: Shard) -> FileStamps:
    files, root = shard.files, shard.root
    sizes, times = np.full((2, len(files)), -1)
    if files and isinstance(root, Path):
        look = partial(file_stamps, folder=str(root))
        at_once = [files[first : first + _AT_ONCE] for first in range(0, len(files), _AT_ONCE)]
        sizes, times = np.hstack(map_all(look, at_once, threads=cpu_count()))
    for number in np.flatnonzero(sizes < 0).tolist():  # a file that is gone has its error here
        stat = shard.path(number).stat()
        sizes[number], times[number] = int(stat.st_size), int(stat.st_mtime_ns)
    return FileStamps(files, sizes, times)
