"""Comparing two tables of one shard: the one that was kept, and the one that the files give now. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bushel.core.index.table import INLINE, MISSING, Column, Keys, ShardIndex

__all__ = ["Difference", "differences"]

I64 = npt.NDArray[np.int64]
_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the files say otherwise than the kept table.

    Attributes:
        what: What the two say.
        sample: Number of the sample in the shard, or None.
        field: The field, or None.
        file: Number of the file that the field is in, or None.
        offset: Where the kept table says the bytes are, or None.
        referred: Whether the files give another whole record for it: then what refers to records has changed, and
            not the table of the records themselves.
    """

    what: str
    sample: int | None = None
    field: str | None = None
    file: int | None = None
    offset: int | None = None
    referred: bool = False


def differences(kept: ShardIndex, built: ShardIndex) -> Iterator[Difference]:
    """What the files say otherwise than the kept table.

    A column is compared with that of the same name; the files may have fields that the index leaves out. Where the
    files do not tell the fields apart as the kept table does (a gulp's meta dict holds several), its extents must at
    least lie where the files have this sample.

    Args:
        kept: The table from the sidecar, checked.
        built: The table that the files give, checked.
    """
    if kept.samples != built.samples:
        yield Difference(f"the files have {built.samples} samples, and the index {kept.samples}")
        return
    yield from _key_differences(kept, built)
    alike = {name for name, column in kept.columns.items() if _alike(column, built.columns.get(name))}
    for name in alike:
        yield from _column_differences(kept.columns[name], built.columns[name])
    others = [column for name, column in kept.columns.items() if name not in alike and column.file != INLINE]
    for number in {column.file for column in others}:
        low, high = _hull(built, number)
        for column in (column for column in others if column.file == number):
            yield from _outside(column, kept.samples, low, high)


def _alike(kept: Column, built: Column | None) -> bool:
    return built is not None and kept.file == built.file and kept.field.sequence == built.field.sequence


def _key_differences(kept: ShardIndex, built: ShardIndex) -> Iterator[Difference]:
    if kept.keys is None and built.keys is None:
        return
    if kept.keys is not None and built.keys is not None and _same_keys(kept.keys, built.keys):
        return
    for first in range(0, kept.samples, _CHUNK):
        rows = np.arange(first, min(first + _CHUNK, kept.samples), dtype=np.int64)
        for sample, one, other in zip(rows.tolist(), _take(kept.keys, rows), _take(built.keys, rows), strict=True):
            if one != other:
                yield Difference(f"the files say {other!r} where the index has the key {one!r}", sample=sample)


def _same_keys(one: Keys, other: Keys) -> bool:
    return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.text, other.text)


def _take(keys: Keys | None, rows: I64) -> list[str]:
    """Keys; those of a shard without are the positions, which containers may store or not."""
    return [str(row) for row in rows.tolist()] if keys is None else keys.take(rows)


def _column_differences(kept: Column, built: Column) -> Iterator[Difference]:
    name, file = kept.field.name, kept.file
    if kept.starts is not None and built.starts is not None:
        changed = np.flatnonzero(np.diff(kept.starts) != np.diff(built.starts))
        for sample in changed.tolist():
            had, has = (int(starts[sample + 1] - starts[sample]) for starts in (kept.starts, built.starts))
            yield Difference(f"the files have {has} elements, and the index {had}", sample, name, file)
        if len(changed):
            return
    there = kept.length != MISSING
    changed = np.flatnonzero((kept.length != built.length) | ((kept.offset != built.offset) & there))
    if not len(changed):
        return
    records = np.sort(_pairs(kept))
    samples = _samples_of(kept)
    known = np.isin(_pairs(built)[changed], records)
    for row, referred in zip(changed.tolist(), known.tolist(), strict=True):
        sample = int(samples[row])
        one, other = ((int(column.offset[row]), int(column.length[row])) for column in (kept, built))
        yield Difference(
            f"the files have it {_said(*other)}, and the index {_said(*one)}",
            sample,
            name,
            file,
            one[0],
            referred=referred and other[1] != MISSING,
        )


def _said(offset: int, length: int) -> str:
    return "nowhere" if length == MISSING else f"at {offset} with {length} bytes"


def _pairs(column: Column) -> npt.NDArray[np.complex128]:
    """Offset and length as one sortable number each."""
    return column.offset + 1j * column.length


def _samples_of(column: Column) -> I64:
    """int64[rows]: the sample that each row belongs to."""
    if column.starts is None:
        return np.arange(column.rows, dtype=np.int64)
    return np.repeat(np.arange(len(column.starts) - 1, dtype=np.int64), np.diff(column.starts))


def _hull(index: ShardIndex, file: int) -> tuple[I64, I64]:
    """Where in one file the bytes of each sample begin and end."""
    low = np.full(index.samples, np.iinfo(np.int64).max)
    high = np.zeros(index.samples, np.int64)
    for column in index.columns.values():
        if column.file == file:
            rows = np.flatnonzero(column.length != MISSING)
            samples = _samples_of(column)[rows]
            np.minimum.at(low, samples, column.offset[rows])
            np.maximum.at(high, samples, column.offset[rows] + column.length[rows])
    return low, high


def _outside(column: Column, samples: int, low: I64, high: I64) -> Iterator[Difference]:
    owner = _samples_of(column)
    there = column.length != MISSING
    bad = there & ((column.offset < low[owner]) | (column.offset + column.length > high[owner]))
    for row in np.flatnonzero(bad).tolist():
        offset, sample = int(column.offset[row]), int(owner[row])
        what = f"the index has it at {offset} with {int(column.length[row])} bytes, where the files have another sample"
        yield Difference(what, sample, column.field.name, column.file, offset)
