"""Comparing two tables of one shard: the stored one, and the one made from the files. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bushel._index.table import MISSING, FieldExtents, Keys, ShardIndex
from bushel._runtime.arrays import I64

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the stored table and the files."""

    what: str  # a description of the two values
    sample: int | None = None  # number of the sample in the shard, or None
    field: str | None = None
    file: int | None = None  # number of the file that holds the field, or None
    offset: int | None = None  # offset of the bytes in the stored table, or None
    # whether the files have another intact record instead: then the references to records changed, not the table of the
    # records
    referred: bool = False


def differences(kept: ShardIndex, built: ShardIndex) -> Iterator[Difference]:
    """Yield the differences between the stored table and the files.

    Columns of the same name are compared; the files may have fields that the index lacks. If the files cannot be split
    into the fields of the stored table (a gulp's meta dict holds several), its extents must at least lie within the
    extents of their sample. If the table made from the files has no extents (of JSON that strict parsers refuse),
    nothing is compared.
    """
    if kept.samples != built.samples:
        yield Difference(f"the files have {built.samples} samples, but the index has {kept.samples}")
        return
    yield from _key_differences(kept, built)
    alike = {name for name, column in kept.fields.items() if _alike(column, built.fields.get(name))}
    for name in alike:
        yield from _column_differences(kept.fields[name], built.fields[name])
    others = [column for name, column in kept.fields.items() if name not in alike]
    named = {column.file for column in built.fields.values()}
    for number in {column.file for column in others} & named:
        low, high = _hull(built, number)
        for column in (column for column in others if column.file == number):
            yield from _outside(column, kept.samples, low, high)


def _alike(kept: FieldExtents, built: FieldExtents | None) -> bool:
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
                yield Difference(f"the files have the key {other!r}, but the index has {one!r}", sample=sample)


def _same_keys(one: Keys, other: Keys) -> bool:
    return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.text, other.text)


def _take(keys: Keys | None, rows: I64) -> list[str]:
    """Return keys; without keys they are the positions, which some containers store."""
    return [str(row) for row in rows.tolist()] if keys is None else keys.take(rows)


def _column_differences(kept: FieldExtents, built: FieldExtents) -> Iterator[Difference]:
    name, file = kept.field.name, kept.file
    if kept.starts is not None and built.starts is not None:
        changed = np.flatnonzero(np.diff(kept.starts) != np.diff(built.starts))
        for sample in changed.tolist():
            had, has = (int(starts[sample + 1] - starts[sample]) for starts in (kept.starts, built.starts))
            yield Difference(f"the files have {has} elements, but the index has {had}", sample, name, file)
        if len(changed):
            return
        yield from _empty_differences(kept, built)
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
            f"the files have it {_extent(*other)}, but the index has it {_extent(*one)}",
            sample,
            name,
            file,
            one[0],
            referred=referred and other[1] != MISSING,
        )


def _empty_differences(kept: FieldExtents, built: FieldExtents) -> Iterator[Difference]:
    """Yield the samples that have an empty sequence in one table, and no value in the other.

    Formats that do not distinguish the two have an empty one.
    """
    (empty, _), (empty_now, _) = kept.empty_and_absent, built.empty_and_absent
    changed = empty != empty_now if built.absent is not None else empty & ~empty_now
    for sample in np.flatnonzero(changed).tolist():
        states = ["an empty sequence", "no value"][:: 1 if empty_now[sample] else -1]
        what = f"the files have {states[0]}, but the index has {states[1]}"
        yield Difference(what, sample, kept.field.name, kept.file)


def _extent(offset: int, length: int) -> str:
    return "nowhere" if length == MISSING else f"at {offset} with {length} bytes"


def _pairs(column: FieldExtents) -> npt.NDArray[np.complex128]:
    """Return offset and length as one sortable number per row."""
    return column.offset + 1j * column.length


def _samples_of(column: FieldExtents) -> I64:
    """Return int64[rows], the sample of each row."""
    if column.starts is None:
        return np.arange(column.rows, dtype=np.int64)
    return np.repeat(np.arange(len(column.starts) - 1, dtype=np.int64), np.diff(column.starts))


def _hull(index: ShardIndex, file: int) -> tuple[I64, I64]:
    """Return the first and last offset of each sample's bytes in one file."""
    low = np.full(index.samples, np.iinfo(np.int64).max)
    high = np.zeros(index.samples, np.int64)
    for column in index.fields.values():
        if column.file == file:
            rows = np.flatnonzero(column.length != MISSING)
            samples = _samples_of(column)[rows]
            np.minimum.at(low, samples, column.offset[rows])
            np.maximum.at(high, samples, column.offset[rows] + column.length[rows])
    return low, high


def _outside(column: FieldExtents, samples: int, low: I64, high: I64) -> Iterator[Difference]:
    owner = _samples_of(column)
    there = column.length != MISSING
    bad = there & ((column.offset < low[owner]) | (column.offset + column.length > high[owner]))
    for row in np.flatnonzero(bad).tolist():
        offset, sample = int(column.offset[row]), int(owner[row])
        what = f"the index has it at {offset} with {int(column.length[row])} bytes, where the files have another sample"
        yield Difference(what, sample, column.field.name, column.file, offset)
