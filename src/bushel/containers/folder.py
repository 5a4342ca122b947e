"""Plain files of a folder, read where they lie: photos in folders of classes or with metadata; files that share names.

docs/folders.md has the rules, and `_recognise.layout` applies them. Every file is a block of one block file, so a field
may lie in any number of files.
The table holds class numbers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bushel._index.columns import Column, numbers
from bushel._index.file_stamps import FileStamps
from bushel._index.table import MISSING, FieldExtents, Keys, Shard, ShardIndex
from bushel._recognise.junk import counted
from bushel._recognise.layout import LABEL, FolderLayout, codec_of_files, layout_of, media_of, suffix_of, unique_keys
from bushel._recognise.splits import split_in
from bushel._runtime.arrays import I64, U8, joined
from bushel._runtime.log import log_info, log_warning
from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions
from bushel.containers.folder_metadata import METADATA, metadata_rows, values_of
from bushel.containers.kept_folder import FolderNames, blocks_of, keep_folder, names_below, watched
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath, Blocks, leads_out


@dataclass(frozen=True, slots=True)
class _Folder:
    name: str = "folder"
    suffixes: tuple[str, ...] = ()

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the one shard of a folder with files of images, clips or sounds; None of any other folder or file."""
        if not path.is_dir():
            return None
        names = names_below(path)
        media = any(media_of(suffix_of(name)) for name in names if not is_metadata(name))
        return [Shard(path, "", names)] if media else None

    def has_own_index(self, shard: Shard) -> bool:
        """Return True: the list of the folder is the index."""
        return True

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of the files: a block for each, and a sample for those that share a name."""
        names, keeps = shard.files, options.kept and options.spec is None
        classes = classes_beside(shard.root)
        table = names.table if keeps and isinstance(names, FolderNames) else None
        if table is not None and classes.issubset(table.labels.get(LABEL, classes)):
            return table
        metadata = [name for name in names if is_metadata(name)]
        seen = [watched(str(shard.root), name) for name in metadata] if isinstance(shard.root, Path) else []
        stamps = _stamps(shard)
        if options.report is not None:
            options.report(0)
        if metadata:
            table = _with_metadata(shard, metadata, stamps, options)
        else:
            layout = layout_of(names, tuple(options.spec or ()), classes, str(shard.root))
            table = _table_of(layout, shard, stamps, options)
            report_layout(shard.root, layout, names.junk if isinstance(names, FolderNames) else Counter())
        if keeps and isinstance(names, FolderNames) and isinstance(shard.root, Path):
            keep_folder(shard.root, names, seen, table)
        return table


CONTAINER = _Folder()


def is_metadata(name: str) -> bool:
    """Return whether a file has the name of a table of metadata."""
    return name.endswith(METADATA) and name.rpartition("/")[2] in METADATA


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
            if entry.name != root.name and split_in(entry.name, folder=True) is not None and entry.is_dir()
        ]
    classes = set[str]()
    for folder in splits:
        with os.scandir(folder) as entries:
            classes.update(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    return frozenset(classes)


def report_layout(root: AnyPath, layout: FolderLayout, junk: Counter[str]) -> None:
    """Log how the files of a folder were understood, and which are left out."""
    kinds = junk + Counter(kind for _, kind in layout.left_out)
    named = "sample" if len(layout.fields) != 1 else _WORDS.get(next(iter(layout.fields)), "sample")
    counts = [
        (len(layout.splits), "split", "splits"),
        (len(layout.classes), "class", "classes"),
        (len(layout.keys), named, f"{named}s"),
    ]
    parts = [f"{count:,} {singular if count == 1 else several}" for count, singular, several in counts if count]
    if len(layout.fields) != 1:
        parts.append(f"fields {', '.join(layout.fields)}")
    words = ", ".join(parts)
    if layout.twins:
        words += f"; {layout.twins:,} have their whole names as keys, since others have the same without suffix"
    if not kinds and not layout.twins:
        log_info("%s: %s", root, words)
        return
    suffixes = {kind[1:] for _, kind in layout.left_out if kind[0] == "." and " " not in kind}
    advice = f"; spec={{{next(iter(sorted(suffixes)))!r}: TYPE}} reads such files as a field" if suffixes else ""
    left_out = f"; left out: {counted(kinds.items())}{advice}" if kinds else ""
    log_warning("%s: %s%s", root, words, left_out)


_WORDS = {"image": "image", "clip": "clip", "audio": "sound"}


def _table_of(layout: FolderLayout, shard: Shard, stamps: FileStamps, options: ReadOptions) -> ShardIndex:
    """Return the table of a layout: its files are blocks, and the numbers of classes lie in the table."""
    blocks, number_columns = [blocks_of(stamps)], dict[str, Column]()
    columns = {
        name: _extents(_declared(Field(name, stored_files.codec), options), stored_files.files, blocks[0], len(stamps))
        for name, stored_files in layout.fields.items()
    }
    if layout.classes:
        classes = np.array(layout.class_of, np.int64)
        places, values = _numbered(classes, layout.classes)
        columns[LABEL] = FieldExtents(Field(LABEL, "int"), "int", len(stamps) + 1, *places)
        number_columns[LABEL] = numbers("int", classes)
        blocks.append(Blocks.in_table(values))
    labels = {LABEL: layout.classes} if layout.classes else {}
    keys = Keys.of(layout.keys)
    table = ShardIndex(
        len(layout.keys), stamps, columns, CONTAINER.name, keys, labels, columns=number_columns, blocks=tuple(blocks)
    )
    return table.check(str(shard.root))


def _with_metadata(shard: Shard, metadata: Sequence[str], stamps: FileStamps, options: ReadOptions) -> ShardIndex:
    """Return the table of files that metadata name: a sample for each row, whose columns are fields."""
    number_of = {name: number for number, name in enumerate(shard.files)}
    place = str(shard.path(number_of[metadata[0]]))
    rows = metadata_rows(shard.root, metadata, number_of)
    numbers = [number_of[row.file] for row in rows]
    kinds = {media_of(suffix_of(row.file)) for row in rows}
    [kind] = kinds if len(kinds) == 1 else [None]
    if kind is None:
        shown = ", ".join(sorted(str(kind_of_files) for kind_of_files in kinds))
        raise FormatError(f"the metadata name files of several kinds: {shown}", file=place)
    named = set(numbers)
    files = enumerate(shard.files)
    if unnamed := sum(1 for number, name in files if number not in named and media_of(suffix_of(name))):
        log_warning("%s: the metadata do not name %d of its files, which are not read", shard.root, unnamed)
    blocks = [blocks_of(stamps)]
    codec = codec_of_files(kind, {suffix_of(row.file) for row in rows}) or "bytes"
    field = _declared(Field(kind, codec), options)
    columns = {kind: _extents(field, numbers, blocks[0], len(stamps))}
    values = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        if name == kind:
            raise FormatError(f"the metadata have a column {name!r}, as the files", file=place)
        stored = values_of(name, rows, place)
        blocks.append(Blocks.in_table(stored.data))
        number = len(stamps) + len(blocks) - 1
        columns[name] = FieldExtents(Field(name, stored.codec), stored.codec, number, stored.offset, stored.length)
        if stored.column is not None:
            values[name] = stored.column
    keys = Keys.of(_keys_of_rows([row.file for row in rows], shard.root))
    table = ShardIndex(len(rows), stamps, columns, CONTAINER.name, keys, columns=values, blocks=tuple(blocks))
    return table.check(str(shard.root))


def _keys_of_rows(files: Sequence[str], root: AnyPath) -> list[str]:
    """Return the keys of rows: the names of their files without suffix, numbered where a file has several rows."""
    counts = Counter(files)
    names = list(counts)
    key_of = dict(zip(names, unique_keys([os.path.splitext(name)[0] for name in names], names)[0], strict=True))
    if len(names) == len(files):
        return [key_of[name] for name in files]
    repeated = sum(count > 1 for count in counts.values())
    log_warning("%s: %d files have several rows: the keys of these samples end in #0, #1, …", root, repeated)
    numbers, keys = Counter[str](), list[str]()
    for name in files:
        keys.append(key_of[name] if counts[name] == 1 else f"{key_of[name]}#{numbers[name]}")
        numbers[name] += 1
    return keys


def _stamps(shard: Shard) -> FileStamps:
    files, root = shard.files, shard.root
    if isinstance(root, Path):
        paths = (str(shard.path(number)) if leads_out(name) else f"{root}/{name}" for number, name in enumerate(files))
        sizes_and_times = [(stat.st_size, stat.st_mtime_ns) for stat in map(os.stat, paths)]
    else:
        stats = (shard.path(number).stat() for number in range(len(files)))
        sizes_and_times = [(int(stat.st_size), int(stat.st_mtime_ns)) for stat in stats]
    return FileStamps(files, *np.array(sizes_and_times, np.int64).reshape(-1, 2).T.copy())


def _declared(field: Field, options: ReadOptions) -> Field:
    declared = (options.spec or {}).get(field.name)
    return field if declared is None or declared.sequence else declared


def _extents(field: Field, rows: Sequence[int], blocks: Blocks, number: int) -> FieldExtents:
    files = np.array(rows, np.int64)
    present = files >= 0
    offset = np.where(present, blocks.start[np.maximum(files, 0)], 0)
    length = np.where(present, blocks.length[np.maximum(files, 0)], MISSING)
    return FieldExtents(field, field.codec, number, offset, length)


def _numbered(classes: I64, labels: Sequence[str]) -> tuple[tuple[I64, I64], U8]:
    """Return where the stored number of each sample's class lies in the bytes of all numbers, and these bytes."""
    encode = get_codec("int").encode
    stored = [bytes(encode(number)) for number in range(len(labels))]
    data, ends = joined(stored)
    return (ends[classes], np.diff(ends)[classes]), data
