"""Columns that folders hold, as Hive, Spark and pyarrow write them: `year=2020/month=01/part-0.parquet`.

https://arrow.apache.org/docs/python/dataset.html#reading-partitioned-data. A column is of whole
numbers if the names of all folders say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

import numpy as np

from bushel._index.object_columns import of_objects
from bushel._index.table import MISSING, FieldExtents, Shard, ShardIndex
from bushel.codecs import get_codec
from bushel.spec import Field
from bushel.storage import AnyPath

_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,9}")


def files_below(path: AnyPath, suffixes: tuple[str, ...], above: str = "") -> list[str]:
    """Return the names of the files in folders that hold a column, relative to the dataset, in order."""
    names = list[str]()
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name):
        name = above + entry.name
        if "=" in entry.name and entry.is_dir():
            names += files_below(entry, suffixes, f"{name}/")
        elif above and entry.name[0] not in "._" and name.lower().endswith(suffixes):
            names.append(name)
    return names


def with_partitions(index: ShardIndex, shard: Shard) -> ShardIndex:
    """Return the table of a file with the columns that its folders hold; columns of the file itself stay."""
    *folders, _ = shard.files[0].split("/")
    for depth, folder in enumerate(folders):
        name, sign, text = map(unquote, folder.partition("="))
        if sign and name not in index.fields:
            texts = set(_texts(shard.root, name, depth)) - {_NULL}
            whole = bool(texts) and all(map(_WHOLE.fullmatch, texts))
            field, value = Field(name, ("utf8", "int")[whole]), None
            if text != _NULL:
                value = int(text) if whole else text
            index = _with_column(index, field, value)
    return index


def _texts(folder: AnyPath, name: str, depth: int) -> Iterator[str]:
    """Yield the texts of a column, which the names of folders below others hold."""
    for entry in folder.iterdir():
        column, sign, text = entry.name.partition("=")
        if sign and depth and entry.is_dir():
            yield from _texts(entry, name, depth - 1)
        elif sign and not depth and unquote(column) == name:
            yield text


def _with_column(index: ShardIndex, field: Field, value: str | int | None) -> ShardIndex:
    """Return a table with a field of one value in all rows; None if it is missing."""
    rows, stored, size = index.samples, b"", MISSING
    if value is not None:
        stored = bytes(get_codec(field.codec).encode(value))
        size = len(stored)
    places = np.zeros(rows, np.int64), np.full(rows, size)
    extents = FieldExtents(field, field.codec, index.next_file, *places)
    data = np.frombuffer(stored, np.uint8)
    return index.with_field(extents, data, of_objects([value] * rows))
