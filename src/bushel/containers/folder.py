"""Plain files of a folder, read where they lie: photos in folders of classes, or files that share a name.

docs/format-folder.md has the rules. Every file is a block of one block file, so a field may lie in any number of files.
The table holds class numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bushel._index.held_blocks import blocks_in_table
from bushel._index.table import I64, MISSING, U8, FieldExtents, FileStamp, Keys, Shard, ShardIndex
from bushel.codecs import codec_of_extension, get_codec, holds_clip, holds_image, holds_sound
from bushel.containers.base import ReadOptions
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath, Blocks, list_names

__all__ = ["CONTAINER"]

_NO_SAMPLES = frozenset({"classes.txt", "metadata.csv", "metadata.jsonl", "metadata.parquet", "Thumbs.db"})
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
        names = _listed(path)
        return [Shard(path, "", tuple(names))] if any(map(_media, names)) else None

    def has_own_index(self, shard: Shard) -> bool:
        """Return True: the folder itself says which files there are."""
        return True

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of the files: a block for each, and a sample for those that share a name."""
        stamps = _stamps(shard)
        samples: dict[str, dict[str, int]] = {}
        for number, name in enumerate(shard.files):
            stem, extension = _split(name)
            own = samples.setdefault(stem, {})
            if extension in own:
                raise FormatError(f"two files of sample {stem!r} differ in case only", file=str(shard.path(number)))
            own[extension] = number
        if options.report is not None:
            options.report(0)
        keys = sorted(samples)
        fields, labels = _fields(shard, keys, samples, options)
        blocks = [_blocks(stamps)]
        columns = {name: _extents(field, rows, blocks[0], len(stamps)) for name, (field, rows) in fields.items()}
        if labels:
            numbers, values = _numbered(keys, labels)
            field = Field(_LABEL, "int")
            columns[_LABEL] = FieldExtents(field, "int", len(stamps) + 1, *numbers)
            blocks.append(blocks_in_table(values))
        table = ShardIndex(
            len(keys),
            stamps,
            columns,
            self.name,
            Keys.of(keys),
            {_LABEL: labels} if labels else {},
            blocks=tuple(blocks),
        )
        return table.check(str(shard.root))


CONTAINER = _Folder()


def _listed(path: AnyPath) -> list[str]:
    """Return the names of the files below a folder that may be samples, relative to it, sorted by code point."""
    names = (name.replace(os.sep, "/") for name in list_names(path))
    return sorted(name for name in names if not f"/{name}".count("/.") and name.rpartition("/")[2] not in _NO_SAMPLES)


def _split(name: str) -> tuple[str, str]:
    """Return the key of a file, which ends before the first dot of its name, and the rest without this dot."""
    folder, slash, own = name.rpartition("/")
    stem, _, extension = own.partition(".")
    return folder + slash + stem, extension.lower()


def _media(name: str) -> str | None:
    """Return the field of a media file: `image`, `clip` or `audio`; None for other files."""
    codec = codec_of_extension(_split(name)[1])
    return next((field for field, holds, _ in _KINDS if holds(codec)), None)


def _stamps(shard: Shard) -> tuple[FileStamp, ...]:
    stamps = []
    for number, name in enumerate(shard.files):
        stat = shard.path(number).stat()
        stamps.append(FileStamp(name, int(stat.st_size), int(stat.st_mtime_ns)))
    return tuple(stamps)


def _fields(
    shard: Shard, keys: Sequence[str], samples: Mapping[str, Mapping[str, int]], options: ReadOptions
) -> tuple[dict[str, tuple[Field, list[int]]], tuple[str, ...]]:
    """Return each field with the number of its file in each sample (-1: none), and the names of the classes.

    If each sample is one media file of the same kind, its field is that kind, and folders are classes. Otherwise each
    extension is a field, as in a tar.
    """
    kinds = {_media(shard.files[next(iter(own.values()))]) if len(own) == 1 else None for own in samples.values()}
    [kind] = kinds if len(kinds) == 1 else [None]
    if kind is not None:
        codecs = {codec_of_extension(next(iter(own))) for own in samples.values()}
        several = next(codec for field, _, codec in _KINDS if field == kind) or sorted(codecs)[0]
        field = Field(kind, codecs.pop() if len(codecs) == 1 else several)
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


def _declared(field: Field, options: ReadOptions) -> Field:
    known = (options.spec or {}).get(field.name)
    return field if known is None or known.sequence else known


def _blocks(stamps: Sequence[FileStamp]) -> Blocks:
    """Return the block file of all files, one after another."""
    length = np.array([stamp.size for stamp in stamps], np.int64)
    count = len(stamps)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
    zero = np.zeros(count, np.int64)
    return Blocks(start, np.arange(count, dtype=np.int32), zero, length, np.zeros(count, np.uint8), ("stored",))


def _extents(field: Field, rows: Sequence[int], blocks: Blocks, number: int) -> FieldExtents:
    files = np.array(rows, np.int64)
    there = files >= 0
    offset = np.where(there, blocks.start[np.maximum(files, 0)], 0)
    length = np.where(there, blocks.length[np.maximum(files, 0)], MISSING)
    return FieldExtents(field, field.codec, number, offset, length)


def _numbered(keys: Sequence[str], labels: Sequence[str]) -> tuple[tuple[I64, I64], U8]:
    """Return where the stored number of each sample's class lies in the bytes of all numbers, and these bytes."""
    encode = get_codec("int").encode
    stored = [bytes(encode(number)) for number in range(len(labels))]
    lengths = np.array([len(each) for each in stored], np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)[:-1]])
    number_of = {name: number for number, name in enumerate(labels)}
    rows = np.array([number_of[key.partition("/")[0]] for key in keys], np.int64)
    return (starts[rows], lengths[rows]), np.frombuffer(b"".join(stored), np.uint8)
