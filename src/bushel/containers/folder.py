"""Plain files of a folder, read where they lie: photos in folders of classes or with metadata; files that share names.

docs/format-folder.md has the rules. Every file is a block of one block file, so a field may lie in any number of files.
The table holds class numbers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from bushel._index.columns import Column, numbers
from bushel._index.file_stamps import FileStamps
from bushel._index.table import MISSING, FieldExtents, Keys, Shard, ShardIndex
from bushel._runtime.arrays import I64, U8, joined
from bushel._runtime.log import log_warning
from bushel.codecs import codec_of_extension, get_codec, holds_clip, holds_image, holds_sound
from bushel.containers.base import ReadOptions
from bushel.containers.folder_metadata import METADATA, metadata_rows, values_of
from bushel.containers.kept_folder import FolderNames, blocks_of, keep_folder, names_below, watched
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath, Blocks, leads_out

_KINDS = (("image", holds_image, "image"), ("clip", holds_clip, None), ("audio", holds_sound, None))
_LABEL = "label"


@dataclass(frozen=True, slots=True)
class _Folder:
    name: str = "folder"
    suffixes: tuple[str, ...] = ()

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the one shard of a folder with files of images, clips or sounds; None of any other folder or file."""
        if not path.is_dir():
            return None
        names = names_below(path)
        media = any(_media(name) for name in names if not _is_metadata(name))
        return [Shard(path, "", names)] if media else None

    def has_own_index(self, shard: Shard) -> bool:
        """Return True: the list of the folder is the index."""
        return True

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of the files: a block for each, and a sample for those that share a name."""
        names, keeps = shard.files, options.kept and options.spec is None
        if keeps and isinstance(names, FolderNames) and names.table is not None:
            return names.table
        metadata = [name for name in names if _is_metadata(name)]
        seen = [watched(str(shard.root), name) for name in metadata] if isinstance(shard.root, Path) else []
        stamps = _stamps(shard)
        if metadata:
            table = _with_metadata(shard, metadata, stamps, options)
        else:
            table = self._without_metadata(shard, stamps, options)
        if keeps and isinstance(names, FolderNames) and isinstance(shard.root, Path):
            keep_folder(shard.root, names, seen, table)
        return table

    def _without_metadata(self, shard: Shard, stamps: FileStamps, options: ReadOptions) -> ShardIndex:
        samples: dict[str, dict[str, int]] = {}
        for number, name in enumerate(shard.files):
            stem, extension = _split(name)
            own = samples.setdefault(stem, {})
            if extension in own:
                raise FormatError(f"two files of sample {stem!r} differ in case only", file=str(shard.path(number)))
            own[extension] = number
        if options.report is not None:
            options.report(0)
        samples = _without_others(shard, samples, options)
        keys = sorted(samples)
        fields, labels = _fields(keys, samples, options)
        blocks, known = [blocks_of(stamps)], dict[str, Column]()
        columns = {name: _extents(field, rows, blocks[0], len(stamps)) for name, (field, rows) in fields.items()}
        if labels:
            classes = _classes(keys, labels)
            places, values = _numbered(classes, labels)
            field = Field(_LABEL, "int")
            columns[_LABEL] = FieldExtents(field, "int", len(stamps) + 1, *places)
            known[_LABEL] = numbers("int", classes)
            blocks.append(Blocks.in_table(values))
        table = ShardIndex(
            len(keys),
            stamps,
            columns,
            self.name,
            Keys.of(keys),
            {_LABEL: labels} if labels else {},
            columns=known,
            blocks=tuple(blocks),
        )
        return table.check(str(shard.root))


CONTAINER = _Folder()


def _with_metadata(shard: Shard, metadata: Sequence[str], stamps: FileStamps, options: ReadOptions) -> ShardIndex:
    """Return the table of files that metadata name: a sample for each row, whose columns are fields."""
    number_of = {name: number for number, name in enumerate(shard.files)}
    place = str(shard.path(number_of[metadata[0]]))
    rows = metadata_rows(shard.root, metadata)
    if options.report is not None:
        options.report(0)
    numbers = [number_of.get(row.file, -1) for row in rows]
    if -1 in numbers:
        missing = rows[numbers.index(-1)].file
        raise FormatError(f"the metadata name {missing!r}, which does not exist", file=place)
    kinds = {_media(row.file) for row in rows}
    [kind] = kinds if len(kinds) == 1 else [None]
    if kind is None:
        shown = ", ".join(sorted(str(each) for each in kinds))
        raise FormatError(f"the metadata name files of several kinds: {shown}", file=place)
    named = set(numbers)
    if others := sum(1 for number, name in enumerate(shard.files) if number not in named and _media(name)):
        log_warning("%s: the metadata do not name %d of its files, which are not read", shard.root, others)
    blocks = [blocks_of(stamps)]
    field = _declared(Field(kind, _codec_of(kind, {_split(row.file)[1] for row in rows})), options)
    columns = {kind: _extents(field, numbers, blocks[0], len(stamps))}
    values = {}
    for name in dict.fromkeys(name for row in rows for name in row.values):
        if name == kind:
            raise FormatError(f"the metadata have a column {name!r}, as the files", file=place)
        own = values_of(name, rows, place)
        blocks.append(Blocks.in_table(own.data))
        number = len(stamps) + len(blocks) - 1
        columns[name] = FieldExtents(Field(name, own.codec), own.codec, number, own.offset, own.length)
        if own.column is not None:
            values[name] = own.column
    keys = Keys.of(_split(row.file)[0] for row in rows)
    table = ShardIndex(len(rows), stamps, columns, CONTAINER.name, keys, columns=values, blocks=tuple(blocks))
    return table.check(str(shard.root))


def _is_metadata(name: str) -> bool:
    return name.endswith(METADATA) and name.rpartition("/")[2] in METADATA


def _split(name: str) -> tuple[str, str]:
    """Return the key of a file, which ends before the first dot of its name, and the rest without this dot."""
    folder, slash, own = name.rpartition("/")
    stem, _, extension = own.partition(".")
    return folder + slash + stem, extension.lower()


def _media(name: str) -> str | None:
    """Return the field of a media file: `image`, `clip` or `audio`; None for other files."""
    return _media_of(_split(name)[1])


@lru_cache(maxsize=1024)
def _media_of(extension: str) -> str | None:
    codec = codec_of_extension(extension)
    return next((field for field, holds, _ in _KINDS if holds(codec)), None)


def _stamps(shard: Shard) -> FileStamps:
    files, root = shard.files, shard.root
    if isinstance(root, Path):
        paths = (str(shard.path(number)) if leads_out(name) else f"{root}/{name}" for number, name in enumerate(files))
        known = [(own.st_size, own.st_mtime_ns) for own in map(os.stat, paths)]
    else:
        stats = (shard.path(number).stat() for number in range(len(files)))
        known = [(int(stat.st_size), int(stat.st_mtime_ns)) for stat in stats]
    return FileStamps(files, *np.array(known, np.int64).reshape(-1, 2).T.copy())


def _without_others(
    shard: Shard, samples: dict[str, dict[str, int]], options: ReadOptions
) -> dict[str, dict[str, int]]:
    """Leave out other files than media, such as a README, if no sample has two files and the caller declares none."""
    others = Counter(extension for own in samples.values() for extension in own if not _media_of(extension))
    if not others or any(len(own) > 1 for own in samples.values()) or others.keys() & (options.spec or {}).keys():
        return samples
    kinds = [f"{'.' if each else ''}{each or 'no extension'} {count}" for each, count in others.most_common(5)]
    log_warning(
        "%s: %d files are not images, clips or sounds, and are not read (%s); spec={'EXTENSION': TYPE} reads them",
        shard.root,
        others.total(),
        ", ".join(kinds + ["…"] * (len(others) > 5)),
    )
    return {stem: own for stem, own in samples.items() if not own.keys() & others.keys()}


def _fields(
    keys: Sequence[str], samples: Mapping[str, Mapping[str, int]], options: ReadOptions
) -> tuple[dict[str, tuple[Field, list[int]]], tuple[str, ...]]:
    """Return each field with the number of its file in each sample (-1: none), and the names of the classes.

    If each sample is one media file of the same kind, its field is that kind, and folders are classes. Otherwise each
    extension is a field, as in a tar.
    """
    several = any(len(own) > 1 for own in samples.values())
    found = {} if several else {extension: None for own in samples.values() for extension in own}
    kinds = {_media_of(extension) for extension in found}
    [kind] = kinds if len(kinds) == 1 else [None]
    if kind is not None:
        field = Field(kind, _codec_of(kind, found))
        classes = tuple(sorted({key.partition("/")[0] for key in keys})) if all("/" in key for key in keys) else ()
        return {kind: (_declared(field, options), [next(iter(samples[key].values())) for key in keys])}, classes
    extensions = sorted({extension for own in samples.values() for extension in own if extension})
    return {
        name: (
            _declared(Field(name, codec_of_extension(name)), options),
            [samples[key].get(name, -1) for key in keys],
        )
        for name in extensions
    }, ()


def _codec_of(kind: str, extensions: Iterable[str]) -> str:
    """Return the codec of media files of one kind: the codec that all share, or one that reads all of them."""
    codecs = sorted({codec_of_extension(extension) for extension in extensions})
    several = next(codec for field, _, codec in _KINDS if field == kind)
    return codecs[0] if len(codecs) == 1 or several is None else several


def _declared(field: Field, options: ReadOptions) -> Field:
    known = (options.spec or {}).get(field.name)
    return field if known is None or known.sequence else known


def _extents(field: Field, rows: Sequence[int], blocks: Blocks, number: int) -> FieldExtents:
    files = np.array(rows, np.int64)
    there = files >= 0
    offset = np.where(there, blocks.start[np.maximum(files, 0)], 0)
    length = np.where(there, blocks.length[np.maximum(files, 0)], MISSING)
    return FieldExtents(field, field.codec, number, offset, length)


def _classes(keys: Sequence[str], labels: Sequence[str]) -> I64:
    """Return the number of the class of each sample, which its key begins with."""
    number_of = {name: number for number, name in enumerate(labels)}
    return np.array([number_of[key.partition("/")[0]] for key in keys], np.int64)


def _numbered(classes: I64, labels: Sequence[str]) -> tuple[tuple[I64, I64], U8]:
    """Return where the stored number of each sample's class lies in the bytes of all numbers, and these bytes."""
    encode = get_codec("int").encode
    stored = [bytes(encode(number)) for number in range(len(labels))]
    data, ends = joined(stored)
    return (ends[classes], np.diff(ends)[classes]), data
