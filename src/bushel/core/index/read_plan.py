"""Read plans: which extents a batch of samples needs, and which value each extent is. Pure: no I/O."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.codecs.clip_parts import ClipPart
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
    "element_rows",
    "normalise_mask",
    "plan_read",
    "stored_lengths",
]

Mask = Iterable[str] | Mapping[str, Any] | None
"""The fields to read: None for all, names, or a mapping of names to True, False, or elements of a sequence or clip."""

Elements = slice | npt.NDArray[np.int64] | None
"""The elements of a sequence field, or the frames of a clip, to read; None for all."""


def normalise_mask(mask: Mask, known: Sequence[str], ranged: Iterable[str]) -> dict[str, Elements]:
    """Check a mask against the existing fields, and return the elements to read of each field in it.

    Args:
        mask: The mask, as a user gives it.
        known: The existing fields.
        ranged: The fields that can be read in part: sequence fields and clips.

    Raises:
        KeyError: A field is unknown.
        TypeError: A value is neither a bool nor, for a field in `ranged`, a selection of elements.
    """
    if mask is None:
        return dict.fromkeys(known)
    if isinstance(mask, str):
        raise TypeError(f"give fields as a list or a dict, such as [{mask!r}], not {mask!r}")
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
            raise TypeError(f"field {name!r} is neither a sequence nor a clip: ask for it with True, not {value!r}")
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
            f"give the elements of {name!r} as a slice, a range or a list of numbers, not {value!r}"
        ) from error
    except OverflowError as error:
        raise IndexError(f"{value!r} is out of range for any sequence") from error


@dataclass(frozen=True, slots=True)
class Piece:
    """A value whose bytes are not one extent of a file: inline bytes, or a slice of a record that has to be joined.

    Attributes:
        row: Number of the value in the plan's extents, where its length is -1.
        shard: Number of the shard.
        file: Number of the file in the shard, or `INLINE`.
        offset: Offset of the raw bytes.
        length: Length of the raw bytes.
        start: Offset of the value in the joined payload; -1 if nothing has to be joined.
        size: Length of the value in bytes.
        crc32: CRC-32 of the value, or None.
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
    """The values of one field among the extents that are read.

    Attributes:
        name: The field.
        first: Number of its first extent. The extents of a field are adjacent.
        codecs: The codec of each sample's stored bytes, or one for all.
        counts: Number of elements of each sample, -1 if the sample lacks the field; None for a plain field.
        elements: The frames to decode of each clip; None for all.
        parts: The part to read of each clip, None for one that is read whole; None if all values are. A part has an
            extent per packet.
    """

    name: str
    first: int
    codecs: str | list[str]
    counts: list[int] | None
    elements: Elements = None
    parts: list[ClipPart | None] | None = None

    def sizes(self) -> npt.NDArray[np.int64] | None:
        """Return the number of extents of each sample, int64[samples]; None if each has one."""
        if self.parts is not None:
            return np.array([1 if part is None else len(part.offsets) for part in self.parts], np.int64)
        return None if self.counts is None else np.maximum(self.counts, 0)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The extents to read for a batch of samples.

    Attributes:
        files: (shard number, file number) of the files to which the extents refer.
        extents: All extents, ordered by field, then by sample. They are one batch, so that all are read together,
            unless checksums are verified and only some fields have them.
        fields: The values of each field.
        pieces: The values that are not one extent.
    """

    files: list[tuple[int, int]]
    extents: list[Extents]
    fields: list[FieldPlan]
    pieces: list[Piece]

    def owner(self, row: int) -> tuple[str, int]:
        """Return the field of an extent, and the place of its sample in the batch."""
        field = next(field for field in reversed(self.fields) if field.first <= row)
        place = row - field.first
        if (sizes := field.sizes()) is not None:
            place = int(np.searchsorted(np.cumsum(sizes), place, side="right"))
        return field.name, place


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of a batch that are in one shard.

    Attributes:
        number: Number of the shard.
        index: Its table.
        rows: int64[k], numbers of the samples within the shard.
        places: int64[k], their places in the batch, or None if they are the whole batch.
    """

    number: int
    index: ShardIndex
    rows: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64] | None

    def places_in(self, total: int) -> npt.NDArray[np.int64]:
        """Return the places of the samples in the batch, which has `total` samples."""
        return np.arange(total) if self.places is None else self.places


