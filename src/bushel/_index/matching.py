"""Compare the checksums in a table with a new table of its changed files. Pure: no I/O.

A value is found again by its sample's key (without keys: its position), its field and its number in
a sequence; else by its extent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from bushel._runtime.arrays import I64, U32, Bools
from bushel.errors import FormatError

from .key_lookup import equal_hashes
from .shard import Keys
from .table import MISSING, FieldExtents, ShardIndex


@dataclass(frozen=True, slots=True)
class Difference:
    """A value whose bytes differ from the recorded ones in a table."""

    key: str | None  # key of its sample, or None if samples have no keys
    sample: int  # number of its sample in the shard now
    field: str  # name of the field
    element: int | None  # number of the element in a sequence, or None
    file: int  # number of its file now
    offset: int  # offset of its bytes now
    expected: int  # the recorded CRC-32
    found: int  # the CRC-32 of the bytes now


@dataclass(frozen=True, slots=True)
class Comparison:
    """The values of a table, compared with the current values of the shard."""

    now: ShardIndex  # the table of the shard now
    equal: int  # number of values that have the recorded checksum
    # for each column of `now`, the rows that differ, and the recorded checksums of these rows
    pairs: dict[str, tuple[I64, U32]]
    missing: int  # number of recorded values that the shard no longer has
    # number of samples that have a recorded empty sequence and no such field now, or the other
    # way round; the shard has no bytes to compare
    empties: int
    gone: int  # number of recorded samples that the shard no longer has
    added: int  # number of samples that the shard did not have
    # for each column of `now`, bool[rows]: whether the row has a recorded checksum
    compared: dict[str, Bools]

    @property
    def differing(self) -> int:
        """Number of values whose bytes differ."""
        return sum(len(rows) for rows, _ in self.pairs.values())

    def expected(self) -> ShardIndex:
        """Return the table of the shard now, with the recorded checksums of the values that have one."""
        columns = dict(self.now.fields)
        for name, (rows, recorded) in self.pairs.items():
            crc32 = columns[name].checksums.copy()
            crc32[rows] = recorded
            columns[name] = replace(columns[name], crc32=crc32)
        return replace(self.now, fields=columns)

    def differences(self) -> Iterator[Difference]:
        """Yield the values whose bytes differ."""
        for name, (rows, expected) in self.pairs.items():
            column = self.now.fields[name]
            crc32 = column.checksums
            for row, recorded in zip(rows.tolist(), expected.tolist(), strict=True):
                sample, element = row, None
                if column.starts is not None:
                    sample = int(np.searchsorted(column.starts, row, side="right")) - 1
                    element = row - int(column.starts[sample])
                key = None if self.now.keys is None else self.now.keys[sample]
                at = int(column.offset[row])
                yield Difference(
                    key, sample, name, element, column.file, at, recorded, int(crc32[row])
                )


def with_sound_keys(index: ShardIndex, path: str, built: Keys | None = None) -> ShardIndex:
    """Return a stored table with its table of keys made again, or taken from the equal keys `built` of the files.

    Raises:
        FormatError: Its keys are damaged.
    """
    stored = index.keys
    if stored is None:
        return index
    if built is not None and same_keys(stored, built):
        return replace(index, keys=built)
    try:
        return replace(index, keys=Keys.build(stored.text, stored.offsets))
    except ValueError as error:
        raise FormatError(f"the index is damaged: {error}", path) from error


def same_keys(one: Keys, other: Keys) -> bool:
    """Return whether two tables have the same keys in the same order."""
    return np.array_equal(one.offsets, other.offsets) and np.array_equal(one.text, other.text)


def compare_values(known: ShardIndex, now: ShardIndex) -> Comparison:
    """Compare the checksums in a table with the checksums of the values that the files have now.

    Columns of `known` without checksums are left out.
    """
    partner = _partners(known, now)
    equal = missing = empties = 0
    wrong: dict[str, list[tuple[I64, U32]]] = {}
    compared = {name: np.zeros(column.rows, np.bool_) for name, column in now.fields.items()}
    for name, column in known.fields.items():
        if column.crc32 is None:
            continue
        rows = np.flatnonzero(column.length != MISSING)
        other = now.fields.get(name)
        empties += _changed_empties(column, other, partner)
        if (
            other is None
            or (other.starts is None) != (column.starts is None)
            or other.crc32 is None
        ):
            name, rows_now = _by_extent(known, column, rows, now)
            other = now.fields.get(name)
        else:
            rows_now = _rows_in(column, other, rows, partner)
        if other is None or other.crc32 is None:
            missing += len(rows)
            continue
        present = rows_now >= 0
        present[present] = other.length[rows_now[present]] != MISSING
        missing += int((~present).sum())
        rows, rows_now = rows[present], rows_now[present]
        compared[name][rows_now] = True
        differs = (column.crc32[rows] != other.crc32[rows_now]) | (
            column.length[rows] != other.length[rows_now]
        )
        equal += int((~differs).sum())
        if differs.any():
            wrong.setdefault(name, []).append((rows_now[differs], column.crc32[rows][differs]))
    pairs = {}
    for name, parts in wrong.items():
        rows, crc32 = map(np.concatenate, zip(*parts, strict=True))
        pairs[name] = rows, crc32
    gone = int((partner < 0).sum())
    added = now.samples - (known.samples - gone)
    return Comparison(now, equal, pairs, missing, empties, gone, added, compared)


def with_known_checksums(known: ShardIndex, now: ShardIndex) -> ShardIndex:
    """Return a table of unchanged files with the checksums that another table of them has for the same extents."""
    columns = {}
    for name, column in now.fields.items():
        columns[name] = column
        if column.crc32 is not None:
            continue
        rows = np.flatnonzero(column.length != MISSING)
        best, rows_known = _by_extent(now, column, rows, known)
        if best and (rows_known >= 0).all():
            crc32 = np.zeros(column.rows, np.uint32)
            crc32[rows] = known.fields[best].checksums[rows_known]
            columns[name] = replace(column, crc32=crc32)
    return replace(now, fields=columns)


def _partners(known: ShardIndex, now: ShardIndex) -> I64:
    """Return int64[known.samples]: the number of each sample now, -1 if it is missing."""
    if known.keys is not None and now.keys is not None and known.keys is not now.keys:
        partner = np.full(known.samples, -1, np.int64)
        places, partners = equal_hashes(known.keys.hashes, now.keys.hashes)
        partner[known.keys.order[places]] = now.keys.order[partners]
        return partner
    partner = np.arange(known.samples)
    partner[now.samples :] = -1
    return partner


def _changed_empties(column: FieldExtents, other: FieldExtents | None, partner: I64) -> int:
    """Return how many samples have an empty sequence in one of two columns, and no value in the other.

    Formats that do not distinguish the two have an empty one.
    """
    if column.starts is None or (other is not None and other.starts is None):
        return 0
    samples = np.flatnonzero(partner >= 0)
    empty, absent = column.empty_and_absent
    if other is None:
        return int(empty[samples].sum())
    empty_now, absent_now = other.empty_and_absent
    samples_now = partner[samples]
    changed = empty[samples] & absent_now[samples_now]
    if other.absent is not None:
        changed |= absent[samples] & empty_now[samples_now]
    return int(changed.sum())


def _rows_in(column: FieldExtents, other: FieldExtents, rows: I64, partner: I64) -> I64:
    """Return the row of the other column for each of these rows; -1 if no row matches."""
    if column.starts is None or other.starts is None:
        return partner[rows]
    sample = np.searchsorted(column.starts, rows, side="right") - 1
    element = rows - column.starts[sample]
    sample_now = partner[sample]
    start, stop = other.starts[sample_now], other.starts[sample_now + 1]
    rows_now: I64 = np.where((sample_now >= 0) & (start + element < stop), start + element, -1)
    return rows_now


def _by_extent(
    table: ShardIndex, column: FieldExtents, rows: I64, other_table: ShardIndex
) -> tuple[str, I64]:
    """Return the field of another table that has checksums and most of these extents, and the row of each in it."""
    best, rows_there = "", np.full(len(rows), -1, np.int64)
    files = _names_of(table, column.file)
    for name, other in other_table.fields.items():
        if other.crc32 is not None and files == _names_of(other_table, other.file) != set():
            these = _find_extents(column, rows, other)
            if not best or (these >= 0).sum() > (rows_there >= 0).sum():
                best, rows_there = name, these
            if (these >= 0).all():
                break
    return best, rows_there


def _names_of(index: ShardIndex, file: int) -> set[str]:
    """Return the names of the files that hold the bytes of a file or block file; empty if the table holds some."""
    blocks = index.blocks_of(file)
    numbers = {file} if blocks is None else set(blocks.file.tolist())
    if min(numbers, default=-1) < 0:
        return set()
    return {index.files[number].name.rpartition("/")[2] for number in numbers}


def _find_extents(column: FieldExtents, rows: I64, other: FieldExtents) -> I64:
    """Return the row of `other` that has the extent of each of these rows; -1 if no row matches."""
    rows_of_other = np.full(len(rows), -1, np.int64)
    present = np.flatnonzero(other.length != MISSING)
    if not len(present) or not len(rows):
        return rows_of_other
    order = present[np.lexsort((other.length[present], other.offset[present]))]
    extents = np.rec.fromarrays([other.offset[order], other.length[order]])
    requested = np.rec.fromarrays([column.offset[rows], column.length[rows]])
    place = np.minimum(np.searchsorted(extents, requested), len(order) - 1)
    same = (other.offset[order[place]] == column.offset[rows]) & (
        other.length[order[place]] == column.length[rows]
    )
    rows_of_other[same] = order[place[same]]
    return rows_of_other
