"""Recovering a damaged bag: the samples whose entries in all tables can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from bushel._index.shard import Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, U64, Bools, offsets_of
from bushel.containers.base import ReadOptions
from bushel.containers.recovery import Fault, Recovered, intact_ranges, looks_complete, trusted
from bushel.errors import FormatError
from bushel.storage import File

from .container import (
    Members,
    column_of_records,
    extents,
    file_column,
    has_idx,
    open_member,
    read_spec,
    sample_keys,
)
from .tables import Refs, Table, decode_refs, inline_table

Complete = Callable[[bytes], bool]

# number of bytes after a table, at the end of a file, in which the end of the table is looked for
_GARBAGE = 1 << 16
_LOST_BYTES = 7
"""Number of missing bytes at the end of a table. The high bytes of its last entry are zeros, so they can be added."""


class _Loose(Struct, frozen=True):
    """A table that may have wrong entries."""

    table: Table  # the table, with valid extents for all records
    whole: Bools  # bool[records], whether both ends of a record can be trusted


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the samples that no wrong entry touches.

    Raises:
        FormatError: Nothing can be recovered.
    """
    files = list(map(open_member, shard.paths))
    if not shard.files[-1].endswith("spec.json"):
        return _one_file(shard, files, options, fault)
    members = Members(shard, files, read_spec(files[-1]))
    if not members.spec:
        raise FormatError("the spec names no field", files[-1].path)
    if has_idx(shard):
        return _split(members, fault)
    return _with_refs(members, fault)


def _one_file(shard: Shard, files: list[File], options: ReadOptions, fault: Fault) -> Recovered:
    unknown = partial(looks_complete, "bytes")
    if len(files) == 2:
        loose = _separate(files[1], files[0], unknown, fault)
    else:
        loose = _inline(files[0], None, unknown, fault)
    column = file_column(loose.table, options.spec)
    return _recovered(shard, files, {column.field.name: column}, loose.whole, 0, fault)


def _split(members: Members, fault: Fault) -> Recovered:
    """Recover generation C: record `i` of every bag belongs to sample `i`."""
    tables = {
        name: _separate(
            members.file(name, ".idx"),
            members.file(name),
            partial(looks_complete, field.codec),
            fault,
        )
        for name, field in members.spec.items()
    }
    samples = min(loose.table.records for loose in tables.values())
    seen = max(int(np.flatnonzero(loose.whole).max(initial=-1)) + 1 for loose in tables.values())
    whole = np.ones(samples, np.bool_)
    columns = {}
    for name, loose in tables.items():
        whole &= loose.whole[:samples]
        offset, length = extents(loose.table)
        columns[name] = members.column(name, "C", offset[:samples], length[:samples])
    lost = max(seen - samples, 0)
    return _recovered(members.shard, members.files, columns, whole, lost, fault)


def _with_refs(members: Members, fault: Fault) -> Recovered:
    """Recover generations A and B: `refs.bag` lists the records of a sample."""
    spec, table_of_refs = members.spec, members.files[-2]
    samples = _records_of_plain_fields(members)
    sequences = [field.sequence for field in spec.values()]
    entries = _inline(table_of_refs, samples, partial(_is_ref, sequences), fault)
    offsets, whole = entries.table.offsets, entries.whole.copy()
    data = table_of_refs.read(0, int(offsets[-1]))
    refs = _refs(data, offsets, whole, sequences, table_of_refs.path, fault)
    columns: dict[str, FieldExtents] = {}
    for (name, field), ref in zip(spec.items(), refs, strict=True):
        file = members.file(name)
        loose = _inline(file, _records_of(ref, whole), partial(looks_complete, field.codec), fault)
        usable = _refers_to_whole_records(ref, loose, whole)
        for row in np.flatnonzero(whole & ~usable)[:10].tolist():
            fault(FormatError(f"sample {row} is lost: its {name!r} cannot be located", file.path))
        whole &= usable
        count = None if ref.count is None else ref.count * whole
        placeholder = Refs(ref.first * whole, count)
        if not loose.table.records and not whole.all() and ref.count is None:
            raise FormatError(
                "the bag has no record, so its dataset has no intact sample", file.path
            )
        columns[name] = column_of_records(
            members, name, entries.table.generation, loose.table, placeholder
        )
    return _recovered(members.shard, members.files, columns, whole, 0, fault)


