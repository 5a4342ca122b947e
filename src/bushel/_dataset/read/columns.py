"""Columns of a dataset, and counts of elements: values that the index holds, as arrays. No data file is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bushel._index.columns import Part, Piece, join_pieces
from bushel._index.elements import sequence_bounds
from bushel._index.names import ColumnOf, column_of, length_of_all, possible_columns
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, NO_NUMBERS, offsets_of
from bushel._runtime.public import command, did_you_mean
from bushel.codecs import get_codec, holds_clip, holds_elements
from bushel.codecs.parts import layout_of_rows
from bushel.codecs.scalars import time_dtype
from bushel.errors import FormatError, SpecError
from bushel.spec import KEY
from bushel.storage import AnyPath

from .reader import Reader
from .selection import Remaining
from .shards import OpenShard, looked_at

_FLAT = re.compile(r"as\(array\([a-z0-9]+,-1\),(array\([a-z0-9]+,-1\))\)")
"""A conversion of arrays of one dimension, and the codec of their bytes."""
_UNKNOWN = -2
_MOST_NAMED = 8  # files in a proposed command; of more, their folders are named
_HINT = "run `bushel index --force` on the dataset"


def check_has_elements(reader: Reader, name: str, what: str) -> None:
    """Check that a field of a dataset has elements.

    Raises:
        KeyError: The field does not exist.
        TypeError: It has none. The message begins with `what`, which needs them.
    """
    if (field := reader.fields.get(name)) is None:
        raise KeyError(
            f"unknown field {name!r}: the fields are {', '.join(reader.fields) or 'none'}"
        )
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
    for group in reader.groups(positions, [name]):
        if (column := group.index.fields.get(name)) is None:
            continue
        if column.starts is not None:
            first, last = sequence_bounds(column, group)
            counts_there = last - first
            if column.absent is not None:
                counts_there[column.absent[group.rows]] = -1
        else:
            counts_there = _of_values(column, group.index, group.rows)
        if (counts_there == _UNKNOWN).any():
            if holds_clip(column.codec):
                options = ["--frames"]
            else:
                options = ["--columns", f"{name}.length"]
            having = [shard for shard in reader.shards if name in shard.index.fields]
            raise KeyError(
                f"the index does not say how many elements field {name!r} has in each "
                f"sample; {index_command(having, *options, field=name)} records that"
            )
        counts[group.places_in(len(positions))] = counts_there
    return counts


def _of_values(column: FieldExtents, index: ShardIndex, rows: I64) -> I64:
    """Return the number of elements of values: frames of clips, rows of arrays, values in columns for others."""
    sizes = column.length[rows]
    if column.frames is None:
        counts = _counts_by_sizes(column.codec, sizes)
    else:
        counts = column.frames.counts(rows)
    counts[(counts < 0) & (sizes != MISSING)] = _UNKNOWN
    counts[sizes == MISSING] = -1
    unknown = counts == _UNKNOWN
    part = "frames" if holds_clip(column.codec) else "length"
    values = None
    if unknown.any():
        values = index.columns.get(f"{column.field.name}.{part}")
    if values is not None and values.kind == "int":
        piece = values.piece(rows)
        has_count = unknown if piece.missing is None else unknown & ~piece.missing
        counts[has_count] = piece.values[has_count]
    elif column.field.codec.startswith("array"):
        # a container may store such arrays with a header, by which their sizes differ
        length = length_of_all(column.field.codec)
        counts[unknown] = _UNKNOWN if length is None else length
    return counts


def _counts_by_sizes(codec: str, sizes: I64) -> I64:
    """Return the number of rows of arrays, if it follows from type and size; -1 for others."""
    converted = _FLAT.fullmatch(codec)
    ranged = get_codec(converted[1] if converted else codec).ranged
    if ranged is None:
        return np.full(len(sizes), -1, np.int64)
    distinct, inverse = np.unique(sizes, return_inverse=True)
    layouts = [layout_of_rows(ranged, b"", max(size, 0)) for size in distinct.tolist()]
    rows = [-1 if layout is None else layout.shape[0] for layout in layouts]
    return np.array(rows, np.int64)[inverse.reshape(-1)]


def column_names(reader: Reader) -> tuple[str, ...]:
    """Return the names of the columns that every shard has, or every shard of a joined dataset, in order.

    Of very many shards, and of many remote ones, only the first and the last are looked at.
    """
    names: dict[str, None] = {}
    for shards in filter(None, reader.divisions):
        first, *rest = looked_at(shards)
        names |= {
            name: None
            for name in first.index.columns
            if all(name in shard.index.columns for shard in rest)
        }
    return tuple(names)


def masked(part: Part) -> Any:
    """Return values as an array, which is masked if some are missing."""
    values, missing = part
    if missing is None or not missing.any():
        return values
    return np.ma.MaskedArray(values, missing)


def part_of(reader: Reader, positions: range | I64 | Remaining, name: str) -> Part:
    """Return a column of some samples, given their positions in the whole dataset.

    Raises:
        KeyError: The column does not exist; the message says which is meant, or which command makes
            it.
        FormatError: An index is damaged.
    """
    if isinstance(positions, Remaining):
        values, missing = part_of(reader, range(positions.total), name)
        remain = positions.kept()
        return values[remain], None if missing is None else missing[remain]
    column = _meaning(name, reader)
    reader = reader.narrowed([column.field.name])
    shards = reader.shards
    if reader.windows is not None and column.part == "length":
        sizes = reader.sizes(np.asarray(positions, np.int64), column.field.name)
        if sizes is not None:
            return sizes, None
    plain = not reader.sides and reader.windows is None
    if plain and isinstance(positions, range) and positions.step == 1:
        pieces, order = _slices(reader, positions, column) or [_empty(shards, column)], None
    else:
        pieces, order = _of_rows(reader, np.asarray(positions, np.int64), column)
    try:
        values, missing = join_pieces(pieces)
    except ValueError as error:
        folder = str(shards[0].shard.root)
        raise FormatError(f"column {column.name!r}: {error}", folder, hint=_HINT) from error
    if order is None:
        return values, missing
    return values[order], None if missing is None else missing[order]


def _of_rows(reader: Reader, rows: I64, column: ColumnOf) -> tuple[list[Piece], I64 | None]:
    """Return the values of samples, shard by shard, and the place of each among them; None if these ascend."""
    shards = reader.shards
    groups = reader.groups(rows, [column.field.name])
    groups = [group for group in groups if column.field.name in group.index.fields]
    pieces = [_piece(shards, group.number, group.rows, column) for group in groups]
    if len(groups) == 1 and groups[0].places is None:
        return pieces, None
    places = np.concatenate([rows[:0], *(group.places_in(len(rows)) for group in groups)])
    if len(places) < len(rows) or not pieces:
        having = (
            shard
            for shard in shards
            if any(field.name == column.field.name for field in shard.fields)
        )
        pieces.append(_empty(list(islice(having, 1)), column))
        pieces.append(Piece(np.zeros(1, np.bool_), np.ones(1, np.bool_)))
    # samples of shards without the field have the last value, which is missing
    order = np.full(len(rows), -1, np.int64)
    order[places] = np.arange(len(places))
    return pieces, order


def _meaning(name: str, reader: Reader) -> ColumnOf:
    if not isinstance(name, str):
        raise TypeError(f"the name of a column is a text, not {name!r}")
    try:
        return column_of(name, reader.fields)
    except SpecError as error:
        raise KeyError(str(error)) from None
    except KeyError:
        names = column_names(reader)
        near = did_you_mean(name, [*names, *possible_columns(reader.fields)])
        listed = ", ".join(names) or "none; `bushel index --columns` adds some"
        if name == KEY:
            near = (
                "keys are not in a column: ds.select_keys(keys=[...]) "
                "chooses samples by them, ds.keys has all"
            )
        raise KeyError(f"unknown column {name!r}: {near or f'the columns are {listed}'}") from None


def _slices(reader: Reader, positions: range, wanted: ColumnOf) -> list[Piece]:
    """Return the values of a range of samples, shard by shard: views of the tables."""
    pieces = []
    first = int(np.searchsorted(reader.starts, positions.start, side="right")) - 1
    last = int(np.searchsorted(reader.starts, positions.stop))
    for number in range(first, last):
        start, end = reader.starts[number : number + 2].tolist()
        rows = slice(max(positions.start - start, 0), min(positions.stop, end) - start)
        if rows.start < rows.stop:
            pieces.append(_piece(reader.shards, number, rows, wanted))
    return pieces


def _empty(shards: Sequence[OpenShard], wanted: ColumnOf) -> Piece:
    if shards:
        return _piece(shards, 0, slice(0, 0), wanted)
    return Piece(NO_NUMBERS)


def _piece(shards: Sequence[OpenShard], number: int, rows: slice | I64, wanted: ColumnOf) -> Piece:
    shard = shards[number]
    index = shard.index
    column = index.fields.get(wanted.field.name)
    try:
        if (values := index.columns.get(wanted.name)) is not None:
            piece = values.piece(rows)
            if wanted.part or column is None:
                return piece
            dtype = time_dtype(column.field.codec)
            if dtype is None:
                return piece
            return Piece(piece.values.astype(np.int64, copy=False).view(dtype), piece.missing)
        # the shard lacks all values
        if column is None or (column.starts is None and column.lacks_all):
            missing = np.broadcast_to(np.True_, index.samples)[rows]
            return Piece(~missing, missing)
        # lists of texts with nulls are JSON in some sections of remote files
        counts_elements = wanted.reading == "elements" and column.starts is not None
        if counts_elements or wanted.reading == "bytes":
            return _sizes(column, rows, elements=counts_elements)
        texts = index.columns.get(wanted.field.name)
        if wanted.reading == "length" and texts is not None:
            piece = texts.piece(rows)
            # no text is too long for it
            if piece.missing is None or (column.length[rows][piece.missing] == MISSING).all():
                lengths = np.fromiter(map(len, piece.values), np.int64, len(piece.values))
                return Piece(lengths, piece.missing)
        if wanted.reading == "array" and wanted.part == "length" and column.starts is None:
            counts = _of_values(column, index, np.arange(column.rows)[rows])
            if (counts != _UNKNOWN).all():
                return Piece(np.maximum(counts, 0), counts < 0)
    except ValueError as error:
        raise FormatError(
            f"column {wanted.name!r}: {error}", shard.shard.sidecar, hint=_HINT
        ) from error
    having = [shard for shard in shards if wanted.field.name in shard.index.fields]
    advice = index_command(having, "--columns", wanted.name, field=wanted.field.name)
    raise KeyError(
        f"column {wanted.name!r} is not in the index of {shard.path(0)}; {advice} makes it"
    )


def index_command(shards: Sequence[OpenShard], *options: str, field: str) -> str:
    """Return the command that indexes the data of shards again, with a field's declared type, in backquotes."""
    roots: dict[AnyPath, list[OpenShard]] = {}
    for shard in shards:
        roots.setdefault(shard.shard.root, []).append(shard)
    paths: list[AnyPath] = []
    for root, in_root in roots.items():
        if len(in_root) > _MOST_NAMED or _is_whole(root, in_root):
            paths.append(root)
        else:
            paths += [shard.path(0) for shard in in_root]
    if (declared := shards[0].asked.spec.get(field)) is not None:
        options += ("--spec", f"{field}={declared.type}")
    return command("index", *paths, *options)


