"""Keys in a field: rows and lines that have a text `__key__`, as `bushel cat` and WebDataset's exports write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bushel._index.opening import opener
from bushel._index.table import FieldExtents, Keys, Shard, ShardIndex
from bushel._runtime.log import log_warning
from bushel.codecs import get_codec
from bushel.errors import CodecError, FormatError
from bushel.spec import KEY
from bushel.storage import Extents, read_many

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
    fields = {name: column for name, column in index.fields.items() if name != KEY}
    columns = {name: column for name, column in index.columns.items() if name != KEY}
    return replace(index, keys=keys, fields=fields, columns=columns)


def texts_of(index: ShardIndex, shard: Shard, own: FieldExtents) -> Iterator[str | None]:
    """Yield the text of each sample, None for a missing one.

    Raises:
        FormatError: A text is damaged.
    """
    file, codec = opener(index, shard.path)(own.file), get_codec(own.codec)
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
                    file=file.path,
                    offset=index.place(own.file, int(own.offset[row])).offset,
                ) from error
            yield text