def plan_read(
    groups: Sequence[Group], total: int, wanted: Mapping[str, Elements], *, checksums: bool, parts: bool = False
) -> ReadPlan:
    """Plan the read of a batch.

    Args:
        groups: The batch, by shard.
        total: Number of samples in the batch.
        wanted: The fields, from `normalise_mask`.
        checksums: Whether to verify checksums where they are known.
        parts: Whether to read only the packets of clips that the wanted frames need, where the index has them. Their
            checksums are not verified, since they are of whole clips.

    Raises:
        IndexError: An element number is out of range.
        FormatError: The table of a sequence field is damaged.
    """
    plan = _Builder(groups, total, checksums=checksums, parts=parts)
    for name, elements in wanted.items():
        plan.add(name, elements)
    return ReadPlan(list(plan.files), _join(plan.extents, checksums=checksums), plan.fields, plan.pieces)


def stored_lengths(groups: Sequence[Group], total: int, name: str) -> npt.NDArray[np.int64]:
    """Return the stored bytes of one field in each sample of a batch: int64[total], `MISSING` if a sample lacks it.

    Raises:
        FormatError: The table of a sequence field is damaged.
    """
    lengths = np.full(total, MISSING, np.int64)
    for group in groups:
        column = group.index.columns.get(name)
        if column is None:
            continue
        places = group.places_in(total)
        rows, counts = (group.rows, None) if column.starts is None else element_rows(column, group, None)
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


class _Builder:
    """A read plan under construction, which grows field by field.

    Attributes:
        files: (shard number, file number) to the number by which extents refer to the file.
        extents: The extents of each field.
        fields: The values of each field.
        pieces: The values that are not one extent.
    """

    def __init__(self, groups: Sequence[Group], total: int, *, checksums: bool, parts: bool) -> None:
        self._groups, self._total, self._checksums, self._parts = groups, total, checksums, parts
        self._rows = 0  # number of extents so far
        self.files: dict[tuple[int, int], int] = {}
        self.extents: list[Extents] = []
        self.fields: list[FieldPlan] = []
        self.pieces: list[Piece] = []

    def add(self, name: str, elements: Elements) -> None:
        """Plan the read of one field."""
        columns = [group.index.columns.get(name) for group in self._groups]
        present = [(group, column) for group, column in zip(self._groups, columns, strict=True) if column is not None]
        counts = parts = None
        in_parts = self._parts and elements is not None and any(column.frames is not None for _, column in present)
        if any(column.starts is not None for _, column in present):
            extents, counts = self._sequence(present, elements)
        elif in_parts and (parts := self._clips(present, elements)) is not None:
            extents = self._packets(present, parts)
        elif len(present) == len(self._groups) == 1 and present[0][1].plain:
            extents = self._direct(*present[0])
        else:
            extents = self._plain(present)
        inside = elements if counts is None and present else None
        self.fields.append(FieldPlan(name, self._rows, _codecs(present, self._total), counts, inside, parts))
        self.extents.append(extents)
        self._rows += len(extents.offset)

    def _file(self, group: Group, column: Column) -> int:
        return self.files.setdefault((group.number, column.file), len(self.files))

    def _direct(self, group: Group, column: Column) -> Extents:
        """Plan a plain field of samples of one shard."""
        rows = group.rows
        crc32 = column.crc32[rows] if self._checksums and column.crc32 is not None else None
        return Extents(self._file(group, column), column.offset[rows], column.length[rows], crc32)

    def _plain(self, present: Iterable[tuple[Group, Column]]) -> Extents:
        extents = _missing(self._total)
        known = [
            self._put(extents, group, column, group.rows, group.places_in(self._total)) for group, column in present
        ]
        return extents if all(known) else replace(extents, crc32=None)

    def _clips(self, present: Iterable[tuple[Group, Column]], elements: Elements) -> list[ClipPart | None] | None:
        """Return the part of each clip that the elements need; None if all are read whole."""
        parts: list[ClipPart | None] = [None] * self._total
        if elements is None:
            return None
        for group, column in present:
            if (frames := column.frames) is None:
                continue
            for row, place in zip(group.rows.tolist(), group.places_in(self._total).tolist(), strict=True):
                size = int(column.length[row])
                packets = frames.of(row, size) if frames.knows(row) and size != MISSING else None
                part = None if packets is None else packets.part(elements)
                # packets of a damaged table could overlap, and be much more than the clip
                parts[place] = part if part is not None and part.nbytes <= size else None
        return parts if any(part is not None for part in parts) else None

    def _packets(self, present: Sequence[tuple[Group, Column]], parts: Sequence[ClipPart | None]) -> Extents:
        """Plan the packets of clips, and the clips that are read whole."""
        sizes = np.array([1 if part is None else len(part.offsets) for part in parts], np.int64)
        first = np.cumsum(sizes) - sizes
        extents = _missing(int(sizes.sum()))
        for group, column in present:
            places = group.places_in(self._total)
            whole = np.array([parts[place] is None for place in places.tolist()], np.bool_)
            self._put(extents, group, column, group.rows[whole], first[places[whole]])
            for row, place in zip(group.rows[~whole].tolist(), places[~whole].tolist(), strict=True):
                if (part := parts[place]) is not None:
                    own = slice(int(first[place]), int(first[place] + sizes[place]))
                    extents.file[own] = self._file(group, column)  # type: ignore[index] # `_missing` makes an array
                    extents.offset[own] = part.offsets + column.offset[row]
                    extents.length[own] = part.lengths
        return replace(extents, crc32=None)

    def _sequence(self, present: Iterable[tuple[Group, Column]], elements: Elements) -> tuple[Extents, list[int]]:
        """Plan a sequence field. Returns also the number of elements of each sample."""
        counts = np.full(self._total, -1, np.int64)
        chosen = []
        for group, column in present:
            if column.starts is None:
                continue
            rows, own = element_rows(column, group, elements)
            if (column.length[rows] < 0).any():
                raise _damaged(column, group)
            places = group.places_in(self._total)
            counts[places] = own
            if column.absent is not None:
                counts[places[column.absent[group.rows] & (own == 0)]] = -1
            chosen.append((group, column, rows, places))
        sizes = np.maximum(counts, 0)
        first = np.cumsum(sizes) - sizes
        extents = _missing(int(sizes.sum()))
        known = []
        for group, column, rows, places in chosen:
            own = sizes[places]
            at = np.arange(len(rows), dtype=np.int64) + np.repeat(first[places] - (np.cumsum(own) - own), own)
            known.append(self._put(extents, group, column, rows, at))
        return (extents if all(known) else replace(extents, crc32=None)), counts.tolist()

    def _put(
        self, extents: Extents, group: Group, column: Column, rows: npt.NDArray[np.int64], at: npt.NDArray[np.int64]
    ) -> bool:
        """Fill in the extents of a column's rows at the numbers `at`, and return whether their checksums are known."""
        special: dict[int, tuple[int, int]] = {}
        if column.file == INLINE:
            length = column.length[rows].tolist()
            special = {number: (-1, size) for number, size in enumerate(length) if size >= 0}
        else:
            extents.file[at] = self._file(group, column)  # type: ignore[index] # `_missing` makes an array
            extents.offset[at] = column.offset[rows]
            extents.length[at] = column.length[rows]
            if column.crc32 is not None and extents.crc32 is not None:
                extents.crc32[at] = column.crc32[rows]
            if (fragments := column.fragments) is not None and len(fragments.rows):
                found = np.searchsorted(fragments.rows, rows)
                found[found == len(fragments.rows)] = 0
                for number in np.flatnonzero(fragments.rows[found] == rows).tolist():
                    special[number] = (int(fragments.start[found[number]]), int(fragments.length[found[number]]))
        for number, (start, size) in special.items():
            row, place = int(rows[number]), int(at[number])
            extents.length[place] = MISSING
            crc32 = None if column.crc32 is None else int(column.crc32[row])
            raw = (int(column.offset[row]), int(column.length[row]))
            self.pieces.append(Piece(self._rows + place, group.number, column.file, *raw, start, size, crc32))
        return column.crc32 is not None


