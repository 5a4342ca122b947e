"""Planning of reads: which extents a batch of samples needs, and what comes back from them. Pure: no I/O."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.core.index.table import INLINE, MISSING, Column, ShardIndex
from bushel.errors import FormatError
from bushel.storage import Extents

__all__ = [
    "Elements",
    "FieldPlan",
    "Group",
    "Mask",
    "Piece",
    "ReadPlan",
    "normalise_mask",
    "plan_read",
    "stored_lengths",
]

Mask = Iterable[str] | Mapping[str, Any] | None
"""Which fields to read: all, some names, or a mapping of names to True, False, or elements of a sequence or clip."""

Elements = slice | npt.NDArray[np.int64] | None
"""Which elements of a sequence field, or frames of a clip, to read; None for all."""


def normalise_mask(mask: Mask, known: Sequence[str], ranged: Iterable[str]) -> dict[str, Elements]:
    """Check a mask against the fields that there are.

    Args:
        mask: As users give it.
        known: The fields.
        ranged: Those that elements can be asked of: sequence fields and clips.

    Raises:
        KeyError: There is no such field.
        TypeError: A value is neither a bool nor, for a ranged field, elements of it.
    """
    if mask is None:
        return dict.fromkeys(known)
    if isinstance(mask, str):
        raise TypeError(f"fields are given as a list or a dict: [{mask!r}], not {mask!r}")
    items = mask.items() if isinstance(mask, Mapping) else ((name, True) for name in mask)
    lists = set(ranged)
    wanted: dict[str, Elements] = {}
    for name, value in items:
        if name not in known:
            raise KeyError(f"there is no field {name!r}: the fields are {', '.join(known) or 'none'}")
        if value is False:
            continue
        if value is True:
            wanted[name] = None
        elif name not in lists:
            raise TypeError(f"field {name!r} is no sequence and no clip: ask for it with True, not {value!r}")
        elif isinstance(value, slice):
            wanted[name] = value
        elif isinstance(value, range):
            wanted[name] = np.arange(value.start, value.stop, value.step, dtype=np.int64)
        else:
            wanted[name] = _element_numbers(name, value)
    return wanted


def _element_numbers(name: str, value: object) -> npt.NDArray[np.int64]:
    try:
        return np.array([operator.index(number) for number in value], np.int64)  # type: ignore[attr-defined]
    except TypeError as error:
        raise TypeError(
            f"elements of {name!r} are given as a slice, a range or a list of numbers, not {value!r}"
        ) from error
    except OverflowError as error:
        raise IndexError(f"no sequence has as many elements as {value!r} asks for") from error


@dataclass(frozen=True, slots=True)
class Piece:
    """An extent that is not read as it lies in a file: inline bytes, or a slice of a joined record.

    Attributes:
        row: Its place in the plan's extents (where its length is -1).
        shard: Number of the shard.
        file: Number of the file in the shard, or `INLINE`.
        offset: Of the raw bytes.
        length: Of the raw bytes.
        start: Where the value begins in the joined payload, -1 if there is nothing to join.
        size: Bytes of the value.
        crc32: Of the value, or None.
    """

    row: int
    shard: int
    file: int
    offset: int
    length: int
    start: int
    size: int
    crc32: int | None


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """Where one field's values are among the bytes that were read.

    Attributes:
        name: The field.
        first: Number of its first extent; extents of a field lie together.
        codecs: The stored codec of each sample, or one for all.
        counts: Number of elements of each sample for a sequence field, -1 where the sample lacks it, else None.
        elements: What is to be decoded of each value: frames of a clip, which is read as a whole; None for all.
    """

    name: str
    first: int
    codecs: str | list[str]
    counts: list[int] | None
    elements: Elements = None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read for a batch of samples.

    Attributes:
        files: (shard number, file number) of the files that the extents count.
        extents: All extents, field after field, sample after sample. They are in one piece, so that all are read
            together, unless checksums are wanted and only some fields have them.
        fields: One per field.
        pieces: The few values that do not come straight from an extent.
    """

    files: list[tuple[int, int]]
    extents: list[Extents]
    fields: list[FieldPlan]
    pieces: list[Piece]

    def owner(self, row: int) -> tuple[str, int]:
        """The field and the place in the batch of the sample that an extent belongs to."""
        field = next(field for field in reversed(self.fields) if field.first <= row)
        place = row - field.first
        if field.counts is not None:
            ends = np.cumsum(np.maximum(field.counts, 0))
            place = int(np.searchsorted(ends, place, side="right"))
        return field.name, place


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of a batch that lie in one shard.

    Attributes:
        number: The shard.
        index: Its table.
        rows: int64[k], samples within the shard.
        places: int64[k], their places in the batch, or None when it is the whole batch.
    """

    number: int
    index: ShardIndex
    rows: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64] | None


def plan_read(groups: Sequence[Group], total: int, wanted: Mapping[str, Elements], *, checksums: bool) -> ReadPlan:
    """Plan the read of a batch.

    Args:
        groups: The batch, by shard.
        total: Samples in the batch.
        wanted: The fields, from `normalise_mask`.
        checksums: Whether to check CRCs where they are known.

    Raises:
        IndexError: A list of elements reaches beyond a sequence.
        FormatError: The table of a sequence field is damaged.
    """
    files: dict[tuple[int, int], int] = {}
    parts: list[Extents] = []
    fields: list[FieldPlan] = []
    pieces: list[Piece] = []
    first = 0
    for name, elements in wanted.items():
        columns = [group.index.columns.get(name) for group in groups]
        if any(column is not None and column.starts is not None for column in columns):
            part, counts = _sequence_extents(groups, columns, total, elements, files, first, pieces)
        else:
            part = _plain_extents(groups, columns, total, files, first, pieces, checksums=checksums)
            counts = None
        parts.append(part)
        inside = elements if counts is None and any(columns) else None
        fields.append(FieldPlan(name, first, _codecs(groups, columns, total), counts, inside))
        first += len(part)
    return ReadPlan(list(files), _join(parts, checksums=checksums), fields, pieces)


def stored_lengths(groups: Sequence[Group], total: int, name: str) -> npt.NDArray[np.int64]:
    """Stored bytes of one field in each sample of a batch: int64[total], `MISSING` where a sample lacks it.

    Raises:
        FormatError: The table of a sequence field is damaged.
    """
    lengths = np.full(total, MISSING, np.int64)
    for group in groups:
        column = group.index.columns.get(name)
        if column is None:
            continue
        places = group.places if group.places is not None else np.arange(total)
        rows, counts = (group.rows, None) if column.starts is None else _element_rows(column, group, None)
        own = column.length[rows]
        if (fragments := column.fragments) is not None and len(fragments.rows):
            at = np.minimum(np.searchsorted(fragments.rows, rows), len(fragments.rows) - 1)
            own = np.where(fragments.rows[at] == rows, fragments.length[at], own)
        if counts is not None:
            ends, sums = np.cumsum(counts), np.concatenate([np.zeros(1, np.int64), np.cumsum(own)])
            own = sums[ends] - sums[ends - counts]
            if column.absent is not None:
                own[column.absent[group.rows]] = MISSING
        lengths[places] = own
    return lengths


def _codecs(groups: Sequence[Group], columns: Sequence[Column | None], total: int) -> str | list[str]:
    names = {column.codec for column in columns if column is not None}
    if len(names) <= 1:
        return names.pop() if names else "bytes"
    codecs = ["bytes"] * total
    for group, column in zip(groups, columns, strict=True):
        if column is not None and group.places is not None:
            for place in group.places.tolist():
                codecs[place] = column.codec
    return codecs


def _plain_extents(
    groups: Sequence[Group],
    columns: Sequence[Column | None],
    total: int,
    files: dict[tuple[int, int], int],
    first: int,
    pieces: list[Piece],
    *,
    checksums: bool,
) -> Extents:
    if len(groups) == 1 and (column := columns[0]) is not None and column.file != INLINE and column.fragments is None:
        rows = groups[0].rows
        file = files.setdefault((groups[0].number, column.file), len(files))
        crc32 = column.crc32[rows] if checksums and column.crc32 is not None else None
        return Extents(file, column.offset[rows], column.length[rows], crc32)
    file_of = np.zeros(total, np.int32)
    offset = np.zeros(total, np.int64)
    length = np.full(total, MISSING, np.int64)
    crc32 = np.zeros(total, np.uint32)
    checked = True
    for group, column in zip(groups, columns, strict=True):
        if column is None:
            continue
        places = group.places if group.places is not None else np.arange(total)
        _place(group, column, group.rows, places, file_of, offset, length, crc32, files, first, pieces)
        checked &= column.crc32 is not None
    return Extents(file_of, offset, length, crc32 if checked else None)


def _sequence_extents(
    groups: Sequence[Group],
    columns: Sequence[Column | None],
    total: int,
    elements: Elements,
    files: dict[tuple[int, int], int],
    first: int,
    pieces: list[Piece],
) -> tuple[Extents, list[int]]:
    counts = np.full(total, -1, np.int64)
    chosen: list[npt.NDArray[np.int64]] = []
    for group, column in zip(groups, columns, strict=True):
        places = group.places if group.places is not None else np.arange(total)
        if column is None or column.starts is None:
            chosen.append(np.zeros(0, np.int64))
            continue
        rows, own = _element_rows(column, group, elements)
        if (column.length[rows] < 0).any():
            raise _damaged(column, group)
        chosen.append(rows)
        counts[places] = own
        if column.absent is not None:
            counts[places[column.absent[group.rows] & (own == 0)]] = -1
    extent_counts = np.maximum(counts, 0)
    starts = np.cumsum(extent_counts) - extent_counts
    size = int(extent_counts.sum())
    file_of = np.zeros(size, np.int32)
    offset = np.zeros(size, np.int64)
    length = np.full(size, MISSING, np.int64)
    crc32 = np.zeros(size, np.uint32)
    checked = True
    for group, column, rows in zip(groups, columns, chosen, strict=True):
        if column is None or column.starts is None:
            continue
        places = group.places if group.places is not None else np.arange(total)
        own = extent_counts[places]
        ends = np.cumsum(own)
        at = np.arange(len(rows), dtype=np.int64) + np.repeat(starts[places] - (ends - own), own)
        _place(group, column, rows, at, file_of, offset, length, crc32, files, first, pieces)
        checked &= column.crc32 is not None
    return Extents(file_of, offset, length, crc32 if checked else None), counts.tolist()


def _element_rows(
    column: Column, group: Group, elements: Elements
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of the chosen elements of each sample of a group, and their number per sample."""
    assert column.starts is not None
    first, last = column.starts[group.rows], column.starts[group.rows + 1]
    if ((first < 0) | (first > last) | (last > column.rows)).any():
        raise _damaged(column, group)
    if elements is None:
        return column.rows_of(group.rows)
    counts = last - first
    rows: list[npt.NDArray[np.int64]] = []
    own = np.zeros(len(counts), np.int64)
    for place, (start, count) in enumerate(zip(first.tolist(), counts.tolist(), strict=True)):
        if isinstance(elements, slice):
            numbers = np.arange(*elements.indices(count), dtype=np.int64)
        elif column.absent is not None and column.absent[group.rows[place]]:
            continue
        else:
            numbers = np.where(elements < 0, elements + count, elements)
            if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
                raise IndexError(
                    f"field {column.field.name!r} has {count} elements in this sample; asked for {elements.tolist()}"
                )
        own[place] = len(numbers)
        rows.append(numbers + start)
    return (np.concatenate(rows) if rows else np.zeros(0, np.int64)), own


