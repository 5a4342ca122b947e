"""Comparing arrays of two tables that have a part for each row: columns, scans and side inputs. Pure: no I/O."""

from __future__ import annotations

from typing import Any

import numpy as np

from bushel._index.columns import BOOL, FLOAT, INT, TEXT, Column, Kind
from bushel._index.table import FieldExtents
from bushel._runtime.arrays import I64, Bools

_CHUNK = 1 << 16
_TYPES: dict[Kind, int] = {"bool": BOOL, "int": INT, "uint": INT, "float": FLOAT, "text": TEXT}


def samples_of(column: FieldExtents) -> I64:
    """Return int64[rows], the sample of each row."""
    if column.starts is None:
        return np.arange(column.rows, dtype=np.int64)
    return np.repeat(np.arange(len(column.starts) - 1, dtype=np.int64), np.diff(column.starts))


def column_rows(known: Column, found: Column) -> I64:
    """Return int64[n], the samples whose values or types differ in two columns.

    Raises:
        ValueError: Arrays of a column contradict each other.
    """
    if known.kind == found.kind == "text" and _same_arrays(known, found):
        return np.zeros(0, np.int64)
    parts = [np.zeros(0, np.int64)]
    for first in range(0, len(found), _CHUNK):
        rows = slice(first, min(first + _CHUNK, len(found)))
        parts.append(first + np.flatnonzero(_differing(known, found, rows)))
    return np.concatenate(parts)


def _same_arrays(known: Column, found: Column) -> bool:
    """Return whether all arrays of two columns are equal."""
    return all(
        (recorded is None) == (now is None) and (recorded is None or np.array_equal(recorded, now))
        for recorded, now in (
            (getattr(known, name), getattr(found, name)) for name in _COLUMN_ARRAYS
        )
    )


_COLUMN_ARRAYS = ("missing", "codes", "text", "offsets", "types")


def _differing(known: Column, found: Column, rows: slice) -> Bools:
    recorded, now = known.piece(rows), found.piece(rows)
    count = len(now.values)
    if known.kind != found.kind:  # a number among texts has the type of a number
        pairs = zip(recorded.plain(), now.plain(), strict=True)
        return np.array(
            [type(a) is not type(b) or not (a == b or a != a) for a, b in pairs], np.bool_
        )
    missing = [
        np.zeros(count, np.bool_) if piece.missing is None else piece.missing
        for piece in (recorded, now)
    ]
    types = [
        _TYPES[known.kind] if piece.types is None else piece.types for piece in (recorded, now)
    ]
    unequal = recorded.values != now.values
    if known.kind == "float":
        unequal &= ~(np.isnan(recorded.values) & np.isnan(now.values))
    differing: Bools = (missing[0] != missing[1]) | (
        ~missing[0] & (unequal | (types[0] != types[1]))
    )
    return differing


def array_differences(known: Any, found: Any) -> I64:
    """Return int64[n], the rows whose part of the arrays of two objects differs; the arrays are their attributes.

    An attribute with an entry more than there are rows, `starts` or `offsets`, says where the parts
    begin.
    """
    bounds = "offsets" if hasattr(known, "data") else "starts"
    begins, other_begins = getattr(known, bounds), getattr(found, bounds)
    if len(begins) != len(other_begins):
        return np.zeros(1, np.int64)
    wrong = np.diff(begins) != np.diff(other_begins)
    total = int(begins[-1]) if len(begins) else 0
    names = [
        name
        for name in getattr(known, "__struct_fields__", None) or known.__slots__
        if name != bounds
    ]
    for name in names:
        recorded, now = getattr(known, name), getattr(found, name)
        if np.array_equal(recorded, now):
            continue
        if len(recorded) == len(now) == len(wrong):
            wrong = wrong | (recorded != now)
        elif len(recorded) == len(now) == total and not wrong.any():
            owner = np.repeat(np.arange(len(wrong)), np.diff(begins))
            wrong[owner[np.flatnonzero(recorded != now)]] = True
        elif not wrong.any():
            wrong[:1] = True
    return np.flatnonzero(wrong)