def _missing(size: int) -> Extents:
    """Return extents to fill in. All are missing at first."""
    return Extents(
        np.zeros(size, np.int32), np.zeros(size, np.int64), np.full(size, MISSING, np.int64), np.zeros(size, np.uint32)
    )


def _codecs(present: Sequence[tuple[Group, Column]], total: int) -> str | list[str]:
    names = {column.codec for _, column in present}
    if len(names) <= 1:
        return names.pop() if names else "bytes"
    codecs = ["bytes"] * total
    for group, column in present:
        for place in group.places_in(total).tolist():
            codecs[place] = column.codec
    return codecs


def element_rows(
    column: Column, group: Group, elements: Elements
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows of the chosen elements of each sample of a group, and their number per sample."""
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
        f"field {column.field.name!r}: the offsets of its sequences are not ascending, or elements are missing",
        file=file,
        hint="the index is damaged: run `bushel index` on the dataset",
    )


def _join(parts: list[Extents], *, checksums: bool) -> list[Extents]:
    if not checksums:
        parts = [Extents(part.file, part.offset, part.length) for part in parts]
    known = [part.crc32 for part in parts if part.crc32 is not None]
    if len(parts) < 2 or 0 < len(known) < len(parts):
        return parts
    file = np.concatenate(
        [np.full(len(p.offset), p.file, np.int32) if isinstance(p.file, int) else p.file for p in parts]
    )
    offset, length = np.concatenate([p.offset for p in parts]), np.concatenate([p.length for p in parts])
    return [Extents(file, offset, length, np.concatenate(known) if known else None)]