def _damaged(column: Column, group: Group) -> Exception:
    file = None if column.file == INLINE else group.index.files[column.file].name
    return FormatError(
        f"field {column.field.name!r}: the borders of its sequences are not in order, or elements are missing",
        file=file,
        hint="the index is damaged: run `bushel index` on the dataset",
    )


def _place(
    group: Group,
    column: Column,
    rows: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    file_of: npt.NDArray[np.int32],
    offset: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
    crc32: npt.NDArray[np.uint32],
    files: dict[tuple[int, int], int],
    first: int,
    pieces: list[Piece],
) -> None:
    """Put the extents of a column's rows at their places; what cannot be read straight goes to `pieces`."""
    special: dict[int, tuple[int, int]] = {}
    if column.file == INLINE:
        special = {at: (-1, int(column.length[row])) for at, row in enumerate(rows.tolist()) if column.length[row] >= 0}
    else:
        file_of[places] = files.setdefault((group.number, column.file), len(files))
        offset[places] = column.offset[rows]
        length[places] = column.length[rows]
        if column.crc32 is not None:
            crc32[places] = column.crc32[rows]
        if (fragments := column.fragments) is not None and len(fragments.rows):
            found = np.searchsorted(fragments.rows, rows)
            found[found == len(fragments.rows)] = 0
            for at in np.flatnonzero(fragments.rows[found] == rows).tolist():
                special[at] = (int(fragments.start[found[at]]), int(fragments.length[found[at]]))
    for at, (start, size) in special.items():
        row, place = int(rows[at]), int(places[at])
        length[place] = MISSING
        crc = None if column.crc32 is None else int(column.crc32[row])
        where = (int(column.offset[row]), int(column.length[row]))
        pieces.append(Piece(first + place, group.number, column.file, *where, start, size, crc))


def _join(parts: list[Extents], *, checksums: bool) -> list[Extents]:
    if not checksums:
        parts = [Extents(part.file, part.offset, part.length) for part in parts]
    known = [part.crc32 for part in parts if part.crc32 is not None]
    if len(parts) < 2 or 0 < len(known) < len(parts):
        return parts
    file = np.concatenate([np.full(len(p), p.file, np.int32) if isinstance(p.file, int) else p.file for p in parts])
    offset, length = np.concatenate([p.offset for p in parts]), np.concatenate([p.length for p in parts])
    return [Extents(file, offset, length, np.concatenate(known) if known else None)]
