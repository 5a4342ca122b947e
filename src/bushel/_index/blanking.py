"""Remove the values of samples from a table: columns, seek tables and segments reveal much about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bushel._index.columns import Column, numbers, of_texts
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, Bools, joined

N = TypeVar("N", bound=np.generic)


def without_values(index: ShardIndex, samples: I64) -> ShardIndex:
    """Return a table whose columns lack the values of some samples, and which has no decoder states of their images."""
    gone = np.zeros(index.samples, np.bool_)
    gone[samples] = True
    fields = {name: _without_states(own, samples) for name, own in index.fields.items()}
    columns = {name: _without(column, gone) for name, column in index.columns.items()}
    return replace(index, fields=fields, columns=columns)


def _without_states(own: FieldExtents, samples: I64) -> FieldExtents:
    rows, _ = own.rows_of(samples)
    if (seek := own.seek) is not None:
        own = replace(own, seek=replace(seek, words=_zeroed(seek.words, seek.starts, rows)))
    if (segments := own.segments) is not None:
        own = replace(own, segments=replace(segments, lengths=_zeroed(segments.lengths, segments.starts, rows)))
    return own


def _zeroed(values: npt.NDArray[N], starts: I64, rows: I64) -> npt.NDArray[N]:
    found = values.copy()
    for first, last in zip(starts[rows].tolist(), starts[rows + 1].tolist(), strict=True):
        found[first:last] = 0
    return found


def _without(column: Column, gone: Bools) -> Column:
    missing = gone if column.missing is None else column.missing | gone
    if column.kind == "text":
        piece = column.piece(slice(None))
        encoded = [
            b"" if no else text.encode() for text, no in zip(piece.values.tolist(), missing.tolist(), strict=True)
        ]
        found = of_texts(*joined(encoded), missing)
    else:
        assert column.values is not None
        found = numbers(column.kind, column.values, missing)
    return found if column.types is None else replace(found, types=np.where(gone, np.uint8(0), column.types))
