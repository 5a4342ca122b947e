"""The number of elements of sequences, clips, arrays and sounds, from the index."""

from __future__ import annotations

import re
from contextlib import suppress

import numpy as np

from bushel._dataset.read.reader import Reader
from bushel._index.elements import Group
from bushel._index.table import MISSING, FieldExtents
from bushel._runtime.arrays import I64
from bushel.codecs import get_codec, holds_clip, holds_elements
from bushel.errors import CodecError, FormatError

_FLAT = re.compile(r"as\(array\([a-z0-9]+,-1\),(array\([a-z0-9]+,-1\))\)")
"""A conversion of arrays of one dimension, and the codec of their bytes."""

_UNKNOWN = -2


def check_has_elements(reader: Reader, name: str, what: str) -> None:
    """Check that a field of a dataset has elements.

    Raises:
        KeyError: The field does not exist.
        TypeError: It has none. The message begins with `what`, which needs them.
    """
    if (field := reader.fields.get(name)) is None:
        raise KeyError(f"unknown field {name!r}: the fields are {', '.join(reader.fields) or 'none'}")
    if not field.sequence and not holds_elements(field.codec):
        kinds = "a sequence, a clip, a sound or an array"
        raise TypeError(f"{what} needs {kinds}, but field {name!r} is of type {field.type!r}")


def element_counts(reader: Reader, positions: I64, name: str) -> I64:
    """Return the number of elements of a field in samples: int64[n], -1 for a sample that lacks it. Nothing is read.

    `positions` is int64[n].

    Raises:
        KeyError: The index lacks them; the message names the command that records them.
        FormatError: The index is damaged.
    """
    counts = np.full(len(positions), -1, np.int64)
    for group in reader.groups(positions, [name]) if len(positions) else ():
        if (column := group.index.fields.get(name)) is None:
            continue
        own = _of_sequence(column, group) if column.starts is not None else _of_values(column, group)
        if (own == _UNKNOWN).any():
            option = "--frames" if holds_clip(column.codec) else f"--columns {name}.length"
            root = reader.shards[group.number].shard.root
            raise KeyError(
                f"the index does not say how many elements field {name!r} has in each sample; `bushel index {root} "
                f"{option}` records that"
            )
        counts[group.places_in(len(positions))] = own
    return counts


def _of_sequence(column: FieldExtents, group: Group) -> I64:
    starts = column.starts
    assert starts is not None
    first, last = starts[group.rows], starts[group.rows + 1]
    if ((first < 0) | (first > last) | (last > column.rows)).any():
        raise FormatError(
            f"field {column.field.name!r}: the offsets of its sequences are not ascending",
            file=group.index.files[0].name if group.index.files else None,
            hint="the index is damaged: run `bushel index --force` on the dataset",
        )
    return last - first if column.absent is None else np.where(column.absent[group.rows], -1, last - first)


def _of_values(column: FieldExtents, group: Group) -> I64:
    """Return the number of elements of values: frames of clips, rows of arrays, values in columns for others."""
    sizes = column.length[group.rows]
    counts = counts_by_sizes(column.codec, sizes) if column.frames is None else column.frames.counts(group.rows)
    counts[(counts < 0) & (sizes != MISSING)] = _UNKNOWN
    counts[sizes == MISSING] = -1
    unknown = counts == _UNKNOWN
    part = "frames" if holds_clip(column.codec) else "length"
    values = group.index.columns.get(f"{column.field.name}.{part}") if unknown.any() else None
    if values is not None and values.kind == "int":
        piece = values.piece(group.rows)
        known = unknown if piece.missing is None else unknown & ~piece.missing
        counts[known] = piece.values[known]
    return counts


def counts_by_sizes(codec: str, sizes: I64) -> I64:
    """Return the number of rows of arrays, if it follows from type and size; -1 for others."""
    converted = _FLAT.fullmatch(codec)
    ranged = get_codec(converted[1] if converted else codec).ranged
    if ranged is None or ranged.layout is None:
        return np.full(len(sizes), -1, np.int64)
    found, inverse = np.unique(sizes, return_inverse=True)
    rows = []
    for size in found.tolist():
        layout = None
        with suppress(CodecError):  # the size is not enough
            layout = ranged.layout(b"", max(size, 0))
        rows.append(layout.shape[0] if layout is not None and layout.shape else -1)
    return np.array(rows, np.int64)[inverse.reshape(-1)]
