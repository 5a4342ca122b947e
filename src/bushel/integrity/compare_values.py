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
        (one is None) == (other is None) and (one is None or np.array_equal(one, other))
        for one, other in ((getattr(known, name), getattr(found, name)) for name in _COLUMN_ARRAYS)
    )


_COLUMN_ARRAYS = ("missing", "codes", "text", "offsets", "types")


def _differing(known: Column, found: Column, rows: slice) -> Bools:
    one, other = known.piece(rows), found.piece(rows)
    count = len(other.values)
    if known.kind != found.kind:  # a number among texts has the type of a number
        pairs = zip(one.plain(), other.plain(), strict=True)
        return np.array([type(a) is not type(b) or not (a == b or a != a) for a, b in pairs], np.bool_)
    missing = [np.zeros(count, np.bool_) if each.missing is None else each.missing for each in (one, other)]
    types = [_TYPES[known.kind] if each.types is None else each.types for each in (one, other)]
    unequal = one.values != other.values
    if known.kind == "float":
        unequal &= ~(np.isnan(one.values) & np.isnan(other.values))
    differing: Bools = (missing[0] != missing[1]) | (~missing[0] & (unequal | (types[0] != types[1])))
    return differing


def array_differences(known: Any, found: Any) -> I64:
    """Return int64[n], the rows whose part of the arrays of two objects differs; the arrays are their attributes.

    An attribute with an entry more than there are rows, `starts` or `offsets`, says where the parts begin.
    """
    bounds = "offsets" if hasattr(known, "data") else "starts"
    begins, others = getattr(known, bounds), getattr(found, bounds)
    if len(begins) != len(others):
        return np.zeros(1, np.int64)
    wrong = np.diff(begins) != np.diff(others)
    total = int(begins[-1]) if len(begins) else 0
    names = [name for name in getattr(known, "__struct_fields__", None) or known.__slots__ if name != bounds]
    for name in names:
        one, other = getattr(known, name), getattr(found, name)
        if np.array_equal(one, other):
            continue
        if len(one) == len(other) == len(wrong):
            wrong = wrong | (one != other)
        elif len(one) == len(other) == total and not wrong.any():
            owner = np.repeat(np.arange(len(wrong)), np.diff(begins))
            wrong[owner[np.flatnonzero(one != other)]] = True
        elif not wrong.any():
            wrong[:1] = True
    return np.flatnonzero(wrong)
