"""Read plans: the extents that a batch of samples needs, and the value of each extent. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._runtime.arrays import I64, U32, ranges, selected
from bushel.storage import Extents

from .elements import Elements, Group, damaged_sequences, element_rows
from .table import MISSING, FieldExtents

if TYPE_CHECKING:
    from bushel.codecs.parts import Part

    from .part_plan import Forms


class Batch(Struct, frozen=True):
    """Extents of a plan that are read with one call."""

    # (shard number, file number) of the files to which the extents refer
    files: Sequence[tuple[int, int]]
    extents: Extents  # the extents; all of them have a checksum to compare with, or none has
    # int64[n], the number of each extent in the plan; None if these are all extents of the plan, in
    # order
    rows: I64 | None = None

    def row(self, number: int) -> int:
        """Return the number in the plan of one of the extents."""
        if self.rows is None:
            return number
        return int(self.rows[number])

    def parts(self) -> list[Batch]:
        """Return the extents file by file, or in halves if all are in one file, which may be a block file."""
        whole = self.extents
        rows = self.rows
        if rows is None:
            rows = np.arange(len(whole))
        parts = [(self.files, half) for half in np.array_split(np.arange(len(whole)), 2)]
        if len(self.files) > 1:  # extents that are missing are with the first file
            file = np.broadcast_to(whole.file, len(whole))
            numbers = range(len(self.files))
            parts = [([self.files[n]], np.flatnonzero(file == n)) for n in numbers]
        return [
            Batch(files, replace(batch_of_rows(files, whole, part).extents, file=0), rows[part])
            for files, part in parts
        ]


def batch_of_rows(files: Sequence[tuple[int, int]], extents: Extents, rows: I64) -> Batch:
    """Return some of the extents of a plan as a batch."""
    file = extents.file if isinstance(extents.file, int) else extents.file[rows]
    places = extents.offset[rows], extents.length[rows], selected(extents.crc32, rows)
    return Batch(files, Extents(file, *places), rows)


def plan_kernel(
    groups: Sequence[Group], samples: int, wanted: Mapping[str, Elements], checked: Collection[int]
) -> tuple[list[Any], list[tuple[int, int]], I64 | None] | None:
    """Plan the read of plain fields of local shards by the kernel `read_samples`, which takes whole tables.

    Args:
        groups: The batch, by shard.
        samples: Number of samples in the batch.
        wanted: The fields, and the elements to read of each.
        checked: Numbers of the shards whose checksums are compared, where they are known.

    Returns:
        The fields, as the kernel takes them, the (shard number, file number) of the files to which
        they refer, and the rows of the samples if the fields are of a whole shard, else None. None
        if a field is read in another way.
    """
    plan = _Builder(groups, samples, checksums=checked, parts=False, forms={})
    fields: list[Any] = []
    whole = alone = len(groups) == 1 and groups[0].places is None
    if alone:  # arrays that are computed are not whole tables
        fields_there = groups[0].index.fields
        names = wanted.keys() & fields_there.keys()
        whole = all(isinstance(fields_there[name].offset, np.ndarray) for name in names)
    for name, elements in wanted.items():
        if (verify := _has_sums(groups, name, elements, checked)) is None:
            return None
        columns = plan.present(name)
        if alone and columns:
            [(group, column)] = columns
            extents, crc32 = (column.offset, column.length), column.crc32 if verify else None
            if not whole:
                extents = _extents_of(column, group.rows)
                crc32 = selected(crc32, group.rows)
            fields.append((name, plan.file(group, column), *extents, crc32))
        elif columns:
            joint, crc32 = plan.plain(columns), None
            if verify and joint.crc32 is not None:
                crc32 = joint.crc32.astype(np.uint32)
            fields.append((name, joint.file, joint.offset, joint.length, crc32))
    return fields, list(plan.files), groups[0].rows if whole else None


def _has_sums(
    groups: Sequence[Group], name: str, elements: Elements, checked: Collection[int]
) -> bool | None:
    """Return whether the values of a field have checksums to compare; None if the kernel cannot read them.

    That is so if only some have checksums, if they are not one extent of a real file each, or not
    read whole.
    """
    sums = None
    for group in groups:
        if (column := group.index.fields.get(name)) is None:
            continue
        has = column.crc32 is not None and group.number in checked
        plain = elements is None and column.starts is None and column.file < len(group.index.files)
        if not plain or sums not in (None, has):
            return None
        sums = has
    return bool(sums)


def _extents_of(column: FieldExtents, rows: I64) -> tuple[I64, I64]:
    """Return offsets and lengths of some rows."""
    if isinstance(column.offset, np.ndarray) or isinstance(column.length, np.ndarray):
        return column.offset[rows], column.length[rows]
    places: tuple[I64, I64] = column.offset.extents(rows)  # blocks of lines compute both at once
    return places


WHOLE = -2
"""The count of a plain value where other values of the field are sequences: see `FieldPlan`."""


def _extents_in(counts: I64 | list[int]) -> I64:
    """Return the number of extents of each sample, by its number of elements."""
    return np.where(np.equal(counts, WHOLE), 1, np.maximum(counts, 0))


def _sizes_of(parts: Sequence[Part | None]) -> I64:
    """Return the number of extents of each part; None stands for a whole value."""
    return np.array([1 if part is None else len(part.offsets) for part in parts], np.int64)


class FieldPlan(Struct, frozen=True):
    """The values of one field among the extents that are read."""

    name: str  # the field
    first: int  # number of its first extent; the extents of a field are adjacent
    codecs: str | list[str]  # the codec of each sample's stored bytes, or one for all
    # number of elements of each sample, -1 if the sample lacks the field; None for a plain field.
    # In a section of a remote file, lists of texts with nulls are values of JSON: `WHOLE`
    counts: list[int] | None
    # the part to read of each value, None for one that is read whole; None if all are
    parts: list[Part | None] | None = None

    def sizes(self) -> I64 | None:
        """Return the number of extents of each sample, int64[samples]; None if each has one."""
        if self.parts is not None:
            return _sizes_of(self.parts)
        if self.counts is None:
            return None
        return _extents_in(self.counts)


class ReadPlan(Struct, frozen=True):
    """The extents to read for a batch of samples."""

    size: int  # number of extents, ordered by field, then by sample
    # the extents: in one batch, or in two if only some have a checksum to compare with
    batches: list[Batch]
    fields: list[FieldPlan]  # the values of each field

    def owner(self, row: int) -> tuple[str, int]:
        """Return the field of an extent, and the place of its sample in the batch."""
        field = next(field for field in reversed(self.fields) if field.first <= row)
        place = row - field.first
        if (sizes := field.sizes()) is not None:
            place = int(np.searchsorted(np.cumsum(sizes), place, side="right"))
        return field.name, place


def plan_read(
    groups: Sequence[Group],
    total: int,
    wanted: Mapping[str, Elements],
    *,
    checksums: Collection[int] = (),
    parts: bool = False,
    forms: Mapping[tuple[int, str], Forms] | None = None,
) -> ReadPlan:
    """Plan the read of a batch.

    Args:
        groups: The batch, by shard.
        total: Number of samples in the batch.
        wanted: The fields, and the elements to read of each.
        checksums: Numbers of the shards whose checksums are compared, where they are known.
        parts: Whether to read only the bytes that the wanted elements need, where these are known:
            packets of clips, rows of arrays. Their checksums are not verified, since they are of
            whole values.
        forms: Where elements are, if the values themselves say that, by number of the shard and
            field.

    Raises:
        IndexError: An element number is out of range.
        FormatError: The table of a sequence field is damaged.
    """
    plan = _Builder(groups, total, checksums=checksums, parts=parts, forms=forms or {})
    for name, elements in wanted.items():
        plan.add(name, elements)
    size, batches = plan.batches()
    return ReadPlan(size, batches, plan.fields)


class _Builder:
    """A read plan under construction, which grows field by field.

    Attributes:
        files: (shard number, file number) to the number by which extents refer to the file.
        extents: The extents of each field; without a checksum where that is -1, or None for all.
        fields: The values of each field.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        total: int,
        *,
        checksums: Collection[int],
        parts: bool,
        forms: Mapping[tuple[int, str], Forms],
    ) -> None:
        self._groups, self._total, self._checksums = groups, total, checksums
        self._parts, self._forms = parts, forms
        self._rows = 0  # number of extents so far
        self.files: dict[tuple[int, int], int] = {}
        self.extents: list[Extents] = []
        self.fields: list[FieldPlan] = []

    def add(self, name: str, elements: Elements) -> None:
        """Plan the read of one field."""
        present, counts, parts = self.present(name), None, None
        if any(column.starts is not None for _, column in present):
            extents, counts = self._sequence(present, elements)
        elif (
            self._parts
            and elements is not None
            and (parts := self._in_parts(name, present, elements)) is not None
        ):
            extents = self._some(present, parts)
        elif len(present) == len(self._groups) == 1:
            extents = self._direct(*present[0])
        else:
            extents = self.plain(present)
        self.fields.append(
            FieldPlan(name, self._rows, _codecs(present, self._total), counts, parts)
        )
        self.extents.append(extents)
        self._rows += len(extents.offset)

    def present(self, name: str) -> list[tuple[Group, FieldExtents]]:
        """Return the shards of the batch that have a field, and its extents there."""
        return [
            (group, column)
            for group in self._groups
            if (column := group.index.fields.get(name)) is not None
        ]

    def file(self, group: Group, column: FieldExtents) -> int:
        """Return the number by which extents refer to the file of a field."""
        return self.files.setdefault((group.number, column.file), len(self.files))

    def _sums(self, group: Group, column: FieldExtents) -> U32 | None:
        """Return the checksums that values of a field are compared with, if they are."""
        return column.crc32 if group.number in self._checksums else None

    def _direct(self, group: Group, column: FieldExtents) -> Extents:
        """Plan a plain field of samples of one shard."""
        rows, sums = group.rows, self._sums(group, column)
        crc32 = None if sums is None else sums[rows]
        return Extents(self.file(group, column), *_extents_of(column, rows), crc32)

    def plain(self, present: Iterable[tuple[Group, FieldExtents]]) -> Extents:
        """Plan a plain field of samples of several shards."""
        extents = self._missing(self._total)
        for group, column in present:
            places = slice(None) if group.places is None else group.places
            self._put(extents, group, column, group.rows, places)
        return extents

    def _in_parts(
        self, name: str, present: Iterable[tuple[Group, FieldExtents]], elements: Elements
    ) -> list[Part | None] | None:
        from .part_plan import plan_parts

        values = [
            (
                column,
                group.rows,
                group.places_in(self._total),
                self._forms.get((group.number, name)),
            )
            for group, column in present
        ]
        return plan_parts(values, self._total, elements)

    def _some(
        self, present: Sequence[tuple[Group, FieldExtents]], parts: Sequence[Part | None]
    ) -> Extents:
        """Plan the parts of values, and the values that are read whole."""
        sizes = _sizes_of(parts)
        first = np.cumsum(sizes) - sizes
        extents = self._missing(int(sizes.sum()))
        for group, column in present:
            places = group.places_in(self._total)
            whole = np.array([parts[place] is None for place in places.tolist()], np.bool_)
            self._put(extents, group, column, group.rows[whole], first[places[whole]])
            for row, place in zip(
                group.rows[~whole].tolist(), places[~whole].tolist(), strict=True
            ):
                if (part := parts[place]) is not None:
                    range_of_value = slice(int(first[place]), int(first[place] + sizes[place]))
                    extents.file[range_of_value] = self.file(group, column)  # type: ignore[index] # `_missing` makes an array
                    extents.offset[range_of_value] = part.offsets + column.offset[row]
                    extents.length[range_of_value] = part.lengths
        return extents

    def _sequence(
        self, present: Iterable[tuple[Group, FieldExtents]], elements: Elements
    ) -> tuple[Extents, list[int]]:
        """Plan a sequence field. Returns also the number of elements of each sample."""
        counts = np.full(self._total, -1, np.int64)
        chosen = []
        for group, column in present:
            places = group.places_in(self._total)
            if column.starts is None:
                is_there = column.length[group.rows] >= 0
                rows, places = group.rows[is_there], places[is_there]
                counts[places] = WHOLE
                chosen.append((group, column, rows, places))
                continue
            rows, counts_of_samples = element_rows(column, group, elements)
            if (column.length[rows] < 0).any():
                raise damaged_sequences(column, group)
            counts[places] = counts_of_samples
            if column.absent is not None:
                counts[places[column.absent[group.rows] & (counts_of_samples == 0)]] = -1
            chosen.append((group, column, rows, places))
        sizes = _extents_in(counts)
        first = np.cumsum(sizes) - sizes
        extents = self._missing(int(sizes.sum()))
        for group, column, rows, places in chosen:
            self._put(extents, group, column, rows, ranges(first[places], sizes[places]))
        return extents, counts.tolist()

    def _missing(self, size: int) -> Extents:
        """Return extents to fill in. All are missing at first, and without a checksum."""
        file, offset = np.zeros(size, np.int32), np.zeros(size, np.int64)
        sums: Any = np.full(size, -1, np.int64) if self._checksums else None
        return Extents(file, offset, np.full(size, MISSING, np.int64), sums)

    def _put(
        self, extents: Extents, group: Group, column: FieldExtents, rows: I64, at: I64 | slice
    ) -> None:
        """Fill in the extents of rows of a field at the numbers `at`."""
        extents.file[at] = self.file(group, column)  # type: ignore[index] # `_missing` makes an array
        extents.offset[at], extents.length[at] = _extents_of(column, rows)
        if extents.crc32 is not None and (sums := self._sums(group, column)) is not None:
            extents.crc32[at] = sums[rows]

    def batches(self) -> tuple[int, list[Batch]]:
        """Return the number of all extents, and the extents, divided by whether they have a checksum."""
        files = list(self.files)
        if not self.extents:
            return 0, []
        extents = self.extents[0] if len(self.extents) == 1 else _joined(self.extents)
        if extents.crc32 is None:
            return self._rows, [Batch(files, extents)]
        unchecked = extents.crc32 < 0
        if unchecked.all():
            return self._rows, [Batch(files, replace(extents, crc32=None))]
        extents = replace(extents, crc32=extents.crc32.astype(np.uint32, copy=False))
        unchecked &= extents.length != MISSING
        if not unchecked.any():
            return self._rows, [Batch(files, extents)]
        summed, rest = np.flatnonzero(~unchecked), np.flatnonzero(unchecked)
        unsummed = batch_of_rows(files, replace(extents, crc32=None), rest)
        return self._rows, [batch_of_rows(files, extents, summed), unsummed]


def _joined(fields: Sequence[Extents]) -> Extents:
    """Return the extents of all fields."""
    file = np.concatenate([np.full(len(e.offset), e.file, np.int32) for e in fields])
    offset = np.concatenate([e.offset for e in fields])
    length = np.concatenate([e.length for e in fields])
    if all(e.crc32 is None for e in fields):
        return Extents(file, offset, length)
    sums = [np.full(len(e.offset), -1 if e.crc32 is None else e.crc32, np.int64) for e in fields]
    return Extents(file, offset, length, np.concatenate(sums))


def _codecs(present: Sequence[tuple[Group, FieldExtents]], total: int) -> str | list[str]:
    names = {column.codec for _, column in present}
    if len(names) <= 1:
        if names:
            return names.pop()
        return "bytes"
    codecs = ["bytes"] * total
    for group, column in present:
        for place in group.places_in(total).tolist():
            codecs[place] = column.codec
    return codecs
