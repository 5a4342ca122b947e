"""Export of the index as an Arrow table, for DuckDB, polars and others. Needs the extra `arrow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._runtime.arrays import I64, Bools
from bushel.errors import needed_by
from bushel.spec import KEY, Spec

from .shard import Keys
from .table import MISSING, FieldExtents

if TYPE_CHECKING:
    from .columns import Part

_DIGITS = 38  # digits of the integers of a decimal of 128 bits


def index_table(
    shards: Sequence[Any],
    fields: Spec,
    positions: Any,
    values: Mapping[str, Part],
    rows: Mapping[str, I64],
) -> Any:
    """Return the index of some samples as a table, whose columns `Dataset.to_arrow` describes.

    Args:
        shards: All shards of the dataset.
        fields: The fields that become columns.
        positions: range or int64[n], the positions of the samples in the whole dataset.
        values: Name of a column to its values in these samples.
        rows: Field to the place of each value among the samples of all shards, -1 for none; empty
            if these are the positions.

    Raises:
        MissingPackageError: pyarrow is not installed.
    """
    with needed_by("to_arrow", "bushel[arrow]"):
        import pyarrow as pa
    tables = []
    first = 0
    for shard in shards:
        columns = {KEY: _keys(pa, shard.index.keys, shard.samples, first)}
        for name, field in fields.items():
            column = shard.index.fields.get(name)
            title = f"{name}.extent" if name in values else name
            if column is None:
                columns[title] = pa.nulls(shard.samples)
            else:
                columns[title] = _column(pa, shard, column, sequence=field.sequence)
        tables.append(pa.table(columns))
        first += shard.samples
    table = pa.concat_tables(tables, promote_options="permissive")
    if rows:
        places = {f"{name}.extent" if name in values else name: at for name, at in rows.items()}
        places = {KEY: np.asarray(positions, np.int64)} | places
        table = pa.table(
            {name: table[name].take(pa.array(at, mask=at < 0)) for name, at in places.items()}
        )
    elif isinstance(positions, range) and positions.step == 1:
        table = table.slice(positions.start, len(positions))
    else:
        table = table.take(pa.array(np.asarray(positions, np.int64)))
    for name, part in values.items():
        table = table.append_column(name, values_array(pa, part))
    return table


def _keys(pa: Any, keys: Keys | None, samples: int, first: int) -> Any:
    if keys is None:
        return pa.array(map(str, range(first, first + samples)), pa.large_string())
    text, offsets = (
        pa.py_buffer(np.ascontiguousarray(array)) for array in (keys.text, keys.offsets)
    )
    array = pa.LargeStringArray.from_buffers(len(keys), offsets, text)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:  # some are not UTF-8, which a tar allows
        texts = [key.encode("utf-8", "replace").decode() for key in keys.tolist()]
        return pa.array(texts, pa.large_string())
    return array


def values_array(pa: Any, part: Part) -> Any:
    """Return the values of a column. Numbers are not copied, unless they are Python's: integers become decimals."""
    array, missing = part
    if array.dtype.kind != "O":
        return pa.array(np.ascontiguousarray(array), mask=missing)
    absent = np.zeros(len(array), np.bool_) if missing is None else missing
    values = [
        None if no else value for value, no in zip(array.tolist(), absent.tolist(), strict=True)
    ]
    plain = [value for value in values if value is not None]
    if not plain or isinstance(plain[0], str):
        return pa.array(values, pa.string())
    if all(isinstance(value, int) and abs(value) < 10**_DIGITS for value in plain):
        return pa.array(values, pa.decimal128(_DIGITS, 0))
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _column(pa: Any, shard: Any, column: FieldExtents, *, sequence: bool) -> Any:
    """Return a struct per sample for a plain field, and a list of structs per sample for a sequence field."""
    rows = column.rows
    missing: Bools = column.length == MISSING
    number, offset = shard.index.in_one_piece(column)
    files = [str(shard.path(number_of_file)) for number_of_file in range(len(shard.index.files))]
    if column.crc32 is None:
        crc32 = pa.nulls(rows, pa.uint32())
    else:
        crc32 = pa.array(np.ascontiguousarray(column.crc32))
    struct = pa.StructArray.from_arrays(
        [
            pa.DictionaryArray.from_arrays(
                pa.array(number, mask=number < 0), pa.array(files, pa.string())
            ),
            pa.array(np.ascontiguousarray(offset)),
            pa.array(np.ascontiguousarray(column.length)),
            crc32,
        ],
        ["file", "offset", "length", "crc32"],
        mask=pa.array(missing),
    )
    starts, absent = column.starts, column.absent
    if (
        sequence and starts is None
    ):  # lists of texts with nulls are JSON in a section of a remote file
        starts, absent = np.arange(rows + 1), missing
    if starts is None:
        return struct
    mask = None if absent is None else pa.array(np.ascontiguousarray(absent))
    return pa.LargeListArray.from_arrays(pa.array(np.ascontiguousarray(starts)), struct, mask=mask)
