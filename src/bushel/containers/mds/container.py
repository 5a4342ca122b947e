"""MDS, the shards of MosaicML's streaming: an `index.json` names shard files, whose samples have one value per column.

Values are extents of the shard, or of its blocks if it is compressed. docs/format-mds.md has the
rules. The layout is defined by mosaicml-streaming (`streaming/base/format/mds`).
"""

from __future__ import annotations

from collections.abc import Iterator

from bushel._index.table import Shard, ShardIndex
from bushel.containers.base import Container, ReadOptions, Report
from bushel.containers.json_index import AS_BYTES, INDEX, described_field, listed_shards, load_index
from bushel.containers.mds.described import HINT, Entry, certain_streams, compared, parse_entries
from bushel.containers.plain_table import PlainField, table_of
from bushel.containers.sized_values import elements_of, offset_table, values_of
from bushel.errors import FormatError
from bushel.spec import Field
from bushel.storage import AnyPath, BlockFile, Blocks, ExtentError, File, below, open_file
from bushel.storage.packed import packed_blocks

_CODECS = {
    "bytes": ("bytes", None),
    "str": ("utf8", None),
    "int": ("int", "i64"),
    **{f"int{bits}": ("int", None) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": ("uint", None) for bits in (8, 16, 32, 64)},
    "float16": ("array(float16)", None),
    "float32": ("float", "f32"),
    "float64": ("float", None),
    "str_int": ("int", "cls"),
    "str_float": ("float", "float-text"),
    "str_decimal": ("utf8", None),
    "pil": ("pil", None),
    "jpeg": ("jpg", None),
    "png": ("png", None),
    "json": ("json", None),
    "pkl": ("pickle", None),
    "ndarray": ("mds-array", None),
}
"""The type of a field by the encoding of its column, and the codec of its stored bytes if that differs."""
_LISTS = {"jpeg_array": ("jpg", 0), "jpegarray": ("jpg", 0)} | {
    f"list[{kind}]": (_CODECS[kind][0], 4) for kind in ("pil", "jpeg", "png")
}
"""The codec of the elements of lists, and the bytes before their number."""


class _Mds(Container):
    name = "mds"
    file_names = (INDEX,)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shards that the index.json of a folder lists, or the shards of its streams: sub-folders with one.

        The expanded file of a compressed shard is read if it is there, too.
        """
        if path.name == INDEX:
            path = path.parent
        if not path.is_dir():
            return None
        if (path / INDEX).exists():
            return _listed(path)
        streams = sorted(entry.name for entry in path.iterdir() if (entry / INDEX).exists())
        shards_of_streams = [_listed(below(path, name)) for name in streams]
        return [shard for shards in shards_of_streams if shards for shard in shards] or None

    def certain_shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shards of a folder of streams that no other container owns, if it is one dataset beyond doubt."""
        return certain_streams(path, _listed)

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the values of one shard are. A compressed shard is expanded for that."""
        entry = _entry(shard)
        file, blocks = _opened(shard, entry)
        try:
            fields = self._fields(entry, file, 0 if blocks is None else len(shard.files), options)
        except ExtentError as error:
            raise _unreadable(error, file) from error
        if options.report is not None:
            options.report(file.size)
        return table_of(
            self.name, shard, entry.samples, fields, blocks=() if blocks is None else (blocks,)
        )

    def _fields(
        self, entry: Entry, file: File, number: int, options: ReadOptions
    ) -> dict[str, PlainField]:
        """Return where the values of each column are, in the file of this number."""
        fields = {}
        # the original takes 0 for a variable size
        sizes = [size or None for size in entry.column_sizes]
        places = values_of(file, *offset_table(file, entry.samples), sizes)
        for column, (offset, length) in enumerate(places):
            field = _field(entry, column, options, file)
            encoding = entry.column_encodings[column]
            place = PlainField(field.type, offset, length, file=number)
            if encoding in _LISTS and field.sequence:
                starts, offset, length = elements_of(
                    file, offset, length, _LISTS[encoding][1], field.name
                )
                place = place._replace(offset=offset, length=length, starts=starts)
            elif encoding in _CODECS:
                place = place._replace(codec=_CODECS[encoding][1])
            fields[field.name] = place
        return fields

    def check_stored(self, shard: Shard, report: Report) -> Iterator[FormatError]:
        """Compare sizes and hashes of the shard's files, as they are and expanded, with those in index.json."""
        entry = _entry(shard)
        stored = open_file(shard.path(0))
        if entry.zip_data is None or shard.files[0] != entry.zip_data.name:
            yield from compared(stored, entry.raw_data, report)
            return
        yield from compared(stored, entry.zip_data, report)
        try:
            file, _ = _opened(shard, entry)
            yield from compared(file, entry.raw_data, report)
        except FormatError as error:
            yield error
        except ExtentError as error:
            yield _unreadable(error, stored)


CONTAINER = _Mds()


def _unreadable(error: ExtentError, file: File) -> FormatError:
    return FormatError(f"the compressed data are damaged: {error}", file=file.path, hint=HINT)


def _listed(folder: AnyPath) -> list[Shard] | None:
    """Return the shards that a folder's index.json lists; None if it belongs to another format.

    Raises:
        FormatError: It is damaged, or lists a shard of another format.
    """
    entries = load_index(folder, parse_entries)
    if entries is None:
        return None
    files = {
        name: None if entry.zip_data is None else entry.zip_data.name
        for name, entry in entries.items()
    }
    return listed_shards(folder, files, "shard", HINT)


def _entry(shard: Shard) -> Entry:
    entries = load_index(shard.root, parse_entries)
    if entries is None or shard.name not in entries:
        raise FormatError(
            f"it does not list the shard {shard.name!r} any more",
            file=str(shard.path(1)),
            hint=HINT,
        )
    return entries[shard.name]


def _opened(shard: Shard, entry: Entry) -> tuple[File, Blocks | None]:
    """Return the file of the samples, and its blocks if it is compressed."""
    stored = open_file(shard.path(0))
    if entry.zip_data is None or shard.files[0] != entry.zip_data.name:
        return stored, None
    blocks = packed_blocks(stored, entry.compression_kind, entry.raw_data.bytes)
    return BlockFile.over(stored, blocks), blocks


def _field(entry: Entry, column: int, options: ReadOptions, file: File) -> Field:
    """Return the field of a column by its encoding.

    Raises:
        FormatError: The encoding is unknown, and the caller does not declare the field.
    """
    name, encoding = entry.column_names[column], entry.column_encodings[column]
    kind, _, parameters = encoding.partition(":")
    if encoding in _LISTS:
        codec = f"{_LISTS[encoding][0]}[]"
    elif kind == "ndarray" and parameters:
        dtype, _, shape = parameters.partition(":")
        codec = f"array({dtype},{shape})" if shape else f"mds-array({dtype})"
    elif encoding in _CODECS:
        codec = _CODECS[encoding][0]
    elif options.spec is not None and name in options.spec:
        return options.spec[name]  # the caller knows what the bytes are
    else:
        message = f"column {name!r} has the encoding {encoding!r}, which is unknown"
        raise FormatError(message, file=file.path, hint=AS_BYTES % name)
    return described_field("column", name, codec, file)
