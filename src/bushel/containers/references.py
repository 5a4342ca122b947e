"""Fields that have keys, or that name files.

Rows and lines that have a text `__key__`, as `bushel cat` and WebDataset's exports write it, have
that key. With `spec={"image": "jpg(path)"}`, the values are the bytes of these files.

Each file is a block of one block file, like the files of a folder. A name is a path relative to the
file that holds it, and never leads out of its folder. With `jpg(url)`, which only the caller can
declare, it may be a URL, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from bushel._index.shard import FileStamp, Keys, Shard, is_url, sizes_of
from bushel._index.table import MISSING, FieldExtents, ShardIndex, opener
from bushel._runtime.messages import log_warning
from bushel._runtime.parallel import map_all
from bushel.codecs import get_codec
from bushel.codecs.registry import content_codec
from bushel.errors import CodecError, FormatError, SpecError
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath, Blocks, Extents, as_path, below, is_object, leads_out, read_many

_URL = "(url)"
_LOOKERS = 32  # requests for the sizes of files on servers at once
_NAMED = 3
_HINT = "put the files there, or read the names themselves: leave the field out of spec="


def as_text(field: Field) -> Field:
    """Return a field that names files as one of texts; other fields as they are."""
    if not field.names_file:
        return field
    if field.sequence:
        raise SpecError(
            f"field {field.name!r}: a list of names cannot "
            f"be read as {field.type!r}, only a single name"
        )
    return replace(field, codec="utf8")


def with_references(index: ShardIndex, shard: Shard, spec: Spec | None) -> ShardIndex:
    """Return a table in which fields that name files have the bytes of these files.

    Raises:
        FormatError: A file is missing, or its name leads out of the folder.
        SpecError: A field holds no texts.
    """
    for name, field in (spec or {}).items():
        if field.names_file and name in index.fields:
            index = _resolved(index, shard, field)
    return index


def _resolved(index: ShardIndex, shard: Shard, field: Field) -> ShardIndex:
    texts = index.fields[field.name]
    if texts.field.codec != "utf8" or not texts.plain:
        raise SpecError(
            f"field {field.name!r} has values of type {texts.field.type}, "
            f"not names of files: {field.type!r} needs texts"
        )
    names = list(texts_of(index, shard, texts))
    unique = [name for name in dict.fromkeys(names) if name is not None]
    stamps = _stamps(shard, unique, field, names)
    number_of: dict[str | None, int] = {name: number for number, name in enumerate(unique)}
    numbers = np.array([number_of.get(name, -1) for name in names], np.int64)
    first, count = len(index.files), len(stamps)
    # the last one stands for no file
    sizes = np.append(sizes_of(stamps), MISSING)
    blocks = Blocks.of(
        np.zeros(count, np.int64), sizes[:-1], file=first + np.arange(count, dtype=np.int32)
    )
    index = with_files(index, stamps)
    extents = FieldExtents(
        field,
        content_codec(field.codec),
        index.next_file,
        np.where(numbers < 0, 0, blocks.start[numbers]),
        sizes[numbers],
    )
    columns = {name: column for name, column in index.columns.items() if name != field.name}
    return replace(
        index,
        fields={**index.fields, field.name: extents},
        columns=columns,
        blocks=(*index.blocks, blocks),
    ).check(str(shard.path(0)))


def with_files(index: ShardIndex, stamps: Sequence[FileStamp]) -> ShardIndex:
    """Return a table with further files. Block files are numbered after the files, so their numbers change."""
    first, count = len(index.files), len(stamps)
    fields = {
        name: replace(extents, file=extents.file + count) if extents.file >= first else extents
        for name, extents in index.fields.items()
    }
    return replace(index, files=(*index.files, *stamps), fields=fields)


def _stamps(
    shard: Shard, names: Sequence[str], field: Field, of_samples: Sequence[str | None]
) -> list[FileStamp]:
    """Return the files of these names, which are relative to the file of the shard.

    Raises:
        FormatError: Some are missing, or not in the folder; or one is a URL, which needs a type
            such as `jpg(url)`.
        OSError: A server refuses, or cannot be reached.
    """
    allowed = field.codec.endswith(_URL)
    before, slash, _ = shard.files[0].rpartition("/")
    paths: list[str] = []
    for name in names:
        inside, problem, hint = name.removeprefix("./"), "", _HINT
        paths.append(name if is_url(name) else before + slash + inside)
        if is_url(name) and not allowed:
            content_type = f"{content_codec(field.codec)}{_URL}"
            problem = "is a URL"
            hint = f"URLs are read if you allow it: spec={{{field.name!r}: {content_type!r}}}"
        elif not is_url(name) and leads_out(inside):
            problem = "is not the name of a file in this folder"
        if problem:
            where = f"field {field.name!r} of sample {of_samples.index(name)}"
            raise FormatError(f"{where}: {name[:200]!r} {problem}", shard.path(0), hint=hint)
    places = [
        as_path(path) if is_url(path) else below(shard.root, path, any_text=True) for path in paths
    ]
    stats = map_all(_stat, places, threads=_LOOKERS) if allowed else map(_stat, places)
    pairs = list(zip(names, paths, stats, strict=True))
    if missing := [name for name, _, stat in pairs if stat is None]:
        first = ", ".join(
            f"{name[:200]!r} of sample {of_samples.index(name)}" for name in missing[:_NAMED]
        )
        more = f", and {len(missing) - _NAMED} more" * (len(missing) > _NAMED)
        raise FormatError(
            f"field {field.name!r} names files that cannot be found: {first}{more}",
            shard.path(0),
            hint=_HINT,
        )
    return [FileStamp(path, *stat) for _, path, stat in pairs if stat is not None]


def _stat(path: AnyPath) -> tuple[int, int] | None:
    """Return size and time of a file, or None if it does not exist.

    Raises:
        OSError: A server refuses, or cannot be reached.
    """
    try:
        stat = path.stat()
        if not is_object(path) and path.is_dir():
            return None
    except (OSError, ValueError) as error:
        if is_object(path) and not isinstance(error, FileNotFoundError):
            raise
        return None
    return int(stat.st_size), int(getattr(stat, "st_mtime_ns", 0) or 0)


_CHUNK = 1 << 16


def with_keys(index: ShardIndex, shard: Shard) -> ShardIndex:
    """Return a table in which the texts of a field `__key__` are the keys of the samples.

    Such a field that has other values, or lacks some, is left out, and a line of the log says so.

    Raises:
        FormatError: A text is damaged.
    """
    key_column = index.fields.get(KEY)
    if key_column is None:
        return index
    keys = None
    if key_column.field.codec != "utf8" or not key_column.plain:
        problem = f"has values of type {key_column.field.type}, and keys are texts"
    elif len(lacking := np.flatnonzero(key_column.length < 0)):
        problem = f"is missing in sample {lacking[0]}"
    else:
        try:
            keys, problem = Keys.of(text or "" for text in texts_of(index, shard, key_column)), ""
        except UnicodeEncodeError as error:
            problem = f"has a text that is not Unicode: {error.object[:100]!r}"
    if problem:
        log_warning("%s: the field %s %s: it is not read", shard.path(0), KEY, problem)
    return replace(index.select([name for name in index.fields if name != KEY]), keys=keys)


def texts_of(index: ShardIndex, shard: Shard, own: FieldExtents) -> Iterator[str | None]:
    """Yield the text of each sample, None for a missing one.

    Raises:
        FormatError: A text is damaged.
    """
    file, codec = opener(index, shard)(own.file), get_codec(own.codec)
    for first in range(0, own.rows, _CHUNK):
        part = slice(first, first + _CHUNK)
        for row, stored in enumerate(
            read_many([file], Extents(0, own.offset[part], own.length[part])), first
        ):
            try:
                text = None if stored is None else str(codec.decode(stored))
            except CodecError as error:
                raise FormatError(
                    f"sample {row}, field {own.field.name!r}: {error}",
                    file.path,
                    index.place(own.file, int(own.offset[row])).offset,
                ) from error
            yield text