def _recovered(
    shard: Shard,
    files: list[File],
    columns: dict[str, FieldExtents],
    whole: Bools,
    lost: int,
    fault: Fault,
) -> Recovered:
    if lost:
        fault(
            FormatError(
                f"{lost} samples after sample {len(whole) - 1} "
                "are lost: some of their fields are missing",
                f"{shard.root}/{shard.name}",
            )
        )
    keys = sample_keys(columns, files)
    return Recovered(
        ShardIndex(len(whole), stamps(shard, files), columns, "bag", keys), whole, lost
    )


# Tables of records


def _separate(table: File, data: File, complete: Complete, fault: Fault) -> _Loose:
    """Read an `.idx` without the entries that cannot be right."""
    entries = np.frombuffer(table.read(0, table.size // 8 * 8), "<u8")
    loose = _loosen(
        np.concatenate([np.zeros(1, np.uint64), entries]), data, data.size, complete, "C"
    )
    _report(loose, table, fault)
    return loose


def _inline(file: File, records: int | None, complete: Complete, fault: Fault) -> _Loose:
    """Read the table at the end of a bag without the entries that cannot be right.

    Args:
        file: The bag.
        records: Number of its records, if it is known from elsewhere: this locates a table whose
            last entry is wrong, or that does not end with the file.
        complete: Whether bytes are certainly one whole record.
        fault: As for `recover`.

    Raises:
        FormatError: The table cannot be located.
    """
    damage: FormatError | None = None
    try:
        table = inline_table(file)
    except FormatError as error:
        fault(error)
        damage, everything = error, _Loose(Table(np.zeros(1, np.int64), "B"), np.ones(0, np.bool_))
    else:
        everything = _Loose(table, np.ones(table.records, np.bool_))
        if records in (None, table.records):
            return everything
    for start, end in _places(file, records):
        raw = file.read(start, min(end, file.size) - start)
        entries = np.frombuffer(raw.ljust(end - start, b"\0"), "<u8").astype(np.uint64)
        if records is None:
            starts = bool(entries[0] == 0)
        else:
            starts = len(entries) == records + 1
        if records is not None and len(entries) - starts != records:
            continue
        if starts:
            boundaries = entries
        else:
            boundaries = np.concatenate([np.zeros(1, np.uint64), entries])
        boundaries[-1] = start
        loose = _loosen(boundaries, file, start, complete, "A" if starts else "B")
        if 2 * int(loose.whole.sum()) >= len(loose.whole) - 1:
            _report(loose, file, fault)
            return loose
    if damage is None:
        return everything
    raise damage


def _places(file: File, records: int | None) -> Iterator[tuple[int, int]]:
    """Yield the offsets where the table of a bag may start and end, the most certain ones first."""
    size = file.size
    if size >= 8:
        stated = int.from_bytes(file.read(size - 8, 8), "little")
        if stated <= size - 8 and (size - stated) % 8 == 0:
            yield stated, size
    if not records:
        return
    first = max(0, size - _GARBAGE)
    tail = np.frombuffer(file.read(first, size - first) + bytes(_LOST_BYTES), np.uint8)
    if len(tail) >= 8:
        windows = np.lib.stride_tricks.sliding_window_view(tail, 8)
        # the entry that ends at each possible end of a table
        last = np.ascontiguousarray(windows).view("<u8")[:, 0]
        ends = first + 8 + np.arange(len(last))
        for entries in (records, records + 1):
            starts = ends - 8 * entries
            for row in np.flatnonzero((starts >= 0) & (last == starts.astype(np.uint64)))[
                ::-1
            ].tolist():
                yield int(starts[row]), int(ends[row])
    for entries in (records, records + 1):
        if size >= 8 * entries:
            yield size - 8 * entries, size


def _loosen(boundaries: U64, file: File, limit: int, complete: Complete, generation: str) -> _Loose:
    """Return a table of valid extents, and which of its records can be trusted."""
    sure, possible = trusted(boundaries, limit)
    whole = sure[:-1] & sure[1:]
    chosen = sure.copy()
    for row in np.flatnonzero(possible[:-1] & possible[1:] & ~whole).tolist():
        start, end = int(boundaries[row]), int(boundaries[row + 1])
        if start <= end and complete(file.read(start, end - start)):
            whole[row] = chosen[row] = chosen[row + 1] = True
    ascending = boundaries[chosen].astype(np.int64)
    if (ascending[1:] < ascending[:-1]).any():  # the contents do not decide either
        whole, chosen = sure[:-1] & sure[1:], sure
    offsets = np.maximum.accumulate(np.where(chosen, boundaries, np.uint64(0)).astype(np.int64))
    return _Loose(Table(offsets, generation), whole)


def _is_ref(sequences: Sequence[bool], record: bytes) -> bool:
    """Return whether bytes are one whole record of `refs.bag`."""
    try:
        decode_refs(record, np.array([0, len(record)], np.int64), sequences, "")
    except FormatError:
        return False
    return True


def _report(loose: _Loose, file: File, fault: Fault) -> None:
    for row in np.flatnonzero(~loose.whole)[:10].tolist():
        fault(
            FormatError(
                f"record {row} is lost: the table has a wrong start or end for it", file.path
            )
        )


# References to records


def _records_of_plain_fields(members: Members) -> int | None:
    """Return the number of samples, if the bags of the plain fields agree about it."""
    counts = set()
    for name, field in members.spec.items():
        if not field.sequence:
            try:
                counts.add(inline_table(members.file(name)).records)
            except FormatError:
                continue
    if len(counts) == 1:
        return counts.pop()
    return None


def _records_of(ref: Refs, whole: Bools) -> int | None:
    """Return the number of records of a bag, as those samples show it that refer to records one after another."""
    rows = np.flatnonzero(whole)
    first = ref.first[rows]
    if ref.count is None:
        same = first == rows.astype(np.uint64)
        if 2 * int(same.sum()) > len(rows):
            return len(whole)
        return None
    count = ref.count[rows]
    first, count = first[count > 0], count[count > 0]
    ends = first + count
    meets = ends[:-1] == first[1:]
    chained = np.append(meets, False) | np.insert(meets, 0, False)
    if chained.any():
        return int(ends[chained].max())
    return None


def _refs(
    data: bytes, offsets: I64, whole: Bools, sequences: Sequence[bool], path: str, fault: Fault
) -> list[Refs]:
    """Decode `refs.bag` without the records that have another form; their samples are marked as not whole."""
    samples = len(offsets) - 1
    refs = [
        Refs(np.zeros(samples, np.uint64), np.zeros(samples, np.uint64) if sequence else None)
        for sequence in sequences
    ]
    waiting = [(0, samples)] if samples else []
    while waiting:
        low, high = waiting.pop()
        begin, end = int(offsets[low]), int(offsets[high])
        try:
            part = decode_refs(data[begin:end], offsets[low : high + 1] - begin, sequences, path)
        except FormatError as error:
            if high - low > 1:
                middle = (low + high) // 2
                waiting += [(middle, high), (low, middle)]
                continue
            if whole[low]:
                fault(
                    FormatError(
                        f"sample {low} is lost{error.message.removeprefix('sample 0')}",
                        path,
                        begin + (error.offset or 0),
                    )
                )
            whole[low] = False
            continue
        for ref, decoded in zip(refs, part, strict=True):
            ref.first[low:high] = decoded.first
            if ref.count is not None and decoded.count is not None:
                ref.count[low:high] = decoded.count
    return refs


def _refers_to_whole_records(ref: Refs, loose: _Loose, whole: Bools) -> Bools:
    """Return for each intact sample whether its records exist, can be located, and belong to no other sample."""
    records, first = loose.table.records, ref.first
    rows = np.flatnonzero(whole & ~ref.outside(records))
    start = first[rows].astype(np.int64)
    end = start + ref.counts[rows].astype(np.int64)
    if ref.count is not None and int((end - start).sum()) > records:
        intact = intact_ranges(start, end, records)
        rows, start, end = rows[intact], start[intact], end[intact]
    # each sample has its own record
    if ref.count is None and _records_of(ref, whole) == len(whole):
        is_own = first[rows] == rows.astype(np.uint64)
        taken = ~is_own & np.isin(first[rows], first[rows[is_own]])
        rows, start, end = rows[~taken], start[~taken], end[~taken]
    wrong = offsets_of(~loose.whole)
    usable = np.zeros(len(whole), np.bool_)
    usable[rows[wrong[end] == wrong[start]]] = True
    return usable