def _is_whole(root: AnyPath, shards: Sequence[OpenShard]) -> bool:
    """Return whether a folder is a dataset, and has no files except these shards."""
    sidecar = shards[0].shard.sidecar
    if not all(shard.shard.name for shard in shards) or not isinstance(root, Path):
        return True
    if isinstance(sidecar, Path) and sidecar.with_name("manifest.json").exists():
        return True
    stems = {Path(shard.shard.name).stem for shard in shards}
    return all(file.name.startswith(".") or file.stem in stems for file in root.iterdir())


def _sizes(column: FieldExtents, rows: slice | I64, *, elements: bool) -> Piece:
    """Return the number of stored bytes, or of elements, of samples."""
    length = column.length
    if column.starts is None:
        return Piece(np.maximum(length[rows], 0), length[rows] == MISSING)
    starts = column.starts
    is_ascending = (starts[1:] >= starts[:-1]).all()
    if not is_ascending or starts[0] < 0 or starts[-1] > column.rows:
        raise ValueError("the offsets of its sequences are not ascending")
    if elements:
        sizes = np.diff(starts)
    else:
        ends = offsets_of(np.maximum(length, 0))
        sizes = ends[starts[1:]] - ends[starts[:-1]]
    return Piece(sizes[rows], None if column.absent is None else column.absent[rows])
